//! The time in which a cancelled turn must settle (CONTRACT §8.3). Pure.

use std::time::Duration;
use tokio::time::Instant;

/// A stall of the daemon longer than this is given back to the agent.
const STALL: Duration = Duration::from_millis(50);

/// How much of one grace is given back in all: a machine that stands still again and again must not keep a session
/// between cancel and death for ever.
const GIVEN_BACK_MAX: Duration = Duration::from_secs(5);

/// One running grace.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grace {
    length: Duration,
    deadline: Instant,
    given_back: Duration,
}

/// What the end of a grace means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// The daemon stood still: there is a new deadline.
    Later,
    /// The agent had its time.
    Over,
}

impl Grace {
    pub(super) fn begin(length: Duration, now: Instant) -> Self {
        Self { length, deadline: now + length, given_back: Duration::ZERO }
    }

    /// Begins anew: the agent could not be heard until now, because its session's log took no lines.
    pub(super) fn again(self, now: Instant) -> Self {
        Self::begin(self.length, now)
    }

    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The deadline was noticed at `now`.
    pub(super) fn look(&mut self, now: Instant) -> Look {
        let stalled = now.saturating_duration_since(self.deadline);
        let back = stalled.min(GIVEN_BACK_MAX.saturating_sub(self.given_back));
        if stalled <= STALL || back.is_zero() {
            return Look::Over;
        }
        self.given_back += back;
        self.deadline = now + back;
        Look::Later
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks again and again, each time so much too late; how long it takes until the grace is over.
    #[track_caller]
    fn check(late_ms: u64, expect_ms: u64) {
        let start = Instant::now();
        let mut grace = Grace::begin(Duration::from_millis(500), start);
        let over = loop {
            let now = grace.deadline() + Duration::from_millis(late_ms);
            if grace.look(now) == Look::Over {
                break now;
            }
        };
        assert_eq!(over - start, Duration::from_millis(expect_ms));
    }

    #[tokio::test]
    async fn a_stall_is_given_back_and_a_standstill_ends() {
        check(0, 500);
        check(50, 550);
        // Ten stalls of which each is given back, and the look that finds nothing left to give.
        check(500, 500 + 10 * (500 + 500) + 500);
        // One stall longer than all that is given.
        check(60_000, 500 + 60_000 + 5_000 + 60_000);
        let start = Instant::now();
        let mut grace = Grace::begin(Duration::from_millis(500), start);
        grace.look(start + Duration::from_mins(1));
        let grace = grace.again(start + Duration::from_secs(70));
        assert_eq!(grace.deadline(), start + Duration::from_millis(70_500));
    }
}
