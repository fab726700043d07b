use super::names;
use crate::AgentEntry;

/// opencode. Its modes are agents, not permissions: `build` runs what its configuration allows (everything, if it
/// says nothing) and `plan` cannot edit at all. None of them asks, so there is no asking mode; what it asks is set
/// by `permission` in opencode's own configuration.
pub(super) fn entry() -> AgentEntry {
    AgentEntry {
        args: vec!["acp".into()],
        env_names: names(&[
            "OPENCODE_*",
            "ANTHROPIC_API_KEY",
            "OPENAI_API_KEY",
            "GEMINI_API_KEY",
            "GOOGLE_GENERATIVE_AI_API_KEY",
            "OPENROUTER_API_KEY",
        ]),
        install: Some("npm install -g --prefix ~/.local opencode-ai".into()),
        sign_in: Some("opencode auth login".into()),
        // A cancelled turn was seen to settle after 519 ms.
        cancel_grace_ms: 2_000,
        ..AgentEntry::built_in("opencode", "opencode", "opencode")
    }
}
