//! The log and the projection of one session, in step: a line is in the file before it is in a row.

use crate::{
    clock::Sources,
    session::{
        handle::{Frames, Pulse},
        opening::touches,
    },
};
use bytes::Bytes;
use maestro_log::{AppendError, LogReader, SessionLog, Ticket};
use maestro_projection::{Applied, Projection};
use maestro_protocol::{
    ClockLine, Cursor, Envelope, Frame, PendingApproval, ReducedState, StateKey, Timestamp,
};
use tokio::sync::watch;

/// A `clock` line precedes a line once the log's last time is this far from now (CONTRACT §5.6).
const CLOCK_STALE_MS: i64 = 200;

/// Whether a reader should see a line at once or may wait for the pace of its socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Urgency {
    Stream,
    Urgent,
}

/// Owns the log and its fold.
pub(super) struct Journal {
    log: SessionLog,
    projection: Projection,
    sources: Sources,
    urgent: Cursor,
    /// State keys that changed since they were last taken.
    changed: Vec<StateKey>,
    /// The newest answer to `changes`, shared by sockets that ask the same.
    cached: Option<(Cursor, Frames)>,
}

impl Journal {
    pub(super) fn new(log: SessionLog, projection: Projection, sources: Sources) -> Self {
        Self { log, projection, sources, urgent: 0, changed: Vec::new(), cached: None }
    }

    /// Appends a line, after a `clock` line if the log's time is stale. When this fails, nothing happened but perhaps
    /// that `clock` line.
    pub(super) fn append(&mut self, line: &[u8], urgency: Urgency) -> Result<Cursor, AppendError> {
        let now = self.sources.clock.now();
        if self.is_stale(now) {
            self.append_as_is(&Envelope::Clock(ClockLine { at: now }).to_line())?;
        }
        let cursor = self.append_as_is(line)?;
        if urgency == Urgency::Urgent {
            self.urgent = cursor;
        }
        Ok(cursor)
    }

    /// Appends one of the daemon's own lines. Readers see these at once.
    pub(super) fn append_envelope(&mut self, envelope: &Envelope) -> Result<Cursor, AppendError> {
        self.append(&envelope.to_line(), Urgency::Urgent)
    }

    fn is_stale(&self, now: Timestamp) -> bool {
        self.projection
            .last_time()
            .is_none_or(|last| (now.as_millisecond() - last.as_millisecond()).abs() >= CLOCK_STALE_MS)
    }

    fn append_as_is(&mut self, line: &[u8]) -> Result<Cursor, AppendError> {
        let cursor = self.log.append(line)?;
        self.cached = None;
        let applied = self.projection.apply(cursor, line);
        // The index is derived: one that cannot be written is made anew when the log is opened next.
        if let Err(error) = self.log.index(cursor, &touches(&applied)) {
            tracing::debug!("A line could not be indexed: {}", crate::report::chain(&error));
        }
        if let Applied::Line { state, .. } = applied {
            self.changed.extend(state);
        }
        Ok(cursor)
    }

    pub(super) fn flush(&self) -> Ticket {
        self.log.flush()
    }

    pub(super) fn reader(&self) -> LogReader {
        self.log.reader()
    }

    pub(super) fn projection(&self) -> &Projection {
        &self.projection
    }

    /// The state keys that changed since this was last asked.
    pub(super) fn take_changed(&mut self) -> Vec<StateKey> {
        std::mem::take(&mut self.changed)
    }

    /// Wakes the sockets if there is something new, and tells whether there is.
    pub(super) fn announce(&self, pulse: &watch::Sender<Pulse>) -> bool {
        let cursor = self.projection.cursor();
        pulse.send_if_modified(|pulse| {
            let news = pulse.cursor != cursor;
            (pulse.cursor, pulse.urgent) = (cursor, self.urgent);
            news
        })
    }

    pub(super) fn snapshot(&self, pending: Option<PendingApproval>) -> Frames {
        let snapshot = self.projection.snapshot();
        let cursor = snapshot.cursor;
        let transcript =
            Frame::TranscriptSnapshot { cursor, rows: snapshot.rows, times: self.projection.times() };
        Frames {
            cursor,
            frames: vec![
                serialise(&transcript),
                serialise(&Frame::ReducedState { state: self.state(pending) }),
            ],
        }
    }

    /// One frame with everything that changed after `since`; none if nothing did.
    pub(super) fn changes(&mut self, since: Cursor, pending: Option<PendingApproval>) -> Frames {
        let cursor = self.projection.cursor();
        if since >= cursor {
            return Frames { cursor, frames: Vec::new() };
        }
        if let Some((from, frames)) = &self.cached
            && *from == since
        {
            return frames.clone();
        }
        let (transcript, times) = self.projection.changed_since(since);
        let frame = Frame::ProjectionUpdate { cursor, transcript, state: self.state(pending), times };
        let frames = Frames { cursor, frames: vec![serialise(&frame)] };
        self.cached = Some((since, frames.clone()));
        frames
    }

    fn state(&self, pending_approval: Option<PendingApproval>) -> ReducedState {
        ReducedState { pending_approval, ..self.projection.state() }
    }
}

/// Frames have string keys only, which JSON can always hold.
fn serialise(frame: &Frame) -> Bytes {
    serde_json::to_vec(frame).expect("a frame is always representable as JSON").into()
}

#[cfg(test)]
mod tests;
