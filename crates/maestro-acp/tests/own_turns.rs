//! Which recordings of real agents hold turns of the agent's own, and whether each has its mark.

#![expect(clippy::unwrap_used, reason = "everything in this file is a test")]

use maestro_acp::{AgentTable, Frame, Stir, decode, stir};
use serde::Deserialize;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

#[derive(Deserialize)]
struct Record {
    dir: String,
    #[serde(rename = "proc", default)]
    process: u64,
    line: String,
}

/// How often work showed outside of prompts with no turn open, and how often such a turn was marked as ended.
fn own_turns(agent: &str, trace: &Path) -> (usize, usize) {
    let table = AgentTable::built_in();
    let mark = table.get(&agent.parse().unwrap()).unwrap().own_turn_end.unwrap();
    let (mut asked, mut known) = (BTreeSet::new(), BTreeSet::new());
    let (mut prompted, mut open, mut process) = (false, false, None);
    let (mut opened, mut ended) = (0, 0);
    for line in fs::read_to_string(trace).unwrap().lines() {
        let record: Record = serde_json::from_str(line).unwrap();
        if process.replace(record.process) != Some(record.process) {
            (prompted, open) = (false, false);
            asked.clear();
        }
        if record.dir == "out" {
            // A client may have sent what is no JSON, to see what becomes of it.
            let message: Value = serde_json::from_str(&record.line).unwrap_or_default();
            if message["method"] == "session/prompt" {
                prompted = true;
                asked.insert(message["id"].as_u64());
            }
            continue;
        }
        let frame = decode(record.line.as_bytes());
        let works = match (&frame, stir(&frame)) {
            (Frame::PermissionRequest(_), _) | (_, Some(Stir::Text)) => true,
            (_, Some(Stir::Call(id))) => known.insert(id),
            _ => false,
        };
        if let Frame::Response { id, .. } = &frame {
            asked.remove(&Some(*id));
        }
        if prompted && asked.is_empty() && !open && works {
            (open, opened) = (true, opened + 1);
        }
        if open && mark.is(&frame) {
            (open, ended) = (false, ended + 1);
        }
    }
    (opened, ended)
}

#[test]
fn every_turn_of_a_real_agents_own_has_its_mark() {
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/traces");
    let mut found = BTreeMap::new();
    for file in fs::read_dir(traces).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let agent = ["claude-agent-acp", "qwen"].into_iter().find(|agent| name.starts_with(agent));
        // A client that speaks the protocol's next version is told of turns in another way.
        let Some(agent) = agent.filter(|_| !name.ends_with("init-v2")) else { continue };
        let counts = own_turns(agent, &path);
        if counts != (0, 0) {
            found.insert(name, counts);
        }
    }
    let claude = ["claude-agent-acp-bg", "claude-agent-acp-bg-later", "claude-agent-acp-bg-tasks"];
    let expect: Vec<_> = claude.into_iter().chain(["qwen-bg", "qwen-bg-later"]).collect();
    assert_eq!(found, expect.into_iter().map(|name| (name.to_owned(), (1, 1))).collect());
}
