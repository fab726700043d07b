use super::names;
use crate::AgentEntry;

/// Gemini CLI. It answers `session/load` before most of the history that it replays.
pub(super) fn entry() -> AgentEntry {
    AgentEntry {
        args: vec!["--acp".into()],
        env_names: names(&["GEMINI_*", "GOOGLE_*"]),
        install: Some("npm install -g --prefix ~/.local @google/gemini-cli".into()),
        // Without a sign-in its own interface asks for one first.
        sign_in: Some("gemini".into()),
        asking_mode: Some("default".into()),
        // The replay was seen to follow the answer within 2 ms and without pauses; the rest is for slow machines.
        load_drain_ms: 500,
        ..AgentEntry::built_in("gemini", "Gemini CLI", "gemini")
    }
}
