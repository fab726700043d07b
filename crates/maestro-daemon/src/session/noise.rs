//! What an agent sends that makes nothing, or nothing but a notice.

use crate::tally::Tally;
use maestro_protocol::SessionId;

/// Counts it for the daemon's log, where no word of the agent's stands.
#[derive(Debug, Default)]
pub(super) struct Noise {
    lines: Tally,
    requests: Tally,
    notifications: Tally,
    answers: Tally,
}

/// A piece of noise.
#[derive(Debug, Clone, Copy)]
pub(super) enum Odd {
    /// A line that cannot be used as it is; the transcript has a notice of it.
    Line,
    /// A request for something that the daemon does not serve.
    Request,
    /// A notification that makes no line.
    Notification,
    /// An answer to nothing that was asked.
    Answer,
}

impl Noise {
    /// Counts one, and tells now and then.
    pub(super) fn heard(&self, session: SessionId, odd: Odd) {
        let (tally, what) = match odd {
            Odd::Line => (&self.lines, "a line that cannot be used"),
            Odd::Request => (&self.requests, "a request that is not served"),
            Odd::Notification => (&self.notifications, "a notification that makes no line"),
            Odd::Answer => (&self.answers, "an answer to nothing"),
        };
        let Some(n) = tally.add() else { return };
        if matches!(odd, Odd::Line) {
            tracing::warn!(session.id = %session, "The agent of session `{session}` sent {what}, {n} so far");
        } else {
            tracing::debug!(session.id = %session, "The agent of session `{session}` sent {what}, {n} so far");
        }
    }
}
