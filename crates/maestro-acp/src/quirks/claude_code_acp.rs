use super::{CLAUDE_ENV_NAMES, names};
use crate::{AgentEntry, DEFAULT_AGENT, INSTALL_COMMAND};

/// Claude Code by the adapter of Zed. It reads its stream only during a prompt, so it has no turns of its own.
pub(super) fn entry() -> AgentEntry {
    AgentEntry {
        env_names: names(&CLAUDE_ENV_NAMES),
        install: Some(INSTALL_COMMAND.into()),
        sign_in: Some("claude /login".into()),
        asking_mode: Some("default".into()),
        ..AgentEntry::built_in(DEFAULT_AGENT, "Claude Code", "claude-code-acp")
    }
}
