//! Every recorded agent, played by the program to a client that sends what the recorded client sent.
#![expect(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

use maestro_testkit::Trace;
use serde_json::Value;
use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

fn traces() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/traces");
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|e| e == "ndjson")).collect();
    found.sort();
    assert!(found.len() > 200, "the traces are there");
    found
}

/// What a client of a trace sends and hears, as the file has it: `(process, from the agent, line)`.
fn recorded(path: &Path) -> Vec<(u64, bool, String)> {
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines
        .map(|line| {
            (line["proc"].as_u64().unwrap(), line["dir"] == "in", line["line"].as_str().unwrap().to_owned())
        })
        .collect()
}

#[test]
fn a_client_that_repeats_itself_hears_what_was_recorded() {
    for name in ["claude-agent-acp-bash-allow", "codex-acp-load", "gemini-cancel-stream", "qwen-bad-calls"] {
        let path =
            traces().into_iter().find(|path| path.file_stem().is_some_and(|stem| stem == name)).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let script = directory.path().join("script");
        Trace::read(&path).unwrap().script().write_to(&script).unwrap();
        let lines = recorded(&path);
        for process in 1..=lines.iter().map(|(process, ..)| *process).max().unwrap() {
            let of_process: Vec<_> = lines.iter().filter(|line| line.0 == process).collect();
            let sent: Vec<&str> =
                of_process.iter().filter(|line| !line.1).map(|line| line.2.as_str()).collect();
            let heard = play(&script, &(sent.join("\n") + "\n"));
            let skipped = skipped_ids(&of_process);
            let expect: Vec<&String> = of_process
                .iter()
                .filter(|line| line.1 && !is_answer_to(&line.2, &skipped))
                .map(|line| &line.2)
                .collect();
            compare(name, &heard, &expect, &skipped);
        }
    }
}

/// Plays the script to a client that sends all at once.
fn play(script: &Path, sent: &str) -> Vec<String> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_maestro-scripted-agent"))
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let sent = sent.to_owned();
    let writer = std::thread::spawn(move || stdin.write_all(sent.as_bytes()).unwrap());
    let heard = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap).collect();
    writer.join().unwrap();
    assert!(child.wait().unwrap().success());
    heard
}

fn id_of(line: &str) -> Option<String> {
    let message: Value = serde_json::from_str(line).ok()?;
    message.get("id").map(Value::to_string)
}

fn skipped_ids(lines: &[&(u64, bool, String)]) -> Vec<String> {
    let awaited = ["initialize", "session/new", "session/load", "session/prompt", "session/cancel"];
    let skipped = lines.iter().filter(|line| {
        let message: Value = serde_json::from_str(&line.2).unwrap_or_default();
        !line.1 && message["method"].as_str().is_some_and(|method| !awaited.contains(&method))
    });
    skipped.filter_map(|line| id_of(&line.2)).collect()
}

fn is_answer_to(line: &str, ids: &[String]) -> bool {
    let message: Value = serde_json::from_str(line).unwrap_or_default();
    message.get("method").is_none()
        && message.get("id").is_some_and(|id| id.is_null() || ids.contains(&id.to_string()))
}

/// Answers are equal as JSON, everything else byte for byte. The player's own refusals of skipped calls are left out.
fn compare(name: &str, heard: &[String], expect: &[&String], skipped: &[String]) {
    let said: Vec<&String> = heard.iter().filter(|line| !is_answer_to(line, skipped)).collect();
    let form = |line: &String| -> String {
        let message: Value = serde_json::from_str(line).unwrap_or_default();
        let answer = message.get("method").is_none();
        if answer { serde_json::to_string(&sorted(&message)).unwrap() } else { line.clone() }
    };
    let said: Vec<String> = said.into_iter().map(form).collect();
    let expect: Vec<String> = expect.iter().map(|line| form(line)).collect();
    assert_eq!(said, expect, "{name}");
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().map(|(key, value)| (key.clone(), sorted(value))).collect();
            fields.sort_by(|a, b| a.0.cmp(&b.0));
            fields.into_iter().collect()
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

#[test]
fn every_trace_is_a_script() {
    for path in traces() {
        let trace = Trace::read(&path).unwrap();
        let script = trace.script();
        assert!(script.processes.iter().all(|process| !process.is_empty()), "{}", path.display());
        assert!(trace.agent_lines().count() > 0, "{}", path.display());
    }
}

#[test]
fn a_broken_trace_names_its_line() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "{\"dir\":\"in\",\"ms\":1,\"proc\":1,\"line\":\"x\"}\n{}\n").unwrap();
    let error = Trace::read(file.path()).unwrap_err().to_string();
    assert!(error.starts_with("line 2 of the trace"), "{error}");
}
