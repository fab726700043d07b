//! When a socket gets its next frame (CONTRACT §6.3). Pure: the moments come from outside.

use crate::session::Pulse;
use maestro_protocol::Cursor;
use std::time::Duration;
use tokio::time::Instant;

/// The shortest pause between two frames that nothing urgent hurries: about thirty frames a second.
const SHORTEST: Duration = Duration::from_millis(33);

/// Frames are rows replaced as a whole, so a long row that grows would be sent over and over. Long frames pause longer,
/// so that no socket costs more than this.
const BYTES_PER_SECOND: u64 = 4 * 1024 * 1024;

/// What was last sent as a change.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    last_at: Instant,
    pause: Duration,
}

impl Pace {
    /// Nothing was sent yet; the snapshot does not count.
    pub(super) fn start(now: Instant) -> Self {
        Self { last_at: now, pause: Duration::ZERO }
    }

    /// Frames of `bytes` together went out at `now`.
    pub(super) fn sent(now: Instant, bytes: usize) -> Self {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let pause = Duration::from_millis(bytes.saturating_mul(1000) / BYTES_PER_SECOND);
        Self { last_at: now, pause: pause.max(SHORTEST) }
    }

    /// From when on the next frame may go to a socket that has everything up to `sent`; `None` when it lacks nothing.
    /// A moment that is past means at once.
    pub(super) fn due(&self, sent: Cursor, pulse: &Pulse) -> Option<Instant> {
        if pulse.cursor <= sent {
            None
        } else if pulse.urgent > sent || pulse.ended.is_some() {
            Some(self.last_at)
        } else {
            Some(self.last_at + self.pause)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Pace;
    use crate::session::Pulse;
    use maestro_protocol::EndReason;
    use proptest::prelude::*;
    use std::time::Duration;
    use tokio::time::Instant;

    /// `sent_bytes`: what the last change took, `None` if there was none. `expect`: milliseconds after it.
    #[track_caller]
    fn check(sent_bytes: Option<usize>, sent: u64, pulse: Pulse, expect: Option<u64>) {
        let now = Instant::now();
        let pace = sent_bytes.map_or(Pace::start(now), |bytes| Pace::sent(now, bytes));
        assert_eq!(pace.due(sent, &pulse), expect.map(|ms| now + Duration::from_millis(ms)));
    }

    fn at(cursor: u64, urgent: u64) -> Pulse {
        Pulse { cursor, urgent, ended: None }
    }

    #[test]
    fn the_first_change_and_urgent_ones_go_at_once() {
        check(None, 5, at(6, 0), Some(0));
        check(Some(100_000_000), 5, at(7, 6), Some(0));
        check(Some(100_000_000), 5, Pulse { ended: Some(EndReason::Exited), ..at(6, 0) }, Some(0));
    }

    #[test]
    fn other_changes_wait_by_what_the_last_one_took() {
        check(Some(100), 5, at(6, 5), Some(33));
        check(Some(4 * 1024 * 1024), 5, at(6, 5), Some(1000));
        check(Some(1024 * 1024), 5, at(6, 0), Some(250));
    }

    #[test]
    fn nothing_new_is_never_due() {
        check(Some(100), 6, at(6, 6), None);
        check(None, 6, Pulse { ended: Some(EndReason::Exited), ..at(6, 6) }, None);
    }

    proptest! {
        /// No socket is sent more than 4 MiB in a second by more than the one frame that is under way.
        #[test]
        fn a_socket_costs_a_bounded_rate(bytes in 0_usize..64 << 20) {
            let now = Instant::now();
            let due = Pace::sent(now, bytes).due(0, &at(1, 0)).expect("there is a change");
            let seconds = (due - now).as_secs_f64() + 0.001;
            #[expect(clippy::cast_precision_loss, reason = "a few bytes more or less do not matter here")]
            let rate = bytes as f64 / seconds;
            prop_assert!(rate <= 4.0 * 1024.0 * 1024.0);
            prop_assert!(due - now >= Duration::from_millis(33));
        }
    }
}
