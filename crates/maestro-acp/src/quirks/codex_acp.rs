use super::names;
use crate::AgentEntry;

/// Codex. It starts in mode `agent`, which asks only for what it deems unsafe; `read-only` asks before every edit
/// and every access to the network.
pub(super) fn entry() -> AgentEntry {
    AgentEntry {
        env_names: names(&["CODEX_*", "OPENAI_*", "INITIAL_AGENT_MODE", "NO_BROWSER", "APP_SERVER_LOGS"]),
        install: Some("npm install -g --prefix ~/.local @agentclientprotocol/codex-acp".into()),
        sign_in: Some("codex-acp login".into()),
        asking_mode: Some("read-only".into()),
        ..AgentEntry::built_in("codex-acp", "Codex", "codex-acp")
    }
}
