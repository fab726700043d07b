//! Turns that an agent starts by itself (CONTRACT §8.6): when one opens, and when silence ends it. Pure: the time and
//! what is open are handed in.

use maestro_acp::{AgentEntry, Frame, TurnMark};
use std::time::Duration;
use tokio::time::Instant;

/// How long nothing opens a turn after work was cancelled: what comes then is the rest of it.
const HUSH: Duration = Duration::from_millis(250);

/// The silence that ends a turn in which a tool call is open: builds and tests are long and say nothing.
const QUIET_WITH_CALL: Duration = Duration::from_mins(10);

/// What is known of an agent's work outside of people's turns.
#[derive(Debug)]
pub(crate) struct OwnTurns {
    /// Whether the agent starts turns at all.
    starts: bool,
    mark: Option<TurnMark>,
    quiet: Duration,
    /// When it was last heard.
    heard: Instant,
    hush_end: Option<Instant>,
}

impl OwnTurns {
    /// Of no agent.
    pub(crate) fn none(now: Instant) -> Self {
        Self { starts: false, mark: None, quiet: Duration::ZERO, heard: now, hush_end: None }
    }

    pub(crate) fn new(entry: &AgentEntry, now: Instant) -> Self {
        Self {
            starts: entry.own_turns,
            mark: entry.own_turn_end,
            quiet: Duration::from_millis(entry.own_turn_quiet_ms),
            heard: now,
            hush_end: None,
        }
    }

    /// The agent, or a person who answered it, did something.
    pub(crate) fn hear(&mut self, now: Instant) {
        self.heard = now;
    }

    /// Work was cancelled.
    pub(crate) fn hush(&mut self, now: Instant) {
        self.hush_end = Some(now + HUSH);
    }

    /// When the hush after the last cancel ends.
    pub(crate) fn hush_end(&self) -> Option<Instant> {
        self.hush_end
    }

    /// Whether work that shows at `now` opens a turn.
    pub(crate) fn may_open(&self, now: Instant) -> bool {
        self.starts && self.hush_end.is_none_or(|end| end <= now)
    }

    /// Whether `frame` marks the end of a turn of the agent's own.
    pub(crate) fn is_end(&self, frame: &Frame) -> bool {
        self.mark.is_some_and(|mark| mark.is(frame))
    }

    /// When silence ends the open turn. While a person is asked, nobody waits for the agent, so never.
    pub(crate) fn quiet_end(&self, open: Open) -> Option<Instant> {
        match open {
            Open::Nothing => Some(self.heard + self.quiet),
            Open::Call => Some(self.heard + self.quiet.max(QUIET_WITH_CALL)),
            Open::Approval => None,
        }
    }
}

/// What the agent's silence may be due to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Open {
    Nothing,
    /// A tool call that it has not finished.
    Call,
    /// A request that it has no answer to.
    Approval,
}

#[cfg(test)]
mod tests {
    use super::*;
    use maestro_acp::AgentTable;

    fn of(agent: &str, now: Instant) -> OwnTurns {
        let table = AgentTable::built_in();
        OwnTurns::new(table.get(&agent.parse().unwrap()).unwrap(), now)
    }

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancel_hushes_for_250_ms() {
        let now = Instant::now();
        let mut turns = of("claude-agent-acp", now);
        assert!(turns.may_open(now));
        turns.hush(now);
        let check = |after, expect| assert_eq!(turns.may_open(now + ms(after)), expect, "{after} ms");
        check(0, false);
        check(249, false);
        check(250, true);
    }

    #[tokio::test(start_paused = true)]
    async fn only_marked_agents_start_turns() {
        let now = Instant::now();
        let check = |agent: &str, expect| assert_eq!(of(agent, now).may_open(now), expect, "{agent}");
        check("claude-agent-acp", true);
        check("qwen", true);
        check("claude-code-acp", false);
        check("codex-acp", false);
        check("gemini", false);
    }

    #[tokio::test(start_paused = true)]
    async fn silence_ends_a_turn_after_10_s_or_10_min_with_a_call_and_never_while_a_person_is_asked() {
        let now = Instant::now();
        let mut turns = of("qwen", now);
        turns.hear(now + ms(5_000));
        let check = |open, after: Option<u64>| {
            assert_eq!(turns.quiet_end(open), after.map(|after| now + ms(after)), "{open:?}");
        };
        check(Open::Nothing, Some(15_000));
        check(Open::Call, Some(605_000));
        check(Open::Approval, None);
    }
}
