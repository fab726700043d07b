//! What the rest of the daemon holds of a session: senders, and two values to watch.

use crate::session::{health::SessionHealth, queueing::QueueCommand, stored::Ledger, wire::TranscriptText};
use bytes::Bytes;
use maestro_acp::Setting;
use maestro_log::LogReader;
use maestro_projection::{DeltaForm, Standing};
use maestro_protocol::{
    Cursor, Decision, EndReason, Nonce, RequestMark, RowId, Session, Status, TranscriptRow,
};
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot, watch};

/// Commands of people that may wait in a session's mailbox. Enough for every client of one account to act at once;
/// full means the actor is stuck behind a slow disk, and the caller gets `503` instead of a hidden queue.
pub(crate) const COMMANDS_MAX: usize = 32;

/// Approvals and cancels that may wait. They have a lane of their own so that prompts and reads never hold up a
/// decision; a sender waits here rather than being refused.
pub(crate) const URGENT_MAX: usize = 32;

/// Questions of sockets that may wait. They have a lane of their own so that any number of sockets leaves room for
/// people; a socket asks one thing at a time and waits here until it is asked.
pub(crate) const LOOKS_MAX: usize = 32;

/// Stop wishes that may wait: one from a person and one from the shutdown.
pub(crate) const STOPS_MAX: usize = 4;

/// Why a command to a session came to nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SessionError {
    #[error("the session is dead: restart it with `maestro restart` first")]
    NotStructured,
    #[error("a turn is active: wait for its end or cancel it first")]
    TurnInFlight,
    #[error("the agent is still starting: try again in a moment")]
    Starting,
    #[error("the session runs or starts already: nothing to restart")]
    AlreadyRunning,
    #[error("the session's directory `{cwd}` is gone: make it again, then restart")]
    CwdMissing { cwd: String },
    #[error("the agent `{agent}` cannot load a session, so this conversation cannot go on")]
    CannotResume { agent: String },
    #[error("this request offers no single option for that decision: choose one of its options by id")]
    DecisionNotOffered,
    #[error("{told}")]
    NotOffered {
        /// The field of the request that names what is not offered.
        field: &'static str,
        told: String,
    },
    #[error("{told}")]
    AgentRefused { told: String },
    #[error("{told}; the session's state shows what is in force")]
    AgentSilent { told: String },
    #[error("the event log cannot be written: free some disk space, then try again")]
    LogUnwritable,
    #[error("the session's event log cannot be used: {detail}")]
    LogFailed { detail: String },
    #[error("no such message waits: it was sent, or taken out")]
    NoSuchItem,
    #[error("the queue is full, {limit}: let some be sent, or take some out")]
    QueueFull { limit: String },
    #[error("the queue cannot be stored: free some disk space, then try again")]
    QueueUnwritable,
    #[error(
        "the session's queue file cannot be read: the daemon's log says why; mend it, or move it away, then restart the daemon"
    )]
    QueueUnreadable,
    #[error("this `Idempotency-Key` belongs to an earlier request with another body: take a new one")]
    KeyReused,
    #[error("the session is busy: try again in a moment")]
    Busy,
    /// The actor is gone; the registry holds or makes a new one.
    #[error("the session's owner ended while the command waited")]
    Gone,
}

/// Who decided an approval, for its outcome.
#[derive(Debug, Clone)]
pub(crate) struct Decider {
    /// The account.
    pub(crate) account: String,
    /// The client, such as `cli`.
    pub(crate) client: String,
}

/// A wake-up without content: what it announces is read from the actor (CONTRACT §6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Pulse {
    /// The newest line.
    pub(crate) cursor: Cursor,
    /// The newest line that a reader should not wait for: an approval, its outcome, a turn's start or end.
    pub(crate) urgent: Cursor,
    /// The newest line that did more than lengthen a text.
    pub(crate) reshaped: Cursor,
    /// How much all lines that only lengthened texts have added since the actor began, in UTF-16 units.
    pub(crate) streamed: u64,
    /// How long the text is that was lengthened last, in UTF-16 units.
    pub(crate) growing: u64,
    /// The version of the part of the state that is in no log.
    pub(crate) overlay: u64,
    /// Set when the session is dead; sockets close then.
    pub(crate) ended: Option<EndReason>,
}

/// How a socket wants to see a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct View {
    /// The form of updates.
    pub(crate) form: DeltaForm,
    /// How many rows the snapshot holds at most, the last ones; `None`: all.
    pub(crate) tail: Option<usize>,
}

