//! A daemon from its lock to its last session's end.

use crate::{
    account::AccountScope,
    agents::Agents,
    audit::Audit,
    clock::Sources,
    registry::{self, DaemonFacts, Registry},
    server,
    session::{StoredSession, Surroundings},
};
use maestro_acp::AgentTable;
use maestro_log::{
    Committer, DataDir, DataDirError, DataLock, DirectoryId, LockError, LogDir, LogDirError,
    StartCommitterError,
};
use maestro_process::{GuardProgram, ProcessDefaults, SpawnRecord, Spawner, StartError};
use maestro_protocol::{AuditEvent, SessionId, Timestamp};
use rustix::process::Signal;
use serde::Serialize;
use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio::{
    signal::unix::{SignalKind, signal},
    task::{JoinError, JoinHandle},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// What a daemon is started with.
#[derive(Debug)]
pub struct Config {
    /// The data directory; made if missing.
    pub data_path: PathBuf,
    /// The agents that sessions can have.
    pub agents: AgentTable,
    /// maestro's own program, for the demo agent.
    pub program: PathBuf,
    /// What agents get back of what the daemon has changed for itself.
    pub defaults: ProcessDefaults,
}

/// Where a daemon listens.
#[derive(Debug, Clone)]
pub struct ReadyInfo {
    /// Its Unix socket.
    pub socket: PathBuf,
}

/// Why a daemon did not start, or did not end well.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The data directory cannot be used.
    #[error("the data directory `{path}` cannot be used")]
    DataDir {
        /// The directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: DataDirError,
    },
    /// Another daemon has the data directory. Exit code 75.
    #[error("the data directory is in use")]
    Locked {
        /// By whom.
        #[source]
        source: LockError,
    },
    /// The thread that makes lines durable could not be started.
    #[error("the thread that flushes event logs could not be started")]
    Committer {
        /// Why.
        #[source]
        source: StartCommitterError,
    },
    /// The audit log could not be opened.
    #[error("the audit log `{}` could not be opened", path.display())]
    Audit {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The sessions could not be listed.
    #[error("the sessions of the data directory could not be read")]
    Sessions {
        /// Why.
        #[source]
        source: LogDirError,
    },
    /// The thread that starts agents could not be started.
    #[error("the thread that starts agents could not be started")]
    Spawner {
        /// Why.
        #[source]
        source: StartError,
    },
    /// The socket could not be opened.
    #[error("the Unix socket could not be opened")]
    Socket {
        /// Why.
        #[source]
        source: server::BindError,
    },
    /// The server ended by itself, or badly. All sessions were shut down.
    #[error("the server of the API ended; all sessions were shut down")]
    Server {
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A route could be used by anybody. Nothing was begun.
    #[error("the routes of the API are not safe to serve")]
    Routes {
        /// Which.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// `run/daemon.json` could not be written, or signals not be listened to.
    #[error("{step} failed")]
    Step {
        /// What was tried.
        step: &'static str,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
}

impl ServeError {
    /// Whether another daemon has the data directory.
    pub fn is_locked(&self) -> bool {
        matches!(self, Self::Locked { source: LockError::Held { .. } })
    }
}

/// How the server ended.
type ServerResult = Result<(), server::ServerError>;

/// `run/daemon.json`: for people and scripts that look for the daemon.
#[derive(Serialize)]
struct DaemonFile<'a> {
    pid: u32,
    version: &'a str,
    socket: &'a Path,
    started_at: Timestamp,
}

/// Runs a daemon until SIGTERM or SIGINT, then shuts it down gracefully: running sessions get their recovery marker.
/// `on_ready` is called when it accepts connections. Must run inside a multi-threaded tokio runtime.
///
/// # Errors
/// When it cannot start; nothing was changed then but what a data directory needs to exist.
pub async fn serve(config: Config, on_ready: impl FnOnce(&ReadyInfo)) -> Result<(), ServeError> {
    server::all_guarded().map_err(|unguarded| ServeError::Routes { source: Box::new(unguarded) })?;
    let (data_dir, lock) = take_data_dir(&config.data_path)?;
    let step = |step| move |source| ServeError::Step { step, source };
    let mut terminate = signal(SignalKind::terminate()).map_err(step("listening to SIGTERM"))?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(step("listening to SIGINT"))?;
    // A write beyond a limit on the length of files is then an error like that of a full disk, and not the end.
    let _beyond_limit =
        signal(SignalKind::from_raw(Signal::XFSZ.as_raw())).map_err(step("taking SIGXFSZ"))?;
    let committer = Committer::start().map_err(|source| ServeError::Committer { source })?;
    let spawner = GuardProgram::this_executable()
        .and_then(|guard| Spawner::start(guard, config.defaults))
        .map_err(|source| ServeError::Spawner { source })?;
    let sources = Sources::system();
    let started_at = sources.clock.now();

    let logs =
        LogDir::open(&data_dir.sessions(), &committer).map_err(|source| ServeError::Sessions { source })?;
    let path = data_dir.path().join("audit.jsonl");
    let opened = Audit::open(&path, Arc::clone(&sources.clock));
    let (audit, audit_thread) = opened.map_err(|source| ServeError::Audit { path, source })?;
    let version = env!("CARGO_PKG_VERSION").into();
    audit.note(AccountScope::owner().email(), AuditEvent::DaemonStarted { version });
    let Loaded { stored, marked, unreadable } = load(&logs)?;
    sweep(&stored, lock.directory()).await;
    let socket = data_dir
        .socket_path()
        .map_err(|source| ServeError::DataDir { path: config.data_path.clone(), source })?;
    // Clients that connect now wait until the registry is there. Starting it consumes recovery markers, so nothing that
    // can fail comes after it.
    let listener = server::bind(&socket).map_err(|source| ServeError::Socket { source })?;
    let daemon_file = data_dir.run().join("daemon.json");
    write_daemon_file(&daemon_file, &socket, started_at).map_err(step("writing run/daemon.json"))?;

    let tasks = TaskTracker::new();
    let agents = Agents::new(config.agents, config.program);
    let daemon = Arc::new(DaemonFacts { started_at, sessions: data_dir.sessions(), unreadable });
    let directory = lock.directory();
    let tracker = tasks.clone();
    let around = Surroundings {
        sources,
        agents,
        logs,
        directory,
        spawner,
        tasks: tracker,
        daemon,
        audit: audit.clone(),
    };
    let registry = registry::start(around, stored, &marked);
    let stop = CancellationToken::new();
    let mut server = tokio::spawn(server::run(listener, registry.clone(), audit.clone(), stop.clone()));
    tracing::info!("maestro {} serves {}", env!("CARGO_PKG_VERSION"), data_dir.path().display());
    on_ready(&ReadyInfo { socket: socket.clone() });

    let broken = tokio::select! {
        _ = terminate.recv() => { tracing::info!("SIGTERM: shutting down"); None }
        _ = interrupt.recv() => { tracing::info!("SIGINT: shutting down"); None }
        ended = &mut server => Some(ended),
    };
    // Without its server nobody could reach the daemon: it ends as gracefully, and its successor resumes the sessions.
    let ended = shut_down(&registry, &stop, server, broken).await;
    drop(registry);
    tasks.close();
    tasks.wait().await;
    audit.note(AccountScope::owner().email(), AuditEvent::DaemonEnded);
    if let Err(error) = tokio::task::spawn_blocking(move || audit_thread.end()).await {
        tracing::error!("The end of the audit log was not waited for: {error}");
    }
    for file in [&socket, &daemon_file] {
        if let Err(error) = std::fs::remove_file(file) {
            tracing::warn!("{} could not be removed: {error}", file.display());
        }
    }
    tracing::info!("maestro has shut down");
    ended
}

fn take_data_dir(path: &Path) -> Result<(DataDir, DataLock), ServeError> {
    let data_dir =
        DataDir::open(path).map_err(|source| ServeError::DataDir { path: path.to_path_buf(), source })?;
    let lock = data_dir.lock().map_err(|source| ServeError::Locked { source })?;
    Ok((data_dir, lock))
}

/// What a data directory holds.
struct Loaded {
    stored: Vec<StoredSession>,
    /// Those that a graceful shutdown marked.
    marked: BTreeSet<SessionId>,
    /// Those that cannot be read, and why. They are left alone.
    unreadable: Vec<(SessionId, String)>,
}

fn load(logs: &LogDir) -> Result<Loaded, ServeError> {
    let sidecars = logs.sidecars::<StoredSession>().map_err(|source| ServeError::Sessions { source })?;
    let tell = |(id, error)| {
        let told = crate::report::chain(&error);
        tracing::error!(session.id = %id, "Session `{id}` is left out, its sidecar cannot be read: {told}");
        (id, told)
    };
    let unreadable = sidecars.unreadable.into_iter().map(tell).collect();
    let marked = logs.marked().map_err(|source| ServeError::Sessions { source })?.into_iter().collect();
    let stored = sidecars.read.into_iter().map(|(_, stored)| stored).collect();
    Ok(Loaded { stored, marked, unreadable })
}

/// Ends what the guards of a killed daemon left behind, if they were killed too.
async fn sweep(stored: &[StoredSession], directory: DirectoryId) {
    let records: Vec<SpawnRecord> =
        stored.iter().filter_map(|stored| stored.left_by(directory)).cloned().collect();
    if records.is_empty() {
        return;
    }
    match tokio::task::spawn_blocking(move || maestro_process::sweep(&records)).await {
        Ok(report) => {
            let (ended, left) = (report.ended.len(), &report.left);
            tracing::info!("Processes of the daemon before: {ended} ended, left {left:?}");
            if let Some(trouble) = report.trouble {
                tracing::error!("Processes of the daemon before could not all be looked for: {trouble}");
            }
        }
        Err(error) => tracing::error!("Looking for processes of the daemon before broke off: {error}"),
    }
}

/// Written whole or not at all: a reader never sees half of it.
fn write_daemon_file(path: &Path, socket: &Path, started_at: Timestamp) -> io::Result<()> {
    let content =
        DaemonFile { pid: std::process::id(), version: env!("CARGO_PKG_VERSION"), socket, started_at };
    let temporary = path.with_extension("json.new");
    std::fs::write(&temporary, serde_json::to_vec_pretty(&content)?)?;
    std::fs::rename(&temporary, path)
}

/// Ends the sessions first, so that their sockets can say why they close, then the server, unless it has ended already.
async fn shut_down(
    registry: &Registry,
    stop: &CancellationToken,
    server: JoinHandle<ServerResult>,
    broken: Option<Result<ServerResult, JoinError>>,
) -> Result<(), ServeError> {
    registry.shut_down().await;
    stop.cancel();
    let ended = match broken {
        Some(ended) => ended,
        None => server.await,
    };
    match ended {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(ServeError::Server { source: Box::new(error) }),
        Err(error) => Err(ServeError::Server { source: Box::new(error) }),
    }
}
