//! What a session says of its own health (CONTRACT §11.4). Pure.

use maestro_protocol::{SessionId, Trouble, TroubleKind};
use std::time::Duration;
use tokio::time::Instant;

/// A write that takes longer is a sign of trouble: the session's agent is not read for a while.
const SLOW_WRITE: Duration = Duration::from_millis(100);

/// The longest pause that follows one slow write.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// How long a slow write is told.
const TOLD_FOR: Duration = Duration::from_mins(1);

/// What is wrong with one session, as its actor knows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SessionHealth {
    pub(super) malformed: u64,
    pub(super) damaged: u64,
    /// Why the log takes no lines for now, and how many wait.
    pub(super) stalled: Option<(String, u64)>,
    /// Why the log takes no lines any more.
    pub(super) lost: Option<String>,
    /// Why the log could not be opened.
    pub(super) unopened: Option<String>,
    pub(super) is_unsaved: bool,
    pub(super) slow: Slowness,
}

/// Slow writes to one log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Slowness {
    /// The newest, and how many came within a minute of each other.
    last: Option<Instant>,
    count: u64,
    longest: Duration,
    paused_until: Option<Instant>,
}

impl Slowness {
    /// A write took so long and ended at `now`. A slow one pauses the reader for as long as it took, at most a second:
    /// a disk that cannot keep up gets half of the time to itself.
    pub(super) fn wrote(&mut self, took: Duration, now: Instant) {
        if took <= SLOW_WRITE {
            return;
        }
        if !self.is_told(now) {
            (self.count, self.longest) = (0, Duration::ZERO);
        }
        self.last = Some(now);
        self.count += 1;
        self.longest = self.longest.max(took);
        self.paused_until = Some(now + took.min(PAUSE_MAX));
    }

    /// Until when the agent is not read, if it is not.
    pub(super) fn paused_until(&self, now: Instant) -> Option<Instant> {
        self.paused_until.filter(|until| now < *until)
    }

    fn is_told(&self, now: Instant) -> bool {
        self.last.is_some_and(|last| now < last + TOLD_FOR)
    }
}

impl SessionHealth {
    /// What is wrong at `now`, in words.
    pub(crate) fn troubles(&self, id: SessionId, now: Instant) -> Vec<Trouble> {
        let mut troubles = Vec::new();
        let mut add = |kind, detail: String, count| {
            troubles.push(Trouble { kind, session: Some(id), detail, count });
        };
        if let Some((why, lines)) = &self.stalled {
            add(TroubleKind::LogStalled, why.clone(), Some(*lines));
        }
        if let Some(why) = &self.lost {
            add(TroubleKind::LogLost, why.clone(), None);
        }
        if let Some(why) = &self.unopened {
            add(TroubleKind::LogUnopened, why.clone(), None);
        }
        if self.slow.is_told(now) {
            let (count, longest) = (self.slow.count, self.slow.longest.as_millis());
            let detail = format!(
                "{count} writes to the event log were slow, the longest took {longest} ms; look at what else uses the disk"
            );
            add(TroubleKind::SlowDisk, detail, Some(count));
        }
        if self.damaged > 0 {
            let detail = "lines of the event log are not those that were written; check the disk".to_owned();
            add(TroubleKind::DamagedLines, detail, Some(self.damaged));
        }
        if self.is_unsaved {
            let detail =
                "the session file is older than the session; free some space and it is stored by itself"
                    .to_owned();
            add(TroubleKind::SidecarUnsaved, detail, None);
        }
        if self.malformed > 0 {
            let detail =
                "lines of the event log mean nothing, such as one that a crash cut off; they are kept"
                    .to_owned();
            add(TroubleKind::MalformedLines, detail, Some(self.malformed));
        }
        troubles
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_slow_write_pauses_the_reader_for_as_long_at_most_a_second() {
        let check = |took: u64, expect: Option<u64>| {
            let now = Instant::now();
            let mut slow = Slowness::default();
            slow.wrote(ms(took), now);
            assert_eq!(slow.paused_until(now), expect.map(|expect| now + ms(expect)), "{took}");
            assert_eq!(slow.paused_until(now + PAUSE_MAX), None, "{took}");
        };
        check(0, None);
        check(100, None);
        check(101, Some(101));
        check(600, Some(600));
        check(30_000, Some(1_000));
    }

    #[test]
    fn slow_writes_are_told_for_a_minute() {
        let start = Instant::now();
        let mut health = SessionHealth::default();
        let told = |health: &SessionHealth, after: u64| {
            let troubles = health.troubles(SessionId::from_uuid(Uuid::nil()), start + ms(after));
            troubles.first().map(|trouble| (trouble.kind, trouble.count))
        };
        health.slow.wrote(ms(200), start);
        health.slow.wrote(ms(50), start + ms(59_000));
        assert_eq!(told(&health, 59_999), Some((TroubleKind::SlowDisk, Some(1))));
        assert_eq!(told(&health, 60_000), None);
        health.slow.wrote(ms(200), start + ms(70_000));
        health.slow.wrote(ms(300), start + ms(80_000));
        assert_eq!(told(&health, 139_000), Some((TroubleKind::SlowDisk, Some(2))));
        assert_eq!(told(&health, 140_000), None);
    }
}