/// What a socket holds after an answer. It shows this when it asks what came after; the actor keeps nothing of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Held {
    /// The last line.
    pub(crate) cursor: Cursor,
    /// [`Pulse::streamed`] at that line.
    pub(crate) streamed: u64,
    /// The version of the part of the state that is in no log.
    pub(crate) overlay: u64,
    /// Where texts ended.
    pub(crate) standing: Standing,
}

/// Frames of one answer, serialised, and what a socket holds after them.
#[derive(Debug, Clone)]
pub(crate) struct Frames {
    /// What whoever takes them in holds then.
    pub(crate) held: Held,
    /// In order.
    pub(crate) frames: Vec<Text>,
}

/// The JSON text of a frame.
#[derive(Debug, Clone)]
pub(crate) enum Text {
    /// Written, and shared between sockets that held the same.
    Whole(Bytes),
    /// Written as it is sent. There is nothing secret in it.
    Transcript(Box<TranscriptText>),
}

#[cfg(test)]
impl Text {
    /// All of it.
    pub(super) fn whole(&self) -> Bytes {
        match self {
            Self::Whole(text) => text.clone(),
            Self::Transcript(text) => text.clone().next_piece(usize::MAX).0,
        }
    }
}

pub(crate) type Reply<T> = oneshot::Sender<Result<T, SessionError>>;

/// What a person, or a socket, asks of a session.
#[derive(Debug)]
pub(crate) enum Command {
    /// Start a turn with these content blocks.
    Prompt { content: Vec<Value>, request: Option<RequestMark>, reply: Reply<()> },
    /// Something about the messages that wait.
    Queue(QueueCommand),
    /// Cancel the active turn, if any.
    Cancel { reply: Reply<()> },
    /// Answer the live approval, if the nonce is its.
    Decide { nonce: Nonce, decision: Decision, decider: Decider, reply: Reply<()> },
    /// Change the mode, the model or an option.
    Set { setting: Setting, reply: Reply<()> },
    /// Rename; an empty title removes the name.
    Rename { title: String, reply: Reply<Session> },
    /// Start a dead session's agent again.
    Restart { request: Option<RequestMark>, reply: Reply<Session> },
    /// The transcript and the state.
    Snapshot { view: View, reply: Reply<Frames> },
    /// What came after what a socket holds.
    Changes { held: Held, form: DeltaForm, reply: Reply<Frames> },
    /// One row and the line that it reflects.
    Row { id: RowId, reply: Reply<Option<(Cursor, TranscriptRow)>> },
    /// A reader over the log as it stands.
    Log { reply: Reply<LogReader> },
    /// Append what a daemon that was killed could not (CONTRACT §10.5). Only for dead sessions.
    Mend { reply: Reply<()> },
}

/// How a session is to stop.
#[derive(Debug)]
pub(crate) enum StopWish {
    /// A person kills it; answered when nothing of it runs any more.
    Kill { reply: Reply<()> },
    /// The daemon shuts down; the next one may resume it.
    Shutdown { reply: Reply<()> },
}

/// A session's address. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct SessionHandle {
    // A channel has room for 32 from the start; most sessions are never asked anything, so that the room is for pointers.
    pub(super) commands: mpsc::Sender<Box<Command>>,
    pub(super) urgent: mpsc::Sender<Box<Command>>,
    pub(super) looks: mpsc::Sender<Box<Command>>,
    pub(super) stops: mpsc::Sender<StopWish>,
    pub(super) session: watch::Receiver<Session>,
    pub(super) pulse: watch::Receiver<Pulse>,
    pub(super) ledger: watch::Receiver<Option<Arc<Ledger>>>,
    pub(super) health: watch::Receiver<SessionHealth>,
}

impl SessionHandle {
    /// The session as last published.
    pub(crate) fn session(&self) -> Session {
        self.session.borrow().clone()
    }

    /// What was spent by day; `None` while the log is not read.
    pub(crate) fn ledger(&self) -> Option<Arc<Ledger>> {
        self.ledger.borrow().clone()
    }

    /// Waits until the log is read, or cannot be.
    pub(crate) async fn counted(&self) {
        let (mut ledger, mut health) = (self.ledger.clone(), self.health.clone());
        // An error means that the actor ended without one.
        tokio::select! {
            counted = ledger.wait_for(Option::is_some) => drop(counted),
            unopened = health.wait_for(|health| health.unopened.is_some()) => drop(unopened),
        }
    }

    /// What is wrong with the session.
    pub(crate) fn health(&self) -> SessionHealth {
        self.health.borrow().clone()
    }

