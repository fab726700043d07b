//! Starting an agent: spawn, handshake, nothing left behind when it fails. Runs as a task beside the actor.

use maestro_acp::{AgentEntry, Connection, HandshakeError, Opened, Outbox, SessionOpen, Setting, StderrTail};
use maestro_process::{
    AgentExit, Child, ExitWatch, Marker, SpawnError, SpawnRecord, SpawnRequest, Spawner, Terminator, TreeEnd,
};
use maestro_protocol::SessionId;
use serde_json::Value;
use std::{
    collections::{BTreeMap, VecDeque},
    ffi::OsString,
    path::PathBuf,
    time::Duration,
};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Everything the task needs.
pub(super) struct StartPlan {
    pub(super) session: SessionId,
    pub(super) entry: AgentEntry,
    pub(super) program: PathBuf,
    pub(super) args: Vec<OsString>,
    pub(super) cwd: PathBuf,
    pub(super) env: BTreeMap<String, String>,
    pub(super) token: Uuid,
    pub(super) open: SessionOpen,
    pub(super) wishes: Vec<Setting>,
    /// Told the identity of the process tree before the handshake begins, so that a sweep can find it.
    pub(super) spawned: oneshot::Sender<SpawnRecord>,
    /// Cancelled when the session is killed while it starts.
    pub(super) stop: CancellationToken,
}

/// An agent with an open session.
pub(super) struct Agent {
    pub(super) entry: AgentEntry,
    pub(super) connection: Connection,
    pub(super) exit: ExitWatch,
    pub(super) terminator: Terminator,
    pub(super) stderr: StderrTail,
    pub(super) acp_session_id: String,
    /// The modes and models that it told at the opening, verbatim.
    pub(super) modes: Option<Value>,
    pub(super) models: Option<Value>,
    /// Whether its session was loaded and not made.
    pub(super) loaded: bool,
    /// Messages that found no room in the outbox yet. Everything goes through here, so that nothing overtakes.
    pub(super) unsent: VecDeque<Vec<u8>>,
}

/// What the task came to.
pub(super) enum StartOutcome {
    Running(Box<Agent>, Box<Opened>),
    /// The agent could not be spawned.
    NotSpawned(SpawnError),
    /// It was spawned and no session could be opened; nothing of it runs any more.
    NotOpened {
        error: HandshakeError,
        /// How it had ended, if it had ended by itself.
        exit: Option<AgentExit>,
        stderr: String,
    },
    /// It was stopped from outside; nothing of it runs any more.
    Stopped,
}

/// Starts the agent. Whatever the outcome but `Running`, no process is left.
pub(super) async fn start(plan: StartPlan, spawner: Spawner) -> StartOutcome {
    let request = SpawnRequest {
        program: plan.program,
        args: plan.args,
        cwd: plan.cwd,
        env: maestro_process::session_environment(std::env::vars_os(), &plan.entry.env_names, &plan.env),
        marker: Marker { session: plan.session, token: plan.token },
        grace_ms: TREE_GRACE_MS,
    };
    let child = match spawner.spawn(request).await {
        Ok(child) => child,
        Err(error) => return StartOutcome::NotSpawned(error),
    };
    let Child { stdin, stdout, stderr, exit, terminator, record, pid } = child;
    tracing::debug!(session.id = %plan.session, "The agent of session `{}` has pid {pid}", plan.session);
    // The actor may have stopped listening because it was told to stop; the token below says so too.
    drop(plan.spawned.send(record));
    let stderr = StderrTail::drain(stderr);
    let mut connection = Connection::new(stdin, stdout);
    let loaded = matches!(plan.open, SessionOpen::Load { .. });
    let opened = tokio::select! {
        biased;
        () = plan.stop.cancelled() => None,
        opened = maestro_acp::open(&mut connection, &plan.entry, plan.open, plan.wishes) => Some(opened),
    };
    match opened {
        Some(Ok(opened)) => {
            let acp_session_id = opened.acp_session_id.clone();
            let agent = Agent {
                entry: plan.entry,
                connection,
                exit,
                terminator,
                stderr,
                acp_session_id,
                modes: opened.modes.clone(),
                models: opened.models.clone(),
                loaded,
                unsent: VecDeque::new(),
            };
            StartOutcome::Running(Box::new(agent), Box::new(opened))
        }
        Some(Err(error)) => {
            let exit = own_exit(&error, exit).await;
            let stderr = end_tree(&terminator, connection.outbox(), &stderr).await;
            StartOutcome::NotOpened { error, exit, stderr }
        }
        None => {
            end_tree(&terminator, connection.outbox(), &stderr).await;
            StartOutcome::Stopped
        }
    }
}

/// How long the exit of an agent that closed its output during the handshake is waited for.
const EXIT_LIMIT: Duration = Duration::from_secs(1);

/// How the agent ended, if that is why the handshake failed.
async fn own_exit(error: &HandshakeError, mut exit: ExitWatch) -> Option<AgentExit> {
    if !matches!(error, HandshakeError::Ended { .. } | HandshakeError::Unsent { .. }) {
        return None;
    }
    tokio::time::timeout(EXIT_LIMIT, exit.wait()).await.ok()
}

/// Milliseconds between the tree's SIGTERM and its SIGKILL.
const TREE_GRACE_MS: u64 = 2_000;

/// How long the end of a tree is waited for. What is not gone by then sits in the kernel or belongs to another user.
const TREE_LIMIT: Duration = Duration::from_secs(20);

/// Ends the agent's whole tree and returns the end of what it wrote to stderr.
pub(super) async fn end_tree(terminator: &Terminator, outbox: &Outbox, stderr: &StderrTail) -> String {
    outbox.close();
    terminator.end_tree();
    match tokio::time::timeout(TREE_LIMIT, terminator.ended()).await {
        Ok(TreeEnd::Gone | TreeEnd::Unwatched) => {}
        Ok(TreeEnd::Swept(report)) => {
            tracing::warn!("An agent's guard was killed; its processes were looked for: {report:?}");
        }
        Err(_elapsed) => tracing::error!("Something of an agent cannot be ended; its guard goes on trying"),
    }
    stderr.text().await
}
