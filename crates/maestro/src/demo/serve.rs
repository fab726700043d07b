//! The loop of the demo agent: reads messages, plays steps, listens between them.

mod turn;

use super::{
    identity::{self, Identity},
    script::{Opening, Tool},
    wire::{self, Mode},
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, BufRead as _, BufReader, Read, Write},
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
};

/// Messages that wait while a step is written. The client is not read any further then.
const WAITING_MAX: usize = 64;
/// The longest line that is read: above the largest prompt of maestro's API, 16 MiB.
const LINE_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// Whether steps rest for a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// As a person reads.
    Person,
    /// At once.
    #[cfg(test)]
    None,
}

/// What the client sent. A line that is no JSON is `None`.
type Incoming = Option<Value>;

/// Speaks ACP until `input` ends.
pub(super) fn serve(input: impl Read + Send + 'static, output: impl Write, pace: Pace) -> io::Result<()> {
    let (sender, inbox) = sync_channel(WAITING_MAX);
    thread::Builder::new().name("stdin".into()).spawn(move || read(BufReader::new(input), &sender))?;
    let mut agent = Agent {
        output,
        inbox,
        pace,
        sessions: BTreeMap::new(),
        identity: Identity::of_this_process(),
        permissions_asked: 0,
    };
    while let Ok(incoming) = agent.inbox.recv() {
        match agent.take(incoming.as_ref()) {
            Err(Stop::Output(error)) => return Err(error),
            Err(Stop::InputEnded) => return Ok(()),
            Ok(()) => {}
        }
    }
    Ok(())
}

/// Ends with the input, with a line that is too long, or when nobody listens.
fn read(mut input: impl io::BufRead, inbox: &SyncSender<Incoming>) {
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = input.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
        if !matches!(read, Ok(bytes) if bytes > 0) || !line.ends_with(b"\n") {
            return;
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        if inbox.send(serde_json::from_slice(&line).ok()).is_err() {
            return;
        }
    }
}

/// Why the loop ends.
#[derive(Debug)]
enum Stop {
    InputEnded,
    Output(io::Error),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

struct Session {
    cwd: PathBuf,
    mode: Mode,
    /// Tools that were allowed for the whole session.
    allowed: BTreeSet<Tool>,
    opening: Opening,
    /// Words of all prompts and answers so far.
    words: u64,
}

struct Agent<W> {
    output: W,
    inbox: Receiver<Incoming>,
    pace: Pace,
    sessions: BTreeMap<String, Session>,
    identity: Identity,
    permissions_asked: u64,
}

impl<W: Write> Agent<W> {
    fn send(&mut self, message: &Value) -> io::Result<()> {
        writeln!(self.output, "{message}")?;
        self.output.flush()
    }

    /// Takes a message while no turn is open.
    fn take(&mut self, incoming: Option<&Value>) -> Result<(), Stop> {
        match incoming {
            Some(message) if message["method"] == "session/prompt" && message.get("id").is_some() => {
                self.prompt(&message["id"], &message["params"])
            }
            other => Ok(self.take_aside(other)?),
        }
    }

    /// Takes any message but a prompt. Notifications and stray answers change nothing.
    fn take_aside(&mut self, message: Option<&Value>) -> io::Result<()> {
        let Some(message) = message else {
            return self.send(&wire::error(&Value::Null, wire::PARSE, "this line is no JSON"));
        };
        let (id, params) = (&message["id"], &message["params"]);
        match message["method"].as_str() {
            None if message.get("result").is_some() || message.get("error").is_some() => Ok(()),
            None => self.send(&wire::error(id, wire::INVALID_REQUEST, "this is no JSON-RPC message")),
            Some(_) if message.get("id").is_none() => Ok(()),
            Some("initialize") => self.send(&wire::result(id, &wire::initialized())),
            Some("session/new") => {
                let session = self.identity.session();
                let answer = json!({"sessionId": session, "modes": wire::modes(Mode::default())});
                self.open(id, params, session, Opening::First, &answer)
            }
            Some("session/load") => {
                match params["sessionId"].as_str().filter(|id| identity::is_session(id)) {
                    Some(session) => {
                        let answer = json!({"modes": wire::modes(Mode::default())});
                        self.open(id, params, session.into(), Opening::Resumed, &answer)
                    }
                    None => self.send(&wire::error(
                        id,
                        wire::NO_SUCH_SESSION,
                        "the demo agent never gave this session id",
                    )),
                }
            }
            Some("session/set_mode") => self.set_mode(id, params),
            Some("session/prompt") => self.send(&wire::error(
                id,
                wire::INVALID_REQUEST,
                "a turn is under way; cancel it or wait for its end",
            )),
            Some(other) => {
                let message = format!("the demo agent does not know {other}");
                self.send(&wire::error(id, wire::METHOD_NOT_FOUND, &message))
            }
        }
    }

    /// Opens a session and tells its commands. A loaded one is not replayed: nothing was kept.
    fn open(
        &mut self,
        id: &Value,
        params: &Value,
        session: String,
        opening: Opening,
        answer: &Value,
    ) -> io::Result<()> {
        let Some(cwd) = params["cwd"].as_str().map(Path::new).filter(|cwd| cwd.is_absolute()) else {
            return self.send(&wire::error(id, wire::INVALID_PARAMS, "cwd has to be an absolute path"));
        };
        let opened =
            Session { cwd: cwd.into(), mode: Mode::default(), allowed: BTreeSet::new(), opening, words: 0 };
        self.send(&wire::result(id, answer))?;
        self.send(&wire::update(&session, &wire::commands()))?;
        self.sessions.insert(session, opened);
        Ok(())
    }

    fn set_mode(&mut self, id: &Value, params: &Value) -> io::Result<()> {
        let session = params["sessionId"].as_str().and_then(|session| self.sessions.get_mut(session));
        let mode = params["modeId"].as_str().and_then(Mode::of_id);
        let answer = match (session, mode) {
            (None, _) => wire::error(id, wire::NO_SUCH_SESSION, "this session is not open"),
            (_, None) => wire::error(id, wire::INVALID_PARAMS, "the modes are ask and auto"),
            (Some(session), Some(mode)) => {
                session.mode = mode;
                wire::result(id, &json!({}))
            }
        };
        self.send(&answer)
    }
}

#[cfg(test)]
mod tests;
