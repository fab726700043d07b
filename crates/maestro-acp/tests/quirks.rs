//! Each quirk of a built-in agent is what its recordings show, read with plain JSON.

#![expect(clippy::unwrap_used, reason = "everything in this file is a test")]

use maestro_acp::{AgentEntry, AgentTable, Program};
use serde::Deserialize;
use serde_json::Value;
use std::{collections::BTreeSet, fs, path::Path};

/// One message of a recording.
struct Message {
    from_agent: bool,
    ms: f64,
    process: u64,
    value: Value,
}

impl Message {
    fn calls(&self, method: &str) -> bool {
        self.value["method"] == method
    }

    /// The answer to the request of this id.
    fn answers(&self, id: &Value) -> bool {
        self.from_agent && self.value.get("method").is_none() && self.value["id"] == *id
    }

    /// Whether it adds something to the transcript.
    fn is_content(&self) -> bool {
        let kind = self.value["params"]["update"]["sessionUpdate"].as_str().unwrap_or_default();
        self.from_agent && (kind.ends_with("_chunk") || kind == "plan" || kind == "tool_call")
    }
}

fn recording(agent: &AgentEntry, scenario: &str) -> Vec<Message> {
    #[derive(Deserialize)]
    struct Record {
        dir: String,
        ms: f64,
        #[serde(rename = "proc")]
        process: u64,
        line: String,
    }
    let name = format!("../../testdata/traces/{}-{scenario}.ndjson", agent.key);
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap();
    let records = text.lines().map(|line| serde_json::from_str::<Record>(line).unwrap());
    // A client may have sent what is no JSON, to see what becomes of it.
    let message = |record: Record| {
        let value = serde_json::from_str(&record.line).unwrap_or_default();
        Message { from_agent: record.dir == "in", ms: record.ms, process: record.process, value }
    };
    records.map(message).collect()
}

/// The built-in agents but the demo, which nobody recorded.
fn agents() -> impl Iterator<Item = AgentEntry> {
    let table = AgentTable::built_in();
    let real = table.iter().filter(|entry| entry.program != Program::BuiltInDemo).cloned();
    real.collect::<Vec<_>>().into_iter()
}

/// The answer to `session/new`.
fn opened(agent: &AgentEntry) -> Value {
    let hello = recording(agent, "hello");
    let answer =
        hello.iter().find(|message| message.from_agent && message.value["result"]["sessionId"].is_string());
    answer.unwrap().value["result"].clone()
}

#[test]
fn an_asking_mode_is_one_that_the_agent_offers() {
    for agent in agents() {
        let opened = opened(&agent);
        let modes = opened["modes"]["availableModes"].as_array().into_iter().flatten();
        let options = opened["configOptions"].as_array().into_iter().flatten();
        let options = options.filter(|option| option["category"] == "mode");
        let values = options.filter_map(|option| option["options"].as_array()).flatten();
        let offered: BTreeSet<&str> = modes
            .filter_map(|mode| mode["id"].as_str())
            .chain(values.filter_map(|value| value["value"].as_str()))
            .collect();
        match &agent.asking_mode {
            Some(mode) => assert!(offered.contains(mode.as_str()), "{}: {mode} of {offered:?}", agent.key),
            // It has modes, and none of them asks.
            None => {
                assert_eq!((agent.key.as_str(), offered), ("opencode", BTreeSet::from(["build", "plan"])));
            }
        }
    }
}

/// How long the agent took to answer a prompt that was cancelled, in milliseconds.
fn settling_ms(agent: &AgentEntry, scenario: &str) -> f64 {
    let messages = recording(agent, scenario);
    let cancel = messages.iter().position(|message| message.calls("session/cancel")).unwrap();
    let prompt = messages[..cancel].iter().rfind(|message| message.calls("session/prompt")).unwrap();
    let answer = messages[cancel..].iter().find(|message| message.answers(&prompt.value["id"])).unwrap();
    answer.ms - messages[cancel].ms
}

#[test]
fn every_recorded_cancel_settled_within_half_of_the_grace() {
    for agent in agents() {
        let took =
            ["cancel-stream", "cancel-permission", "cancel-tool"].map(|name| settling_ms(&agent, name));
        let longest = took.into_iter().fold(0.0, f64::max);
        let grace_ms = f64::from(u32::try_from(agent.cancel_grace_ms).unwrap());
        assert!(longest * 2.0 < grace_ms, "{}: {longest} ms of {grace_ms}", agent.key);
        // A longer grace is a longer wait for the prompt behind the cancel: it needs a recording that asks for it.
        assert!(agent.cancel_grace_ms == 500 || longest > 250.0, "{}: {longest} ms", agent.key);
    }
}

#[test]
fn a_load_is_drained_where_its_history_comes_behind_its_answer() {
    for agent in agents() {
        let messages = recording(&agent, "load");
        let load = messages.iter().position(|message| message.calls("session/load")).unwrap();
        let (id, process) = (&messages[load].value["id"], messages[load].process);
        let behind = messages[load..].iter().skip_while(|message| !message.answers(id)).skip(1);
        let late = behind
            .take_while(|message| message.process == process && !message.calls("session/prompt"))
            .any(Message::is_content);
        assert_eq!(late, agent.load_drain_ms > 0, "{}", agent.key);
    }
}

#[test]
fn turns_of_its_own_begin_where_work_comes_behind_the_last_answer() {
    for agent in agents() {
        let messages = recording(&agent, "bg-later");
        let prompt = messages.iter().position(|message| message.calls("session/prompt")).unwrap();
        let id = &messages[prompt].value["id"];
        let behind = messages[prompt..].iter().skip_while(|message| !message.answers(id)).skip(1);
        let works = behind.take_while(|message| !message.calls("session/prompt")).any(Message::is_content);
        assert_eq!(works, agent.own_turns, "{}", agent.key);
    }
}

#[test]
fn a_sign_in_command_is_the_one_that_the_agent_names() {
    let mut named = BTreeSet::new();
    for agent in agents() {
        let messages = recording(&agent, "hello");
        let initialized =
            messages.iter().find(|message| message.value["result"]["protocolVersion"].is_u64()).unwrap();
        let methods = initialized.value["result"]["authMethods"].as_array().cloned().unwrap_or_default();
        let commands = methods.iter().filter_map(|method| method["description"].as_str()?.split('`').nth(1));
        // Some name a variable.
        for command in commands.filter(|command| command.contains(' ')) {
            assert_eq!(agent.sign_in.as_deref(), Some(command), "{}", agent.key);
            named.insert(agent.key.to_string());
        }
    }
    assert_eq!(named, BTreeSet::from(["claude-code-acp".to_owned(), "opencode".to_owned()]));
}

#[test]
fn what_the_agents_run_with_may_be_inherited() {
    let text = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/agents.json")).unwrap();
    let run_with: Value = serde_json::from_slice(&text).unwrap();
    for agent in agents() {
        let variables = run_with[agent.key.as_str()]["env"].as_object().unwrap();
        let is_named = |variable: &str| {
            agent.env_names.iter().any(|name| match name.strip_suffix('*') {
                Some(prefix) => variable.starts_with(prefix),
                None => variable == name,
            })
        };
        let unnamed: Vec<&String> = variables.keys().filter(|variable| !is_named(variable)).collect();
        assert!(unnamed.is_empty(), "{}: {unnamed:?}", agent.key);
    }
}
