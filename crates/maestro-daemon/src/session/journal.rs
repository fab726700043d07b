//! The log and the projection of one session, in step: a line is in the file before it is in a row.

use crate::{
    clock::Sources,
    history::index_line,
    session::{
        handle::{Frames, Held, Pulse, View},
        health::{SessionHealth, Slowness},
        owed::{Overflow, Owed},
        wire::{Overlay, Wire},
    },
};
use maestro_log::{AppendError, LogReader, Poisoned, SessionLog, Ticket};
use maestro_projection::{Applied, DeltaForm, Projection, StateFold};
use maestro_protocol::{ClockLine, Cursor, Envelope, StateKey, Timestamp, TurnState};
use tokio::{sync::watch, time::Instant};

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
    owed: Owed,
    /// Lines that were not as they had been written when the log was opened.
    damaged: u64,
    slow: Slowness,
}

/// Why a line is neither in the log nor owed to it.
#[derive(Debug)]
pub(super) enum OweError {
    /// The log takes no more lines at all.
    Lost(Poisoned),
    /// Too much is owed already.
    Overflow(Overflow),
}

/// How many lines are owed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unpaid(pub(super) usize);

impl Journal {
    /// `damaged` lines were not as they had been written when the log was opened.
    pub(super) fn new(log: SessionLog, projection: Projection, damaged: u64, sources: Sources) -> Self {
        let (changed, wire, owed, slow) = (Vec::new(), Wire::default(), Owed::default(), Slowness::default());
        Self { log, projection, sources, urgent: 0, changed, wire, owed, damaged, slow }
    }

    /// What the log says of its health.
    pub(super) fn health(&self) -> SessionHealth {
        SessionHealth {
            malformed: self.projection.malformed(),
            damaged: self.damaged,
            lost: self.log.poisoned().map(|poisoned| crate::report::chain(&poisoned)),
            slow: self.slow.clone(),
            ..SessionHealth::default()
        }
    }

    /// Until when the agent is not read because the disk is slow.
    pub(super) fn paused_until(&self, now: Instant) -> Option<Instant> {
        self.slow.paused_until(now)
    }

    /// See [`SessionLog::doubtful_from`].
    pub(super) fn doubtful_from(&self) -> Option<u64> {
        self.log.doubtful_from()
    }

    /// Whether the log takes no more lines until it is opened anew.
    pub(super) fn is_lost(&self) -> bool {
        self.log.poisoned().is_some()
    }

    /// Shows this part of the state, which is in no log, from now on.
    pub(super) fn observe(&mut self, overlay: Overlay) {
        self.wire.observe(overlay);
    }

    /// Appends a line, after what is owed, and after a `clock` line if the log's time is stale. When this fails, nothing
    /// happened but perhaps that some of what is owed is written.
    pub(super) fn append(&mut self, line: &[u8], urgency: Urgency) -> Result<Cursor, AppendError> {
        self.append_all(&[line], urgency)
    }

    /// Appends one of the daemon's own lines. Readers see these at once.
    pub(super) fn append_envelope(&mut self, envelope: &Envelope) -> Result<Cursor, AppendError> {
        self.append(&envelope.to_line(), Urgency::Urgent)
    }

    /// Appends lines that belong together as [`Journal::append`] does one: all of them, in one write, or none.
    pub(super) fn append_all(&mut self, lines: &[&[u8]], urgency: Urgency) -> Result<Cursor, AppendError> {
        self.pay()?;
        let clock = self.clock_line();
        let lines: Vec<&[u8]> = clock.iter().map(Vec::as_slice).chain(lines.iter().copied()).collect();
        let cursor = self.write(&lines)?;
        if urgency == Urgency::Urgent {
            self.urgent = cursor;
        }
        Ok(cursor)
    }

