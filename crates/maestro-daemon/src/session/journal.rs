//! The log and the projection of one session, in step: a line is in the file before it is in a row.

use crate::{
    clock::Sources,
    session::{
        handle::{Frames, Held, Pulse, View},
        opening::touches,
        wire::{Overlay, Wire},
    },
};
use maestro_log::{AppendError, LogReader, SessionLog, Ticket};
use maestro_projection::{Applied, DeltaForm, Projection};
use maestro_protocol::{ClockLine, Cursor, Envelope, StateKey, Timestamp};
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
    wire: Wire,
}

impl Journal {
    pub(super) fn new(log: SessionLog, projection: Projection, sources: Sources) -> Self {
        Self { log, projection, sources, urgent: 0, changed: Vec::new(), wire: Wire::default() }
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
        let applied = self.projection.apply(cursor, line);
        self.wire.note(cursor, &applied);
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
        let now = self.wire.pulse(self.projection.cursor(), self.urgent);
        pulse.send_if_modified(|pulse| {
            let news = pulse.cursor != now.cursor;
            *pulse = Pulse { ended: pulse.ended, ..now };
            news
        })
    }

    /// The transcript, or its tail, and the state.
    pub(super) fn snapshot(&mut self, overlay: Overlay, view: View) -> Frames {
        self.wire.snapshot(&self.projection, overlay, view)
    }

    /// One frame with everything that came after what a socket holds; none if nothing did.
    pub(super) fn changes(&mut self, overlay: Overlay, held: &Held, form: DeltaForm) -> Frames {
        self.wire.changes(&self.projection, overlay, held, form)
    }
}
