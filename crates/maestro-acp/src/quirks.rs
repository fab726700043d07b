//! One file per built-in agent: its entry, and why each value that differs from the default does.

use crate::AgentEntry;

mod claude_agent_acp;
mod claude_code_acp;
mod codex_acp;
mod demo;
mod gemini;
mod opencode;
mod qwen;

/// What every front of Claude Code reads from its environment. Credentials of clouds (`AWS_*` and the like) are not
/// among them: who runs Claude there names them in `config.toml`.
const CLAUDE_ENV_NAMES: [&str; 12] = [
    "ANTHROPIC_*",
    "CLAUDE_*",
    "DISABLE_TELEMETRY",
    "DISABLE_ERROR_REPORTING",
    "DISABLE_AUTOUPDATER",
    "ENABLE_TOOL_SEARCH",
    "MAX_THINKING_TOKENS",
    "BASH_DEFAULT_TIMEOUT_MS",
    "BASH_MAX_TIMEOUT_MS",
    "BASH_MAX_OUTPUT_LENGTH",
    "MCP_TIMEOUT",
    "MCP_TOOL_TIMEOUT",
];

/// All built-in agents, the default first.
pub(crate) fn built_in() -> Vec<AgentEntry> {
    vec![
        claude_code_acp::entry(),
        claude_agent_acp::entry(),
        codex_acp::entry(),
        opencode::entry(),
        gemini::entry(),
        qwen::entry(),
        demo::entry(),
    ]
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).into()).collect()
}