    /// Appends a line that says what is over whatever the disk says. If it does not fit it is owed: written before any
    /// other line, as soon as there is space. Says what was in the way.
    pub(super) fn owe(&mut self, line: Vec<u8>) -> Result<Option<AppendError>, OweError> {
        let error = match self.append(&line, Urgency::Urgent) {
            Ok(_) => return Ok(None),
            Err(AppendError::Lost(poisoned)) => return Err(OweError::Lost(poisoned)),
            Err(error) => error,
        };
        // It tells when it came about and not when there was space.
        for line in self.clock_line().into_iter().chain([line]) {
            self.owed.push(line, self.projection.fold()).map_err(OweError::Overflow)?;
        }
        Ok(Some(error))
    }

    /// Writes what is owed, as far as there is space; an error says that some is owed still.
    pub(super) fn pay(&mut self) -> Result<(), AppendError> {
        while let Some(line) = self.owed.front().map(<[u8]>::to_vec) {
            self.urgent = self.write(&[&line])?;
            self.owed.paid();
        }
        Ok(())
    }

    pub(super) fn owes(&self) -> bool {
        !self.owed.is_empty()
    }

    pub(super) fn unpaid(&self) -> Unpaid {
        Unpaid(self.owed.len())
    }

    /// The fold of the log once everything that is owed is in it.
    pub(super) fn standing(&self) -> &StateFold {
        self.owed.ahead().unwrap_or_else(|| self.projection.fold())
    }

    fn clock_line(&self) -> Option<Vec<u8>> {
        let now = self.sources.clock.now();
        let is_fresh =
            |last: Timestamp| (now.as_millisecond() - last.as_millisecond()).abs() < CLOCK_STALE_MS;
        let stale = !self.standing().last_time().is_some_and(is_fresh);
        stale.then(|| Envelope::Clock(ClockLine { at: now }).to_line())
    }

    /// One write, then the fold of each line. The cursor of the last line.
    fn write(&mut self, lines: &[&[u8]]) -> Result<Cursor, AppendError> {
        let begun = Instant::now();
        let appended = self.log.append_all(lines);
        self.slow.wrote(begun.elapsed(), Instant::now());
        let last = appended?;
        let first = last + 1 - lines.len() as Cursor;
        for (cursor, line) in (first..).zip(lines) {
            let applied = self.projection.apply(cursor, line);
            self.wire.note(cursor, &applied);
            // The index is derived: one that cannot be written is made anew when the log is opened next.
            let indexed = index_line(&mut self.projection, &applied, line);
            if let Err(error) = self.log.index(cursor, &indexed) {
                tracing::debug!("A line could not be indexed: {}", crate::report::chain(&error));
            }
            if let Applied::Line { state, .. } = applied {
                self.changed.extend(state);
            }
        }
        self.projection.pack();
        Ok(last)
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

    /// Wakes the sockets if there is something new, and tells whether there are lines among it.
    pub(super) fn announce(&self, pulse: &watch::Sender<Pulse>) -> bool {
        let now = self.wire.pulse(self.projection.cursor(), self.urgent);
        let mut has_lines = false;
        pulse.send_if_modified(|pulse| {
            has_lines = pulse.cursor != now.cursor;
            let news = has_lines || pulse.overlay != now.overlay;
            *pulse = Pulse { ended: pulse.ended, ..now };
            news
        });
        has_lines
    }

    /// The transcript, or its tail, and the state.
    pub(super) fn snapshot(&mut self, overlay: Overlay, view: View) -> Frames {
        self.wire.snapshot(&self.projection, overlay, view)
    }

    /// One frame with everything that came after what a socket holds; none if nothing did.
    pub(super) fn changes(&mut self, overlay: Overlay, held: &Held, form: DeltaForm) -> Frames {
        self.wire.changes(&self.projection, overlay, held, form)
    }

    /// The turn as it stands once what is owed is in the log; `None` while nothing is.
    pub(super) fn owed_turn(&self) -> Option<TurnState> {
        self.owed.ahead().map(|ahead| ahead.state().turn)
    }
}

#[cfg(test)]
mod tests;
