use super::{
    descendant,
    inbox::{Empty, Inbox, Message},
    inspect::Inspected,
    recorder::Recorder,
    template::Variables,
};
use crate::{
    record::Entry,
    script::{Payload, Step, Stream},
};
use rustix::process::{Signal, getpid, kill_process};
use serde_json::{Value, json};
use std::{
    collections::VecDeque,
    fs::File,
    io::{self, Write},
    path::Path,
    thread,
    time::{Duration, Instant},
};

/// How long a step waits for something before the agent gives up. Above every limit that a test waits for.
pub(super) const LIMIT: Duration = Duration::from_mins(2);
/// Repeated payloads are written in pieces of about this size: one system call each.
const PIECE_BYTES: usize = 64 * 1024;
const METHOD_NOT_FOUND: i64 = -32601;

/// Why a script went no further.
#[derive(Debug)]
pub(super) enum Ended {
    InputClosed,
    InVain(String),
    Exit(u8),
    /// A write failed, or the script cannot be played.
    Output(io::Error),
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

type Outcome = Result<(), Ended>;

#[derive(Debug)]
struct Call {
    method: String,
    id: Option<Value>,
    params: Value,
}

/// Plays steps.
pub(super) struct Player {
    inbox: Inbox,
    recorder: Recorder,
    variables: Variables,
    inspected: Inspected,
    /// Calls that no step has taken yet, oldest first.
    calls: VecDeque<Call>,
    /// Answers that no step has taken yet.
    answers: Vec<(Value, Value)>,
}

impl Player {
    pub(super) fn new(inbox: Inbox, recorder: Recorder, variables: Variables, inspected: Inspected) -> Self {
        Self { inbox, recorder, variables, inspected, calls: VecDeque::new(), answers: Vec::new() }
    }

    pub(super) fn process(&self) -> usize {
        self.recorder.process()
    }

    /// Plays the steps, then answers what no script answers until stdin closes.
    pub(super) fn play(&mut self, steps: &[Step]) -> Outcome {
        self.steps(steps)?;
        loop {
            self.refuse_calls()?;
            self.receive(Instant::now() + LIMIT, "the end of stdin")?;
        }
    }

    fn steps(&mut self, steps: &[Step]) -> Outcome {
        steps.iter().try_for_each(|step| self.step(step))
    }

    fn step(&mut self, step: &Step) -> Outcome {
        match step {
            Step::Expect { methods, name } => self.expect(methods, name),
            Step::Reply { to, result } => {
                let result = self.variables.fill(result)?;
                self.variables.session =
                    result["sessionId"].as_str().map(str::to_owned).or(self.variables.session.take());
                self.answer(to, "result", &result)
            }
            Step::Fail { to, error } => {
                let error = self.variables.fill(error)?;
                self.answer(to, "error", &error)
            }
            Step::Send { message } => {
                let message = self.variables.fill(message)?;
                send(&message)
            }
            Step::Write { stream, payload, times } => self.write(*stream, payload, *times),
            Step::AwaitAnswer { id } => self.await_answer(id),
            Step::When { id, option, then, otherwise } => {
                let outcome = self.variables.outcomes.get(&as_text(id));
                let chosen = outcome.is_some_and(|outcome| outcome == option);
                self.steps(if chosen { then } else { otherwise })
            }
            Step::Repeat { times, steps } => {
                let rounds = times.unwrap_or(u64::MAX);
                (0..rounds).try_for_each(|_| self.steps(steps))
            }
            Step::Hang => loop {
                self.receive(Instant::now() + LIMIT, "the end of stdin")?;
            },
            Step::Exit { code } => Err(Ended::Exit(*code)),
            other => self.on_the_process(other),
        }
    }

    /// Steps that concern the process and no message.
    fn on_the_process(&mut self, step: &Step) -> Outcome {
        match step {
            Step::Wait { ms } => thread::sleep(Duration::from_millis(*ms)),
            Step::AwaitFile { path } => {
                let found = crate::wait_until_blocking(LIMIT, path, || Path::new(path).exists());
                found.map_err(|error| Ended::InVain(error.what))?;
            }
            Step::IgnoreSignals => ignore_signals()?,
            Step::StopReading => self.inbox.set_reading(false),
            Step::ResumeReading => self.inbox.set_reading(true),
            Step::CloseStdout => {
                let nothing = File::options().write(true).open("/dev/null")?;
                rustix::stdio::dup2_stdout(nothing).map_err(io::Error::from)?;
            }
            Step::Descend(descent) => descendant::start(*descent, &self.recorder)?,
            Step::Inspect => self.recorder.enter(&Entry::Inspected(self.inspected.report(&self.recorder)))?,
            Step::Note { text } => {
                let text = self.variables.fill_text(text)?;
                self.recorder.enter(&Entry::Noted { process: self.process(), text })?;
            }
            Step::Die { signal } => {
                let named = Signal::from_named_raw(*signal)
                    .ok_or_else(|| io::Error::other(format!("{signal} is no signal")))?;
                kill_process(getpid(), named).map_err(io::Error::from)?;
                // The signal may be one that is not deadly at once.
                thread::sleep(LIMIT);
            }
            other => return Err(io::Error::other(format!("{other:?} is no step of the process")).into()),
        }
        Ok(())
    }

