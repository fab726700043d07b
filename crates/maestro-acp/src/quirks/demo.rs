use crate::{AgentEntry, DEMO_ARG, Program};

/// The agent inside maestro's own program: no key, no network, no environment.
pub(super) fn entry() -> AgentEntry {
    AgentEntry {
        program: Program::BuiltInDemo,
        args: vec![DEMO_ARG.into()],
        asking_mode: Some("ask".into()),
        ..AgentEntry::built_in("demo", "Demo", "")
    }
}
