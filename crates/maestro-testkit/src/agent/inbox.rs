use super::recorder::Recorder;
use crate::record::{Entry, Received};
use serde_json::Value;
use std::{
    io::{self, BufRead as _, BufReader, Read},
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread,
    time::Instant,
};

/// A message that arrived.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Message {
    /// A request (with id) or a notification.
    Call { method: String, id: Option<Value>, params: Value },
    /// An answer to a request of ours.
    Answer { id: Value, body: Value },
}

/// Nothing more can be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Empty {
    InTime,
    ForEver,
}

/// Whether the reading thread may read on.
#[derive(Debug, Default)]
struct Gate {
    closed: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    fn set(&self, closed: bool) {
        *self.closed.lock().unwrap_or_else(PoisonError::into_inner) = closed;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.changed.wait_while(closed, |closed| *closed).unwrap_or_else(PoisonError::into_inner));
    }
}

/// The messages of the client, read and recorded by a thread of its own.
#[derive(Debug)]
pub(super) struct Inbox {
    messages: Receiver<Message>,
    gate: Arc<Gate>,
}

impl Inbox {
    pub(super) fn reading(input: impl Read + Send + 'static, recorder: Recorder) -> io::Result<Self> {
        let (sender, messages) = channel();
        let gate = Arc::new(Gate::default());
        let at_gate = Arc::clone(&gate);
        thread::Builder::new()
            .name("stdin".into())
            .spawn(move || read(&mut Gated { input, gate: at_gate }, &recorder, &sender))?;
        Ok(Self { messages, gate })
    }

    pub(super) fn next(&self, until: Instant) -> Result<Message, Empty> {
        let left = until.saturating_duration_since(Instant::now());
        self.messages.recv_timeout(left).map_err(|error| match error {
            RecvTimeoutError::Timeout => Empty::InTime,
            RecvTimeoutError::Disconnected => Empty::ForEver,
        })
    }

    pub(super) fn set_reading(&self, reading: bool) {
        self.gate.set(!reading);
    }
}

/// An input that asks the gate before each read.
struct Gated<R> {
    input: R,
    gate: Arc<Gate>,
}

impl<R: Read> Read for Gated<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.gate.pass();
        self.input.read(buffer)
    }
}

/// Ends at the end of input, or when nobody listens any more.
fn read(input: &mut impl Read, recorder: &Recorder, sender: &Sender<Message>) {
    let mut input = BufReader::new(input);
    let process = recorder.process();
    let mut line = Vec::new();
    loop {
        line.clear();
        let ended = !matches!(input.read_until(b'\n', &mut line), Ok(read) if read > 0);
        let entry = if ended {
            Entry::InputClosed { process }
        } else {
            let text = String::from_utf8_lossy(line.strip_suffix(b"\n").unwrap_or(&line)).into_owned();
            Entry::Received(Received { process, line: text })
        };
        // A record that cannot be written is a test that cannot pass; the agent itself has nobody to tell.
        let recorded = recorder.enter(&entry);
        if ended || recorded.is_err() {
            return;
        }
        if let Some(message) = parse(&line)
            && sender.send(message).is_err()
        {
            return;
        }
    }
}

fn parse(line: &[u8]) -> Option<Message> {
    let mut value: Value = serde_json::from_slice(line).ok()?;
    let id = value.get_mut("id").map(Value::take);
    match value.get("method").and_then(Value::as_str).map(str::to_owned) {
        Some(method) => Some(Message::Call { method, id, params: value["params"].take() }),
        None => Some(Message::Answer { id: id?, body: value }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn messages_are_calls_or_answers() {
        let check =
            |line: &str, expect: Option<Message>| assert_eq!(parse(line.as_bytes()), expect, "{line}");
        let call = |id| Message::Call { method: "m".into(), id, params: json!({"a": 1}) };
        check(r#"{"id":1,"method":"m","params":{"a":1}}"#, Some(call(Some(json!(1)))));
        check(r#"{"method":"m","params":{"a":1}}"#, Some(call(None)));
        let answer = Message::Answer { id: json!("x"), body: json!({"id": null, "result": 5}) };
        check(r#"{"id":"x","result":5}"#, Some(answer));
        check("{broken", None);
        check("[]", None);
    }
}
