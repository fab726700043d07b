//! What a scripted agent does, as data: a JSON file that a test writes and `maestro-scripted-agent` plays.

mod misbehaviour;
mod steps;

pub use steps::Steps;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::{fs, io, path::Path};

/// One thing that a scripted agent does. Strings of `message`, `result`, `error` and text payloads may hold
/// `{{session}}`, `{{cwd}}` (of the last `session/new` or `session/load`), `{{process}}` (1 for the first process
/// that plays the script), `{{next}}` (1 at its first use in a process, then 2, …), `{{id:NAME}}` (the id of the call that an [`Step::Expect`] named) and `{{outcome:ID}}`
/// (how the permission request with that id was answered). A string that is one placeholder and nothing else becomes
/// the value itself, so that ids keep their JSON type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Step {
    /// Waits for a request or notification with one of these methods and remembers it under `name`. Other requests
    /// that arrive meanwhile get an empty result (`session/set_mode`) or the error -32601.
    Expect {
        /// Methods that are waited for.
        methods: Vec<String>,
        /// For `{{id:NAME}}` and for the answer.
        name: String,
    },
    /// Answers a remembered request with a result.
    Reply {
        /// The request's name.
        to: String,
        /// The result.
        result: Value,
    },
    /// Answers a remembered request with a JSON-RPC error.
    Fail {
        /// The request's name.
        to: String,
        /// `{code, message, data?}`.
        error: Value,
    },
    /// Writes a message as one line of compact JSON.
    Send {
        /// The message.
        message: Value,
    },
    /// Writes exactly this, `times` times over, with no newline added.
    Write {
        /// Where to.
        stream: Stream,
        /// What.
        payload: Payload,
        /// How often.
        times: u64,
    },
    /// Does nothing for this long, reading on, whatever arrives or closes.
    Wait {
        /// Milliseconds.
        ms: u64,
    },
    /// Waits until this file exists, so that a test decides the moment.
    AwaitFile {
        /// An absolute path.
        path: String,
    },
    /// Waits for the answer to the request of ours that has this id.
    AwaitAnswer {
        /// The id.
        id: Value,
    },
    /// Plays `then` if the permission request with this id was answered with `option`, else `otherwise`.
    When {
        /// The id of an answered request.
        id: Value,
        /// An option id.
        option: String,
        /// Played on a match.
        then: Vec<Step>,
        /// Played otherwise.
        otherwise: Vec<Step>,
    },
    /// Plays steps again and again; `times: null` means until stdin closes.
    Repeat {
        /// How often.
        times: Option<u64>,
        /// The steps.
        steps: Vec<Step>,
    },
    /// Ignores SIGTERM and SIGINT from here on.
    IgnoreSignals,
    /// Stops reading stdin; a read that has begun may still take up to 8 KiB.
    StopReading,
    /// Reads stdin again.
    ResumeReading,
    /// Closes stdout and lives on.
    CloseStdout,
    /// Starts processes that try to outlive the agent.
    Descend(Descent),
    /// Records what the process was given: environment, file descriptors, umask, limits.
    Inspect,
    /// Records a word, so that a test knows how far the script came.
    Note {
        /// The word.
        text: String,
    },
    /// Reads on and answers nothing until stdin closes.
    Hang,
    /// Ends the process with this status.
    Exit {
        /// The status.
        code: u8,
    },
    /// Ends the process by this signal.
    Die {
        /// The signal's number.
        signal: i32,
    },
}

/// An output of the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// Where its messages go.
    Stdout,
    /// Where its logs go.
    Stderr,
}

/// What [`Step::Write`] writes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Payload {
    /// Text with placeholders.
    Text(String),
    /// Bytes as they are.
    Bytes(Vec<u8>),
}

/// A process that a scripted agent leaves behind. It ends by itself after two minutes.
#[expect(clippy::struct_excessive_bools, reason = "each is a trait of its own, and all combine")]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Descent {
    /// In a session of its own, out of reach of signals to the agent's process group.
    pub setsid: bool,
    /// Through a parent that is gone at once, so that it is nobody's child.
    pub double_fork: bool,
    /// Ignores SIGTERM and SIGINT.
    pub ignore_signals: bool,
    /// Keeps the agent's stdout open.
    pub hold_stdout: bool,
}

/// The whole play: what the first, second, … process that plays the file does. Later processes do what the last one
/// named here does.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Script {
    /// Steps by process.
    pub processes: Vec<Vec<Step>>,
}

impl Script {
    /// A script whose one process does nothing but read.
    pub fn new() -> Self {
        Self { processes: vec![Vec::new()] }
    }

