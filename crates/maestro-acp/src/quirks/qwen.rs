use super::names;
use crate::AgentEntry;

/// Qwen Code. It starts in mode `auto`, where a model decides what to ask; it starts turns when background work
/// ends.
pub(super) fn entry() -> AgentEntry {
    AgentEntry {
        args: vec!["--acp".into()],
        env_names: names(&["QWEN_*", "DASHSCOPE_*", "OPENAI_*"]),
        install: Some("npm install -g --prefix ~/.local @qwen-code/qwen-code".into()),
        // Without a sign-in its own interface asks for one first.
        sign_in: Some("qwen".into()),
        asking_mode: Some("default".into()),
        own_turns: true,
        ..AgentEntry::built_in("qwen", "Qwen Code", "qwen")
    }
}