    /// Wake-ups for a socket. Take it before the snapshot, so that nothing falls in between.
    pub(crate) fn pulse(&self) -> watch::Receiver<Pulse> {
        self.pulse.clone()
    }

    /// Whether the actor takes no commands any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.commands.is_closed()
    }

    /// Waits until the session is running or dead.
    pub(crate) async fn started(&self) {
        let mut session = self.session.clone();
        // An error means that the actor ended, which is a settled start too.
        drop(session.wait_for(|session| session.status != Status::Starting).await);
    }

    pub(crate) async fn prompt(
        &self,
        content: Vec<Value>,
        request: Option<RequestMark>,
    ) -> Result<(), SessionError> {
        self.ask(|reply| Command::Prompt { content, request, reply }).await
    }

    /// Asks something of the queue.
    pub(crate) async fn queue<T>(
        &self,
        command: impl FnOnce(Reply<T>) -> QueueCommand,
    ) -> Result<T, SessionError> {
        self.ask(|reply| Command::Queue(command(reply))).await
    }

    pub(crate) async fn cancel(&self) -> Result<(), SessionError> {
        ask_patiently(&self.urgent, |reply| Command::Cancel { reply }).await
    }

    pub(crate) async fn decide(
        &self,
        nonce: Nonce,
        decision: Decision,
        decider: Decider,
    ) -> Result<(), SessionError> {
        ask_patiently(&self.urgent, |reply| Command::Decide { nonce, decision, decider, reply }).await
    }

    pub(crate) async fn set(&self, setting: Setting) -> Result<(), SessionError> {
        self.ask(|reply| Command::Set { setting, reply }).await
    }

    pub(crate) async fn rename(&self, title: String) -> Result<Session, SessionError> {
        self.ask(|reply| Command::Rename { title, reply }).await
    }

    pub(crate) async fn restart(&self, request: Option<RequestMark>) -> Result<Session, SessionError> {
        self.ask(|reply| Command::Restart { request, reply }).await
    }

    pub(crate) async fn snapshot(&self, view: View) -> Result<Frames, SessionError> {
        ask_patiently(&self.looks, |reply| Command::Snapshot { view, reply }).await
    }

    pub(crate) async fn changes(&self, held: Held, form: DeltaForm) -> Result<Frames, SessionError> {
        ask_patiently(&self.looks, |reply| Command::Changes { held, form, reply }).await
    }

    pub(crate) async fn row(&self, id: RowId) -> Result<Option<(Cursor, TranscriptRow)>, SessionError> {
        ask_patiently(&self.looks, |reply| Command::Row { id, reply }).await
    }

    pub(crate) async fn log(&self) -> Result<LogReader, SessionError> {
        self.ask(|reply| Command::Log { reply }).await
    }

    pub(crate) async fn mend(&self) -> Result<(), SessionError> {
        self.ask(|reply| Command::Mend { reply }).await
    }

    /// Ends the session and everything below it. A dead session stays as it is.
    pub(crate) async fn kill(&self) -> Result<(), SessionError> {
        self.stop(|reply| StopWish::Kill { reply }).await
    }

    /// Ends the session for a shutdown, with a recovery marker if it was running.
    pub(crate) async fn shut_down(&self) -> Result<(), SessionError> {
        self.stop(|reply| StopWish::Shutdown { reply }).await
    }

    async fn ask<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Result<T, SessionError> {
        let (reply, answer) = oneshot::channel();
        self.commands.try_send(Box::new(command(reply))).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => SessionError::Busy,
            mpsc::error::TrySendError::Closed(_) => SessionError::Gone,
        })?;
        answer.await.unwrap_or(Err(SessionError::Gone))
    }

    async fn stop(&self, wish: impl FnOnce(Reply<()>) -> StopWish) -> Result<(), SessionError> {
        let (reply, answer) = oneshot::channel();
        if self.stops.send(wish(reply)).await.is_err() {
            return Err(SessionError::Gone);
        }
        answer.await.unwrap_or(Err(SessionError::Gone))
    }
}

/// Asks in a lane where a sender waits for room.
async fn ask_patiently<T>(
    lane: &mpsc::Sender<Box<Command>>,
    command: impl FnOnce(Reply<T>) -> Command,
) -> Result<T, SessionError> {
    let (reply, answer) = oneshot::channel();
    if lane.send(Box::new(command(reply))).await.is_err() {
        return Err(SessionError::Gone);
    }
    answer.await.unwrap_or(Err(SessionError::Gone))
}
