//! Recorded traffic of real agents, and how to play it.

use crate::script::{Payload, Script, Step, Steps, Stream};
use serde::Deserialize;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};
use thiserror::Error;

/// The calls of a recorded client that a maestro makes too, and that the played agent therefore waits for. All others
/// are skipped together with their answers.
const AWAITED: [&str; 5] = ["initialize", "session/new", "session/load", "session/prompt", "session/cancel"];

/// Why a trace could not be read.
#[derive(Debug, Error)]
pub enum TraceError {
    /// The file could not be read.
    #[error("the trace {} could not be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line is not as the recorder writes it.
    #[error("line {number} of the trace {} is no recorded message", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        number: usize,
        /// Why.
        source: serde_json::Error,
    },
}

#[derive(Debug, Clone, Deserialize)]
struct Recorded {
    dir: Direction,
    proc: usize,
    line: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Direction {
    /// From the agent.
    In,
    /// From the client.
    Out,
}

/// A recorded conversation: per line `{"dir": "in" | "out", "ms", "proc", "line"}`, `in` being from the agent.
#[derive(Debug, Clone)]
pub struct Trace {
    lines: Vec<Recorded>,
}

impl Trace {
    /// Reads a trace file.
    pub fn read(path: &Path) -> Result<Self, TraceError> {
        let text =
            fs::read_to_string(path).map_err(|source| TraceError::Read { path: path.into(), source })?;
        let lines = text.lines().enumerate().map(|(index, line)| {
            serde_json::from_str(line).map_err(|source| TraceError::Line {
                path: path.into(),
                number: index + 1,
                source,
            })
        });
        Ok(Self { lines: lines.collect::<Result<_, _>>()? })
    }

    /// The agent as a script: it waits for what the recorded client sent, as far as a client of the contract sends it
    /// too, and writes what the recorded agent wrote, byte for byte but for the ids of its answers. Each recorded process is a process of
    /// the script. A trace in which two prompts were open at once cannot be played to a client that never does that.
    pub fn script(&self) -> Script {
        let processes = self.lines.iter().map(|line| line.proc).max().unwrap_or(1);
        Script { processes: (1..=processes).map(|process| self.steps(process)).collect() }
    }

    /// The texts of the prompts, in order.
    pub fn prompts(&self) -> Vec<String> {
        let sent = self.messages(Direction::Out).filter(|message| message["method"] == "session/prompt");
        sent.map(|message| {
            let blocks = message["params"]["prompt"].as_array().cloned().unwrap_or_default();
            blocks.iter().filter_map(|block| block["text"].as_str()).collect()
        })
        .collect()
    }

    /// The lines that the agent wrote, as they are.
    pub fn agent_lines(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().filter(|line| line.dir == Direction::In).map(|line| line.line.as_str())
    }

    /// The permission requests of the agent, whole.
    pub fn permission_requests(&self) -> Vec<Value> {
        let asked = |message: &Value| message["method"] == "session/request_permission";
        self.messages(Direction::In).filter(asked).collect()
    }

    fn messages(&self, direction: Direction) -> impl Iterator<Item = Value> {
        let lines = self.lines.iter().filter(move |line| line.dir == direction);
        lines.filter_map(|line| serde_json::from_str(&line.line).ok())
    }

    fn steps(&self, process: usize) -> Vec<Step> {
        let mut compiler = Compiler::default();
        for recorded in self.lines.iter().filter(|line| line.proc == process) {
            let message = serde_json::from_str(&recorded.line).unwrap_or(Value::Null);
            match recorded.dir {
                Direction::Out => compiler.sent(&message),
                Direction::In => compiler.answered_or_said(&recorded.line, &message),
            }
        }
        compiler.steps.into_vec()
    }
}

#[derive(Default)]
struct Compiler {
    steps: Steps,
    /// Names of the awaited calls by the text of their recorded ids.
    names: BTreeMap<String, String>,
}

impl Compiler {
    fn add(&mut self, step: Step) {
        self.steps = std::mem::take(&mut self.steps).step(step);
    }

    /// Something that the recorded client sent.
    fn sent(&mut self, message: &Value) {
        let id = message.get("id");
        match (message["method"].as_str(), id) {
            (Some(method), id) if AWAITED.contains(&method) => {
                let name = id.map_or_else(|| method.to_owned(), |id| format!("call {id}"));
                if let Some(id) = id {
                    self.names.insert(id.to_string(), name.clone());
                }
                self.add(Step::Expect { methods: vec![method.into()], name });
            }
            (None, Some(id)) => self.add(Step::AwaitAnswer { id: id.clone() }),
            _ => {}
        }
    }

    /// Something that the recorded agent sent.
    fn answered_or_said(&mut self, line: &str, message: &Value) {
        if message.get("method").is_some() || message.get("id").is_none() {
            let mut bytes = line.as_bytes().to_vec();
            bytes.push(b'\n');
            self.add(Step::Write { stream: Stream::Stdout, payload: Payload::Bytes(bytes), times: 1 });
            return;
        }
        let Some(to) = self.names.remove(&message["id"].to_string()) else { return };
        self.add(match message.get("error") {
            Some(error) => Step::Fail { to, error: error.clone() },
            None => Step::Reply { to, result: message["result"].clone() },
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(lines: &[(&str, &str)]) -> Trace {
        let recorded = |(dir, line): &(&str, &str)| Recorded {
            dir: if *dir == "in" { Direction::In } else { Direction::Out },
            proc: 1,
            line: (*line).into(),
        };
        Trace { lines: lines.iter().map(recorded).collect() }
    }

    fn check(lines: &[(&str, &str)], expect: Steps) {
        assert_eq!(trace(lines).script().processes, [expect.into_vec()], "{lines:?}");
    }

    #[test]
    fn a_conversation_becomes_steps() {
        let update = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"{{s}}"}}"#;
        check(
            &[
                ("out", r#"{"id":3,"method":"session/prompt","params":{}}"#),
                ("in", update),
                ("in", r#"{"id":3,"result":{"stopReason":"end_turn"}}"#),
            ],
            Steps::default()
                .expect("session/prompt", "call 3")
                .bytes(Stream::Stdout, format!("{update}\n").as_bytes(), 1)
                .reply("call 3", serde_json::json!({"stopReason": "end_turn"})),
        );
    }

    #[test]
    fn calls_that_no_maestro_makes_are_skipped_with_their_answers() {
        check(
            &[
                ("out", r#"{"id":4,"method":"session/list","params":{}}"#),
                ("in", r#"{"id":4,"result":{}}"#),
                ("out", "{broken"),
                ("out", r#"{"method":"session/cancel","params":{}}"#),
            ],
            Steps::default().expect("session/cancel", "session/cancel"),
        );
    }

    #[test]
    fn a_request_of_the_agent_waits_for_its_answer() {
        let request = r#"{"id":"u-1","method":"session/request_permission","params":{}}"#;
        check(
            &[("in", request), ("out", r#"{"id":"u-1","result":{}}"#)],
            Steps::default().bytes(Stream::Stdout, format!("{request}\n").as_bytes(), 1).await_answer("u-1"),
        );
    }
}
