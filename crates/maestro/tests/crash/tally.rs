//! What the rounds did, for the people who run them.

use std::fmt;

/// What was done, over all rounds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) rounds: u64,
    pub(crate) kills: u64,
    pub(crate) kills_before_ready: u64,
    pub(crate) sessions: u64,
    pub(crate) prompts: u64,
    pub(crate) decisions: u64,
    pub(crate) renames: u64,
    pub(crate) lines: u64,
    pub(crate) torn: u64,
}

impl Tally {
    pub(crate) fn plus(self, other: &Self) -> Self {
        Self {
            rounds: self.rounds + other.rounds,
            kills: self.kills + other.kills,
            kills_before_ready: self.kills_before_ready + other.kills_before_ready,
            sessions: self.sessions + other.sessions,
            prompts: self.prompts + other.prompts,
            decisions: self.decisions + other.decisions,
            renames: self.renames + other.renames,
            lines: self.lines + other.lines,
            torn: self.torn + other.torn,
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rounds, kills, kills_before_ready, sessions, prompts, decisions, renames, lines, torn } =
            self;
        write!(
            f,
            "{rounds} rounds, {kills} kills ({kills_before_ready} of a daemon that was not ready), {sessions} sessions; \
             kept: {prompts} prompts, {decisions} decisions, {renames} renames; {lines} lines shown before a kill were \
             compared with the replay after it; {torn} lines that were cut short kept their place"
        )
    }
}
