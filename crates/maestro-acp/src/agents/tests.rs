use super::{AgentOverride, AgentTable, AgentTableError, Overlap, Program};
use crate::{CANCEL_GRACE, DEFAULT_AGENT, DEMO_ARG, INSTALL_COMMAND};
use maestro_protocol::AgentKey;
use std::collections::BTreeMap;

fn key(text: &str) -> AgentKey {
    text.parse().unwrap()
}

/// The table after the `[agents.…]` tables of a configuration.
fn table(config: &str) -> Result<AgentTable, String> {
    let overrides =
        toml::from_str::<BTreeMap<AgentKey, AgentOverride>>(config).map_err(|e| e.message().to_owned())?;
    AgentTable::built_in().with_overrides(overrides).map_err(|e| e.to_string())
}

#[test]
fn the_built_in_agents() {
    let table = AgentTable::built_in();
    let facts: Vec<_> = table
        .iter()
        .map(|entry| {
            let program = match &entry.program {
                Program::Path(program) => program.as_str(),
                Program::BuiltInDemo => "(maestro)",
            };
            let mode = entry.asking_mode.as_deref().unwrap_or("-");
            let command = [&[program.to_owned()], &entry.args[..]].concat().join(" ");
            (command, mode, entry.cancel_grace_ms, entry.load_drain_ms, entry.own_turns)
        })
        .collect();
    let expect = [
        ("claude-code-acp", "default", 500, 0, false),
        ("claude-agent-acp", "default", 500, 0, true),
        ("codex-acp", "read-only", 500, 0, false),
        ("opencode acp", "-", 2000, 0, false),
        ("gemini --acp", "default", 500, 500, false),
        ("qwen --acp", "default", 500, 0, true),
        ("(maestro) __demo-agent", "ask", 500, 0, false),
    ];
    assert_eq!(
        facts,
        expect.map(|(command, mode, grace, drain, own)| (command.into(), mode, grace, drain, own))
    );
    assert!(table.iter().all(|entry| entry.overlapping_approvals == Overlap::Wait));
    assert_eq!(table.default_entry().key, key(DEFAULT_AGENT));
    assert_eq!(table.default_entry().install.as_deref(), Some(INSTALL_COMMAND));
    assert_eq!(table.get(&key("demo")).unwrap().args, [DEMO_ARG]);
    assert_eq!(table.get(&key("nobody")), None);
    assert_eq!(CANCEL_GRACE.as_millis(), 500);
}

#[test]
fn every_installable_agent_says_how_to_install_and_to_sign_in() {
    for entry in AgentTable::built_in().iter().filter(|entry| entry.program != Program::BuiltInDemo) {
        assert!(
            entry.install.is_some() && entry.sign_in.is_some() && !entry.env_names.is_empty(),
            "{}",
            entry.key
        );
        assert!(entry.env_names.iter().all(|name| super::is_env_name(name)), "{}", entry.key);
    }
}

#[test]
fn an_override_replaces_what_it_names() {
    let table = table(
        r#"
        [claude-code-acp]
        cancel_grace_ms = 5000
        asking_mode = ""
        overlapping_approvals = "newest_wins"

        [gemini]
        program = "/opt/gemini"

        [mine]
        program = "mine-acp"
        args = ["--stdio"]
        name = "Mine"
        env_names = ["MINE_*", "TOKEN"]
        own_turns = true
        own_turn_quiet_ms = 60000
        "#,
    )
    .unwrap();
    let claude = table.get(&key("claude-code-acp")).unwrap();
    assert_eq!((claude.cancel_grace_ms, claude.asking_mode.as_deref()), (5000, None));
    assert_eq!(claude.overlapping_approvals, Overlap::NewestWins);
    assert_eq!(claude.install.as_deref(), Some(INSTALL_COMMAND));
    let gemini = table.get(&key("gemini")).unwrap();
    assert_eq!(
        (&gemini.program, &gemini.args[..]),
        (&Program::Path("/opt/gemini".into()), &["--acp".to_owned()][..])
    );
    let mine = table.iter().last().unwrap();
    assert_eq!((mine.key.as_str(), mine.name.as_str(), mine.cancel_grace_ms), ("mine", "Mine", 500));
    assert_eq!((mine.own_turns, mine.env_names.len(), mine.args.len()), (true, 2, 1));
    assert_eq!((mine.own_turn_quiet_ms, gemini.own_turn_quiet_ms), (60_000, 10_000));
}

#[test]
fn an_override_that_cannot_be_used_says_why() {
    let check = |config: &str, expect: &str| {
        let error = table(config).unwrap_err();
        assert!(error.contains(expect), "{error}");
    };
    check(
        "[new]\nname = \"New\"",
        "agents.new: no built-in agent has this key, so `program` must name what to run",
    );
    check("[new]\nprogram = \"\"", "`program` must name what to run");
    check("[gemini]\ncancel_grace_ms = 5001", "`cancel_grace_ms` is 5001 ms; at most 5000 ms");
    check("[gemini]\nload_drain_ms = 10001", "`load_drain_ms` is 10001 ms; at most 10000 ms");
    check("[qwen]\nown_turn_quiet_ms = 60001", "`own_turn_quiet_ms` is 60001 ms; at most 60000 ms");
    check("[demo]\nprogram = \"x\"", "the demo agent is built in");
    check("[demo]\nargs = []", "the demo agent is built in");
    check("[gemini]\nprogramm = \"x\"", "unknown field `programm`");
    check("[gemini]\noverlapping_approvals = \"both\"", "unknown variant `both`");
    check("[Gemini]\nargs = []", "no valid agent key");
    for name in ["*", "", "A=B", "1A", "A*B", "A**", "A B"] {
        check(&format!("[gemini]\nenv_names = [{name:?}]"), &format!("`env_names` has {name:?}"));
    }
}

#[test]
fn errors_are_values() {
    let overrides = BTreeMap::from([(key("new"), AgentOverride::default())]);
    let error = AgentTable::built_in().with_overrides(overrides).unwrap_err();
    assert_eq!(error, AgentTableError::NoProgram { key: key("new") });
}
