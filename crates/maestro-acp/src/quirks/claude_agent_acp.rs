use super::{CLAUDE_ENV_NAMES, names};
use crate::{AgentEntry, TurnMark};

/// Claude Code by the adapter of the protocol's own project. It starts in mode `auto`, where Claude itself decides
/// what to ask, unless the person's settings say otherwise; it starts turns when background work ends.
/// Each of its turns ends with a usage update that names who had begun it.
pub(super) fn entry() -> AgentEntry {
    AgentEntry {
        env_names: names(&CLAUDE_ENV_NAMES),
        install: Some("npm install -g --prefix ~/.local @agentclientprotocol/claude-agent-acp".into()),
        sign_in: Some("claude-agent-acp --cli auth login".into()),
        asking_mode: Some("default".into()),
        own_turns: true,
        own_turn_end: Some(TurnMark::Update {
            kind: "usage_update",
            pointer: "/_meta/_claude~1origin/kind",
            unless: "human",
        }),
        ..AgentEntry::built_in("claude-agent-acp", "Claude Agent", "claude-agent-acp")
    }
}