    /// The steps that follow are those of the next process that plays the file.
    #[must_use]
    pub fn next_process(mut self) -> Self {
        self.processes.push(Vec::new());
        self
    }

    /// Adds steps to the current process.
    #[must_use]
    pub fn then(mut self, steps: impl FnOnce(Steps) -> Steps) -> Self {
        let added = steps(Steps::default()).into_vec();
        match self.processes.last_mut() {
            Some(process) => process.extend(added),
            None => self.processes.push(added),
        }
        self
    }

    /// Answers `initialize` as an agent that can load sessions.
    #[must_use]
    pub fn initialize(self) -> Self {
        self.initialize_with(json!({"protocolVersion": 1, "agentCapabilities": {"loadSession": true}}))
    }

    /// Answers `initialize` with this result.
    #[must_use]
    pub fn initialize_with(self, result: Value) -> Self {
        self.then(|steps| steps.expect("initialize", "initialize").reply("initialize", result))
    }

    /// Answers `session/new` with this session id and nothing else.
    #[must_use]
    pub fn new_session(self, session: &str) -> Self {
        self.new_session_with(json!({"sessionId": session}))
    }

    /// Answers `session/new` with this result.
    #[must_use]
    pub fn new_session_with(self, result: Value) -> Self {
        self.then(|steps| steps.expect("session/new", "open").reply("open", result))
    }

    /// Waits for `session/load`, plays `replay`, then answers it.
    #[must_use]
    pub fn load_session(self, replay: impl FnOnce(Steps) -> Steps) -> Self {
        self.load_session_with(json!({}), replay)
    }

    /// Waits for `session/load`, plays `replay`, then answers it with this result.
    #[must_use]
    pub fn load_session_with(self, result: Value, replay: impl FnOnce(Steps) -> Steps) -> Self {
        self.then(|steps| replay(steps.expect("session/load", "open")).reply("open", result))
    }

    /// Plays `turn` for the next prompt; `turn` has to answer it (`end_turn`, `stop` or `fail_turn`).
    #[must_use]
    pub fn on_prompt(self, turn: impl FnOnce(Steps) -> Steps) -> Self {
        self.then(|steps| turn(steps.expect("session/prompt", "prompt")))
    }

    /// Plays `turn` for every prompt from here on.
    #[must_use]
    pub fn on_every_prompt(self, turn: impl FnOnce(Steps) -> Steps) -> Self {
        self.then(|steps| steps.repeat(None, |steps| turn(steps.expect("session/prompt", "prompt"))))
    }

    /// Writes the script to a file.
    pub fn write_to(&self, path: &Path) -> io::Result<()> {
        fs::write(path, serde_json::to_vec(self)?)
    }

    /// Reads a script from a file.
    pub fn read_from(path: &Path) -> io::Result<Self> {
        Ok(serde_json::from_slice(&fs::read(path)?)?)
    }

    /// The steps of the `number`th process, counted from 1.
    pub(crate) fn steps_of(&self, number: usize) -> &[Step] {
        let index = number.saturating_sub(1).min(self.processes.len().saturating_sub(1));
        self.processes.get(index).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(script: &Script) -> Vec<usize> {
        script.processes.iter().map(Vec::len).collect()
    }

    #[test]
    fn every_step_survives_its_file() {
        let script = Script::new()
            .initialize()
            .new_session("s")
            .on_prompt(|turn| {
                turn.chunk("hi")
                    .permission(1, "t", "run it")
                    .await_answer(1)
                    .when(1, "allow-once", Steps::end_turn, |no| no.stop("refusal"))
                    .invalid_utf8()
                    .descend(Descent { setsid: true, ..Descent::default() })
                    .wait(1)
                    .inspect()
                    .die(9)
            })
            .next_process()
            .load_session(|replay| replay.chunk("old"));
        let file = tempfile::NamedTempFile::new().unwrap();
        script.write_to(file.path()).unwrap();
        assert_eq!(Script::read_from(file.path()).unwrap(), script);
    }

    #[test]
    fn the_last_process_stands_for_all_later_ones() {
        let script = Script::new().then(|s| s.wait(1)).next_process().then(|s| s.wait(2).wait(3));
        assert_eq!(lines(&script), [1, 2]);
        let check =
            |number: usize, expect: usize| assert_eq!(script.steps_of(number).len(), expect, "{number}");
        check(1, 1);
        check(2, 2);
        check(3, 2);
        assert!(Script::default().steps_of(1).is_empty());
    }
}
