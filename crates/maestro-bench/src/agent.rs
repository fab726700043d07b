//! The agent that is measured with: native, one write for each line as real agents write, and a stamp in each chunk.
//!
//! A prompt tells it what to do: `stream COUNT RATE` writes so many chunks, so many a second (0: as fast as they go);
//! `ask COUNT` asks for permission so many times, and stamps the moment at which each answer is here.

use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use std::{
    fmt::Write as _,
    io::{self, BufRead as _, Write as _},
    thread,
    time::Duration,
};

pub(crate) const ARG: &str = "__agent";

/// Chunks that make one message: about what a long answer has.
const CHUNKS_PER_MESSAGE: u64 = 500;

/// Nanoseconds of a clock that all processes share.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

/// A chunk of this process's message `message` with a stamp that reads `@<nanoseconds>;`.
fn chunk(line: &mut String, message: u64, stamp: u64) {
    line.clear();
    let process = std::process::id();
    // A String takes everything.
    writeln!(
        line,
        r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"bench","update":{{"sessionUpdate":"agent_message_chunk","messageId":"m{process}-{message}","content":{{"type":"text","text":"@{stamp};some words of an answer "}}}}}}}}"#
    )
    .unwrap_or_default();
}

pub(crate) fn main() -> io::Result<()> {
    let mut lines = io::stdin().lock().lines();
    let mut messages = 0;
    while let Some(line) = lines.next() {
        let message: Value = serde_json::from_str(&line?)?;
        let (id, method) = (&message["id"], message["method"].as_str().unwrap_or_default());
        let result = match method {
            "initialize" => json!({"protocolVersion": 1, "agentCapabilities": {"loadSession": true}}),
            "session/new" => json!({"sessionId": "bench"}),
            "session/prompt" => {
                let text = message["params"]["prompt"][0]["text"].as_str().unwrap_or_default().to_owned();
                obey(&text, &mut messages, &mut lines)?;
                json!({"stopReason": "end_turn"})
            }
            _ => json!({}),
        };
        if !id.is_null() {
            say(&json!({"jsonrpc": "2.0", "id": id, "result": result}))?;
        }
    }
    Ok(())
}

fn say(message: &Value) -> io::Result<()> {
    let mut line = message.to_string();
    line.push('\n');
    io::stdout().lock().write_all(line.as_bytes())
}

type Lines<'a> = io::Lines<io::StdinLock<'a>>;

fn obey(prompt: &str, messages: &mut u64, lines: &mut Lines<'_>) -> io::Result<()> {
    let words: Vec<&str> = prompt.split_whitespace().collect();
    let number = |place: usize| words.get(place).and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
    match words.first() {
        Some(&"ask") => ask(number(1), messages, lines),
        _ => stream(number(1), number(2), messages),
    }
}

/// Writes chunks at their moments; one that is late is written at once and the next ones keep theirs.
pub(crate) fn stream(count: u64, rate: u64, messages: &mut u64) -> io::Result<()> {
    let (begin, mut line) = (now_ns(), String::new());
    // A whole line goes through its buffer as one write.
    let mut out = io::stdout().lock();
    for number in 0..count {
        if number % CHUNKS_PER_MESSAGE == 0 {
            *messages += 1;
        }
        if let Some(due) = (number * 1_000_000_000).checked_div(rate) {
            let wait = (begin + due).saturating_sub(now_ns());
            thread::sleep(Duration::from_nanos(wait));
        }
        chunk(&mut line, *messages, now_ns());
        out.write_all(line.as_bytes())?;
    }
    Ok(())
}

/// Asks one request after the other; the moment of each answer goes into a chunk of its own.
fn ask(count: u64, messages: &mut u64, lines: &mut Lines<'_>) -> io::Result<()> {
    for number in 0..count {
        let id = 1000 + number;
        say(&json!({
            "jsonrpc": "2.0", "id": id, "method": "session/request_permission",
            "params": {
                "sessionId": "bench",
                "toolCall": {"toolCallId": "t", "title": "make", "kind": "execute", "status": "pending"},
                "options": [
                    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
                    {"optionId": "no", "name": "No", "kind": "reject_once"},
                ],
            },
        }))?;
        for line in lines.by_ref() {
            let (line, here) = (line?, now_ns());
            if serde_json::from_str::<Value>(&line)?["id"] == id {
                *messages += 1;
                let mut told = String::new();
                chunk(&mut told, *messages, here);
                io::stdout().lock().write_all(told.as_bytes())?;
                break;
            }
        }
    }
    Ok(())
}
