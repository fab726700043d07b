//! How many refusals are told one by one. Pure.

use super::Note;
use maestro_protocol::AuditEvent;

/// Refusals that are told in a row; more are counted, so that whoever is refused cannot fill the disk with it.
const IN_A_ROW: u64 = 20;

/// A refusal is told again one by one after so long.
const PAUSE_MS: i64 = 10_000;

#[derive(Debug, Default)]
pub(super) struct Pace {
    /// When the row of refusals began, and how many it has.
    row: Option<(i64, u64)>,
    left_out: u64,
}

impl Pace {
    /// The note, if it is to be told.
    pub(super) fn admit(&mut self, note: Note) -> Option<Note> {
        if !matches!(note.event, AuditEvent::Refused { .. }) {
            return Some(note);
        }
        let now = note.at.as_millisecond();
        let row = self.row.filter(|(begun, _)| (0..PAUSE_MS).contains(&(now - begun)));
        let (begun, count) = row.unwrap_or((now, 0));
        self.row = Some((begun, count + 1));
        if count < IN_A_ROW {
            return Some(note);
        }
        self.left_out += 1;
        None
    }

    pub(super) fn leave_out(&mut self, count: u64) {
        self.left_out += count;
    }

    /// How many were left out since this was last asked.
    pub(super) fn take_left_out(&mut self) -> u64 {
        std::mem::take(&mut self.left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::Pace;
    use crate::audit::Note;
    use maestro_protocol::{AuditEvent, ProblemCode, Timestamp};

    #[test]
    fn a_flood_of_refusals_is_a_few_lines_and_a_count() {
        let mut pace = Pace::default();
        let refused = AuditEvent::Refused {
            code: ProblemCode::AgentPeer,
            method: "POST".into(),
            path: "/".into(),
            session: None,
        };
        let mut told = |at_ms: i64, event: &AuditEvent, times: usize| {
            let note =
                || Note { at: Timestamp::from_millisecond(at_ms), account: "a".into(), event: event.clone() };
            let told = (0..times).filter_map(|_| pace.admit(note())).count();
            (told, pace.take_left_out())
        };
        assert_eq!(told(0, &refused, 1000), (20, 980));
        assert_eq!(told(9_999, &refused, 1), (0, 1));
        assert_eq!(told(10_000, &refused, 21), (20, 1));
        assert_eq!(told(10_001, &AuditEvent::DaemonEnded, 50), (50, 0), "others are all told");
        assert_eq!(told(-5, &refused, 1), (1, 0), "a clock that steps back begins a new row");
    }
}
