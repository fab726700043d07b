use crate::{AgentEntry, DEMO_ARG, Program};

/// The agent inside maestro's own program: no key, no network, no environment, and it always asks.
pub(super) fn entry() -> AgentEntry {
    AgentEntry {
        program: Program::BuiltInDemo,
        args: vec![DEMO_ARG.into()],
        ..AgentEntry::built_in("demo", "Demo", "")
    }
}
