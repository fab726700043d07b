//! What is measured: a real daemon in a temporary place, or one of the floors.

use crate::{agent, eye::Eye, page, relay};
use anyhow::{Context as _, Result, anyhow};
use maestro_protocol::{Session, Status};
use maestro_testkit::{Door, TestDaemon, wait_until};
use serde_json::json;
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};
use tokio::{
    io::AsyncWriteExt as _,
    process::{Child, ChildStdin, Command},
};

pub(crate) const AGENT: &str = "bench";

/// How a watcher asks for the text form.
pub(crate) const TEXT: &str = "?deltas=text";

/// What anything may take.
pub(crate) const LIMIT: Duration = Duration::from_mins(2);

/// A run's settings and programs.
#[derive(Debug, Clone)]
pub(crate) struct Bench {
    pub(crate) quick: bool,
    /// This program, for agents and floors.
    pub(crate) own: PathBuf,
    pub(crate) maestro: PathBuf,
}

impl Bench {
    pub(crate) fn new(quick: bool) -> Result<Self> {
        let own = env::current_exe().context("this program has no path")?;
        let maestro = own.with_file_name("maestro");
        if !maestro.exists() {
            return Err(anyhow!("{} is missing: `cargo xtask bench` builds it", maestro.display()));
        }
        Ok(Self { quick, own, maestro })
    }

    /// How often each figure is taken.
    pub(crate) fn runs(&self) -> usize {
        if self.quick { 1 } else { 5 }
    }

    /// One of two sizes.
    pub(crate) fn size<T>(&self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }

    /// A daemon that is not started yet.
    pub(crate) fn daemon(&self) -> Result<TestDaemon> {
        let own = self.own.to_string_lossy().into_owned();
        let daemon = TestDaemon::builder(&self.maestro)
            .agent_field(AGENT, "program", own)
            .agent_field(AGENT, "args", vec![agent::ARG])
            .env("MAESTRO_LOG", "warn")
            .prepare()?;
        Ok(daemon)
    }

    /// A daemon that runs, with so many sessions that run.
    pub(crate) async fn stage(&self, sessions: usize) -> Result<Stage> {
        let mut daemon = self.daemon()?;
        daemon.start()?;
        let mut stage = Stage { door: daemon.door(), daemon, ids: Vec::new() };
        stage.add(sessions).await?;
        Ok(stage)
    }

    /// The bare relay.
    pub(crate) async fn relay(&self) -> Result<Floor> {
        self.floor(relay::ARG).await
    }

    /// The server that does nothing.
    pub(crate) async fn page(&self) -> Result<Floor> {
        self.floor(page::ARG).await
    }

    async fn floor(&self, argument: &str) -> Result<Floor> {
        let place = tempfile::Builder::new().prefix("msb").tempdir()?;
        let socket = place.path().join("s");
        let mut process = Command::new(&self.own)
            .arg(argument)
            .arg(&socket)
            .stdin(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let prompts = process.stdin.take().context("no stdin")?;
        wait_until(LIMIT, "the floor's socket", || socket.exists()).await?;
        Ok(Floor { process, prompts, socket, _place: place })
    }
}

/// A running daemon and its sessions.
pub(crate) struct Stage {
    pub(crate) daemon: TestDaemon,
    pub(crate) door: Door,
    pub(crate) ids: Vec<String>,
}

impl Stage {
    /// Adds sessions that run, a few at a time.
    pub(crate) async fn add(&mut self, sessions: usize) -> Result<()> {
        let mut left = sessions;
        while left > 0 {
            let batch = left.min(16);
            let first = self.ids.len();
            for _ in 0..batch {
                let body = json!({"view": "Structured", "agent": AGENT, "cwd": self.daemon.work()});
                let session: Session = self.door.post("/api/sessions", &body).await?.expect(201).read();
                self.ids.push(session.id.to_string());
            }
            for id in &self.ids[first..] {
                self.door.running(id, LIMIT).await?;
            }
            left -= batch;
        }
        Ok(())
    }

    pub(crate) fn pid(&self) -> Result<u32> {
        self.daemon.pid().context("the daemon does not run")
    }

    pub(crate) async fn eye(&self, session: usize, query: &str) -> Result<Eye> {
        Eye::of_session(self.door.path(), &self.ids[session], query).await
    }

    /// Tells the agent of a session what to do.
    pub(crate) async fn prompt(&self, session: usize, words: &str) -> Result<()> {
        self.door.prompt(&self.ids[session], words).await?.expect(202);
        Ok(())
    }

    /// Waits until no session has a turn.
    pub(crate) async fn settle(&self) -> Result<()> {
        for id in &self.ids {
            let idle = |session: &Session| {
                session.status == Status::Running
                    && session.activity == Some(maestro_protocol::Activity::Active)
            };
            self.door.session_when(id, LIMIT, "the end of its turn", idle).await?;
        }
        Ok(())
    }

    pub(crate) fn log_of(&self, session: usize) -> PathBuf {
        log_of(&self.daemon.data(), &self.ids[session])
    }
}

pub(crate) fn log_of(data: &Path, id: &str) -> PathBuf {
    data.join(format!("sessions/{id}.events.jsonl"))
}

/// How many bytes the files of a directory have.
pub(crate) fn bytes_in(directory: &Path) -> Result<u64> {
    let sizes = fs::read_dir(directory)?.map(|entry| Ok(entry?.metadata()?.len()));
    sizes.sum::<std::io::Result<u64>>().context("could not measure the files")
}

/// A running floor.
pub(crate) struct Floor {
    process: Child,
    prompts: ChildStdin,
    pub(crate) socket: PathBuf,
    _place: tempfile::TempDir,
}

impl Floor {
    pub(crate) fn pid(&self) -> Result<u32> {
        self.process.id().context("the floor has ended")
    }

    /// Tells the relay's agent what to do once so many readers are there.
    pub(crate) async fn prompt(&mut self, readers: usize, words: &str) -> Result<()> {
        Ok(self.prompts.write_all(format!("{readers} {words}\n").as_bytes()).await?)
    }
}
