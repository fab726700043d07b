//! A session whose log takes no lines for now (CONTRACT §5.4): its agent is not read, what is over already is owed to the
//! log, and everything goes on by itself when there is space.

use crate::session::{
    actor::{SessionActor, answer},
    frames::turn_ended,
    handle::SessionError,
    journal::{OweError, Unpaid},
    turn::{TurnEffect, TurnInput},
};
use maestro_acp::Frame;
use maestro_log::AppendError;
use maestro_protocol::{Envelope, Session};
use tokio::time::Instant;

/// The log takes no more lines at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LogLost;

/// What is told while a session is stalled.
#[derive(Debug)]
pub(super) struct Stall {
    /// What `activity_detail` says of it.
    pub(super) words: String,
    /// What it said before.
    before: Option<String>,
}

impl Stall {
    /// Tells it, unless the session has more to tell: why it ended.
    pub(super) fn note(words: String, session: &mut Session) -> Self {
        let tells = session.end_reason.is_none();
        let before = if tells { session.activity_detail.replace(words.clone()) } else { None };
        Self { words, before }
    }

    /// Tells again what was told before.
    pub(super) fn lift(self, session: &mut Session) {
        if session.activity_detail.as_ref() == Some(&self.words) {
            session.activity_detail = self.before;
        }
    }
}

impl SessionActor {
    /// Whether something waits for space in the log. The agent is not read meanwhile.
    pub(super) fn is_stalled(&self) -> bool {
        !self.backlog.is_empty() || self.journal.owes()
    }

    /// Appends a line that says what is over whether or not there is space: one that does not fit is owed.
    pub(super) fn owe(&mut self, line: &Envelope) -> Result<(), LogLost> {
        self.owe_line(line.to_line())
    }

    pub(super) fn owe_line(&mut self, line: Vec<u8>) -> Result<(), LogLost> {
        match self.journal.owe(line) {
            Ok(None) => Ok(()),
            Ok(Some(error)) => {
                self.note_stall(&error);
                Ok(())
            }
            Err(OweError::Overflow(overflow)) => {
                let id = self.stored.id();
                tracing::error!(session.id = %id, "A line of session `{id}` is dropped: {overflow}");
                Ok(())
            }
            Err(OweError::Lost(poisoned)) => {
                let (id, told) = (self.stored.id(), crate::report::chain(&poisoned));
                tracing::error!(session.id = %id, "A line of session `{id}` could not be logged: {told}");
                Err(LogLost)
            }
        }
    }

    /// Says, once, that the log takes no lines, and refuses the prompts that waited for a settle: it cannot come now.
    pub(super) fn note_stall(&mut self, error: &AppendError) {
        if self.stall.is_some() {
            return;
        }
        let (id, told) = (self.stored.id(), crate::report::chain(error));
        tracing::warn!(session.id = %id, "The log of session `{id}` takes no lines, its agent waits: {told}");
        self.lift_queue_stall();
        self.stall = Some(Stall::note(error.to_string(), &mut self.stored.session));
        for (_, reply) in std::mem::take(&mut self.held) {
            answer(reply, Err(SessionError::LogUnwritable));
        }
    }

    /// Tries again to write what waits: what is owed first, then the frames that were kept, then the sidecar.
    pub(super) async fn on_retry(&mut self) {
        self.retry_at = None;
        let owed = self.journal.owes();
        match self.journal.pay() {
            Ok(()) if owed => self.after_flush_quietly(),
            Ok(())
            | Err(AppendError::Full { .. } | AppendError::Io { .. } | AppendError::NotOneLine { .. }) => {}
            Err(AppendError::Lost { .. }) => return self.die_of_log().await,
        }
        if !self.journal.owes() {
            for frame in std::mem::take(&mut self.backlog) {
                self.on_frame_or_backlog(frame).await;
            }
            self.promote();
        }
        if self.is_unsaved {
            self.save().await;
        }
        self.retry_queue().await;
        self.note_resumption();
    }

    fn note_resumption(&mut self) {
        if self.is_stalled() {
            return;
        }
        let Some(stall) = self.stall.take() else { return };
        let id = self.stored.id();
        tracing::info!(session.id = %id, "The log of session `{id}` takes lines again");
        stall.lift(&mut self.stored.session);
        // Until now the agent could not be heard.
        self.grace = self.grace.map(|grace| grace.again(Instant::now()));
    }

    /// What the agent said before its session ends goes into the log before that end, now or when there is space.
    /// Requests of an agent that is ended need no answer any more.
    pub(super) fn settle_backlog(&mut self) {
        for frame in std::mem::take(&mut self.backlog) {
            let line = match frame {
                Frame::Update { params, .. } => Some(params.to_vec()),
                Frame::Notice(notice) => Some(Envelope::Notice(notice).to_line()),
                Frame::Response { id, result } if self.prompt_request == Some(id) => {
                    self.prompt_request = None;
                    let (next, effects) = self.turn.on(TurnInput::Answered);
                    self.turn = next;
                    let at = self.around.sources.clock.now();
                    let is_end = effects.contains(&TurnEffect::AppendEndedAsAnswered);
                    is_end.then(|| Envelope::Turn(turn_ended(&result, at)).to_line())
                }
                Frame::Response { .. }
                | Frame::PermissionRequest(_)
                | Frame::CancelRequest { .. }
                | Frame::UnknownRequest { .. }
                | Frame::OtherNotification { .. }
                | Frame::StrayResponse => None,
            };
            if let Some(line) = line
                && self.owe_line(line).is_err()
            {
                return;
            }
        }
    }

    /// The actor ends: what is still owed is tried a last time, and told if it does not fit. The next opening of the log
    /// closes what stays open in it (CONTRACT §10.5).
    pub(super) fn give_up_owed(&mut self) {
        if let Err(error) = self.journal.pay() {
            let Unpaid(lines) = self.journal.unpaid();
            let (id, told) = (self.stored.id(), crate::report::chain(&error));
            tracing::error!(session.id = %id, "{lines} lines of session `{id}` are lost: {told}");
        }
    }
}