    // === Messages ===

    fn expect(&mut self, methods: &[String], name: &str) -> Outcome {
        let end = Instant::now() + LIMIT;
        loop {
            if let Some(at) = self.calls.iter().position(|call| methods.contains(&call.method)) {
                let Some(call) = self.calls.remove(at) else { continue };
                if call.method == "session/prompt" {
                    // A cancel that came before belongs to a turn that is over.
                    self.calls.retain(|earlier| earlier.method != "session/cancel");
                }
                self.remember(call, name);
                return self.refuse_calls();
            }
            self.refuse_calls()?;
            self.receive(end, &methods.join(" or "))?;
        }
    }

    fn remember(&mut self, call: Call, name: &str) {
        let text = |key: &str| call.params[key].as_str().map(str::to_owned);
        if call.method == "session/load" {
            self.variables.session = text("sessionId");
        }
        self.variables.cwd = text("cwd").or(self.variables.cwd.take());
        self.variables.ids.insert(name.into(), call.id.unwrap_or(Value::Null));
    }

    /// Answers the requests that no step took; notifications stay.
    fn refuse_calls(&mut self) -> Outcome {
        for call in std::mem::take(&mut self.calls) {
            let Some(id) = &call.id else {
                self.calls.push_back(call);
                continue;
            };
            let message = if call.method == "session/set_mode" {
                json!({"jsonrpc": "2.0", "id": id, "result": {}})
            } else {
                let text = format!("the script does not expect {}", call.method);
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": METHOD_NOT_FOUND, "message": text}})
            };
            send(&message)?;
        }
        Ok(())
    }

    fn await_answer(&mut self, id: &Value) -> Outcome {
        let end = Instant::now() + LIMIT;
        loop {
            if let Some(at) = self.answers.iter().position(|(answered, _)| answered == id) {
                let (_, body) = self.answers.remove(at);
                let outcome = &body["result"]["outcome"];
                let chosen = outcome["optionId"].as_str().or(outcome["outcome"].as_str());
                let error = || body["error"]["code"].to_string();
                self.variables.outcomes.insert(as_text(id), chosen.map_or_else(error, str::to_owned));
                return Ok(());
            }
            self.receive(end, &format!("the answer to {id}"))?;
        }
    }

    /// Takes in one message.
    fn receive(&mut self, until: Instant, what: &str) -> Outcome {
        match self.inbox.next(until) {
            Ok(Message::Call { method, id, params }) => self.calls.push_back(Call { method, id, params }),
            Ok(Message::Answer { id, body }) => self.answers.push((id, body)),
            Err(Empty::ForEver) => return Err(Ended::InputClosed),
            Err(Empty::InTime) => return Err(Ended::InVain(what.into())),
        }
        Ok(())
    }

    fn answer(&self, to: &str, kind: &str, body: &Value) -> Outcome {
        let unknown = || io::Error::other(format!("no call was remembered as {to}"));
        let id = self.variables.ids.get(to).ok_or_else(unknown)?;
        send(&json!({"jsonrpc": "2.0", "id": id, kind: body}))
    }

    fn write(&self, stream: Stream, payload: &Payload, times: u64) -> Outcome {
        let filled;
        let bytes = match payload {
            Payload::Text(text) => {
                filled = self.variables.fill_text(text)?;
                filled.as_bytes()
            }
            Payload::Bytes(bytes) => bytes,
        };
        match stream {
            Stream::Stdout => pour(&mut io::stdout().lock(), bytes, times)?,
            Stream::Stderr => pour(&mut io::stderr().lock(), bytes, times)?,
        }
        Ok(())
    }
}

fn send(message: &Value) -> Outcome {
    let mut line = message.to_string();
    line.push('\n');
    Ok(pour(&mut io::stdout().lock(), line.as_bytes(), 1)?)
}

fn as_text(id: &Value) -> String {
    id.as_str().map_or_else(|| id.to_string(), str::to_owned)
}

/// Writes `bytes` `times` times over, then flushes.
fn pour(output: &mut impl Write, bytes: &[u8], times: u64) -> io::Result<()> {
    let per_piece = u64::try_from(PIECE_BYTES / bytes.len().max(1)).unwrap_or(1).clamp(1, times.max(1));
    let piece = bytes.repeat(usize::try_from(per_piece).unwrap_or(1));
    for _ in 0..times / per_piece {
        output.write_all(&piece)?;
    }
    for _ in 0..times % per_piece {
        output.write_all(bytes)?;
    }
    output.flush()
}

/// Leaves a handler for SIGTERM and SIGINT behind that does nothing. tokio keeps it for the life of the process.
pub(super) fn ignore_signals() -> io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let inside = runtime.enter();
    for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
        drop(signal(kind)?);
    }
    drop(inside);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pouring_repeats_exactly() {
        let check = |bytes: &[u8], times: u64| {
            let mut output = Vec::new();
            pour(&mut output, bytes, times).unwrap();
            assert_eq!(output, bytes.repeat(usize::try_from(times).unwrap()), "{times}");
        };
        check(b"", 3);
        check(b"abc", 0);
        check(b"abc", 1);
        check(b"[", 100_000);
        check(b"abcdefg", 30_001);
        check(&vec![b'x'; PIECE_BYTES + 1], 3);
    }
}
