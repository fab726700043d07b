use super::names;
use crate::{AgentEntry, TurnMark};

/// Qwen Code. It starts in mode `auto`, where a model decides what to ask; it starts turns when background work
/// ends, and frames them with a request and a notification outside of the protocol.
pub(super) fn entry() -> AgentEntry {
    AgentEntry {
        args: vec!["--acp".into()],
        env_names: names(&["QWEN_*", "DASHSCOPE_*", "OPENAI_*"]),
        install: Some("npm install -g --prefix ~/.local @qwen-code/qwen-code".into()),
        // Without a sign-in its own interface asks for one first.
        sign_in: Some("qwen".into()),
        asking_mode: Some("default".into()),
        own_turns: true,
        own_turn_end: Some(TurnMark::Notification("_qwencode/end_turn")),
        ..AgentEntry::built_in("qwen", "Qwen Code", "qwen")
    }
}
