use crate::{
    marker::SpawnRecord,
    sweep::{SweepReport, sweep},
    wire::{self, Failure, REPORT_BYTES, Report},
};
use rustix::{
    io::Errno,
    net::{RecvFlags, Shutdown, recv, shutdown},
    process::{Signal, pidfd_send_signal},
};
use std::{fmt, io, os::fd::OwnedFd, sync::Arc};
use tokio::{io::unix::AsyncFd, net::unix::pipe, sync::watch};

/// A running agent. Its parts can be taken apart.
#[must_use = "dropping the terminator ends the agent"]
#[derive(Debug)]
pub struct Child {
    /// The agent's standard input.
    pub stdin: pipe::Sender,
    /// Its standard output. Ends when the last process that holds it is gone, which need not be the agent: its
    /// end is to be learnt from `exit`.
    pub stdout: pipe::Receiver,
    /// Its standard error; the same holds.
    pub stderr: pipe::Receiver,
    /// News of the agent's end.
    pub exit: ExitWatch,
    /// Ends the agent.
    pub terminator: Terminator,
    /// What the next daemon needs should this one be killed. To be stored before the agent is used.
    pub record: SpawnRecord,
    /// The agent's own pid, for people to look at.
    pub pid: u32,
}

/// How an agent ended (CONTRACT §10.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentExit {
    /// It exited with this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
    /// Its guard was killed. That kills the agent, but nobody saw its status.
    GuardLost,
}

impl fmt::Display for AgentExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "the agent exited with code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal} ended the agent"),
            Self::GuardLost => f.write_str("the agent's guard was killed, and the agent with it"),
        }
    }
}

/// How the end of a whole tree became known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TreeEnd {
    /// The guard saw the last descendant go.
    Gone,
    /// The guard was killed; what carried the spawn's marker was looked for and ended.
    Swept(SweepReport),
    /// The runtime that watched is shutting down. The guard ends the tree on its own.
    Unwatched,
}

/// What is known of a spawn so far.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) started: Option<Result<u32, Failure>>,
    exit: Option<AgentExit>,
    end: Option<TreeEnd>,
}

impl Progress {
    /// No report of a start will come any more.
    pub(crate) fn is_decided(&self) -> bool {
        self.started.is_some() || self.exit.is_some()
    }
}

/// News of an agent's end. Clones see the same.
#[derive(Debug, Clone)]
pub struct ExitWatch(pub(crate) watch::Receiver<Progress>);

impl ExitWatch {
    /// Waits until the agent has ended; its descendants may still run. May be called again. An agent whose
    /// watching runtime shuts down counts as [`AgentExit::GuardLost`].
    pub async fn wait(&mut self) -> AgentExit {
        let progress = self.0.wait_for(|progress| progress.exit.is_some()).await;
        progress.ok().and_then(|progress| progress.exit).unwrap_or(AgentExit::GuardLost)
    }

    /// Waits until nothing that the agent started is left, and the guard is reaped.
    pub async fn gone(&mut self) -> TreeEnd {
        let progress = self.0.wait_for(|progress| progress.end.is_some()).await;
        progress.ok().and_then(|progress| progress.end.clone()).unwrap_or(TreeEnd::Unwatched)
    }
}

/// The guard as the daemon holds it.
#[derive(Debug)]
pub(crate) struct GuardHandle {
    pub(crate) control: Arc<OwnedFd>,
    pub(crate) pidfd: Arc<OwnedFd>,
}

impl GuardHandle {
    pub(crate) fn kill(&self) {
        if let Err(error) = pidfd_send_signal(&self.pidfd, Signal::KILL) {
            debug_assert_eq!(error, Errno::SRCH);
        }
    }
}

impl Drop for GuardHandle {
    fn drop(&mut self) {
        close_writing(&self.control);
    }
}

/// Tells the guard to end the tree: it takes the end of what it could read as that wish.
fn close_writing(control: &OwnedFd) {
    // ENOTCONN: the guard is gone. An open socket gives no other error.
    if let Err(error) = shutdown(control, Shutdown::Write) {
        debug_assert_eq!(error, Errno::NOTCONN);
    }
}

/// Ends an agent and everything it started. When the last clone is dropped the tree is ended as well, so that
/// no failure of its owner leaves an agent behind.
#[derive(Debug, Clone)]
pub struct Terminator {
    pub(crate) guard: Arc<GuardHandle>,
    pub(crate) progress: watch::Receiver<Progress>,
}

impl Terminator {
    /// Asks for the end (CONTRACT §2.5): SIGTERM to every descendant, the spawn's grace, then SIGKILL until
    /// none is left. Returns at once; asking again, or after the end, changes nothing.
    pub fn end_tree(&self) {
        close_writing(&self.guard.control);
    }

    /// Waits until the tree is gone, as [`ExitWatch::gone`].
    pub async fn ended(&self) -> TreeEnd {
        ExitWatch(self.progress.clone()).gone().await
    }
}

/// The daemon's side of one guard: takes its reports, reaps it, and sweeps if it was killed.
pub(crate) struct Watcher {
    pub(crate) guard: std::process::Child,
    pub(crate) control: AsyncFd<Arc<OwnedFd>>,
    pub(crate) pidfd: AsyncFd<Arc<OwnedFd>>,
    pub(crate) progress: watch::Sender<Progress>,
    pub(crate) record: SpawnRecord,
}

impl Watcher {
    pub(crate) async fn run(mut self) {
        let mut gone = false;
        // A report that cannot be read, and an error of the socket, are like its end: the guard is not what
        // it should be, and it ends the tree when this side is closed.
        while let Ok(Some(report)) = self.next_report().await {
            gone |= matches!(report, Report::Gone | Report::Failed(_));
            self.progress.send_modify(|progress| match report {
                Report::Started { pid } => progress.started = Some(Ok(pid)),
                Report::Failed(failure) => progress.started = Some(Err(failure)),
                Report::Exited { code } => progress.exit = Some(AgentExit::Code(code)),
                Report::Signalled { signal } => progress.exit = Some(AgentExit::Signal(signal)),
                Report::Gone => {}
            });
        }
        let Self { mut guard, control, pidfd, progress, record } = self;
        close_writing(control.get_ref());
        if pidfd.readable().await.is_err() {
            return;
        }
        // Does not block: the handle has said that the guard has ended.
        if let Err(error) = guard.wait() {
            debug_assert_eq!(error.raw_os_error(), Some(libc::ECHILD));
        }
        if gone {
            progress.send_modify(|progress| progress.end = Some(TreeEnd::Gone));
            return;
        }
        progress.send_modify(|progress| {
            progress.exit.get_or_insert(AgentExit::GuardLost);
        });
        let swept = tokio::task::spawn_blocking(move || sweep(&[record])).await;
        let end = swept.map_or(TreeEnd::Unwatched, TreeEnd::Swept);
        progress.send_modify(|progress| progress.end = Some(end));
    }

    /// `None`: the guard has closed its side.
    async fn next_report(&mut self) -> io::Result<Option<Report>> {
        let mut packet = [0; REPORT_BYTES];
        let length = self
            .control
            .async_io(tokio::io::Interest::READABLE, |socket| {
                Ok(recv(socket, &mut packet, RecvFlags::empty())?.1)
            })
            .await?;
        if length == 0 {
            return Ok(None);
        }
        wire::read_report(&packet[..length]).map(Some)
    }
}
