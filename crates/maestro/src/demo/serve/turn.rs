use super::{Agent, Pace, Stop};
use crate::demo::{
    note,
    script::{self, Opening, Step, Tool},
    wire::{self, Mode, Permission},
};
use serde_json::{Value, json};
use std::{
    io::{self, Write},
    sync::mpsc::RecvTimeoutError,
    time::{Duration, Instant},
};

/// Why a turn is over before its last step.
enum Cut {
    Cancelled,
    Failed,
    Stop(Stop),
}

impl From<Stop> for Cut {
    fn from(stop: Stop) -> Self {
        Self::Stop(stop)
    }
}

impl From<io::Error> for Cut {
    fn from(error: io::Error) -> Self {
        Self::Stop(Stop::Output(error))
    }
}

/// A turn that is being played.
struct Turn {
    session: String,
    /// The message that chunks belong to; `None` before its first chunk.
    message: Option<String>,
    /// The open tool call and its output so far.
    call: Option<(String, String)>,
    words: u64,
}

impl<W: Write> Agent<W> {
    /// Plays a prompt's answer and ends the turn.
    pub(super) fn prompt(&mut self, id: &Value, params: &Value) -> Result<(), Stop> {
        let name = params["sessionId"].as_str().unwrap_or_default();
        let Some(session) = self.sessions.get_mut(name) else {
            self.send(&wire::error(id, wire::NO_SUCH_SESSION, "this session is not open"))?;
            return Ok(());
        };
        let opening = std::mem::replace(&mut session.opening, Opening::Later);
        let text = text_of(params);
        let mut turn = Turn { session: name.into(), message: None, call: None, words: 0 };
        let played = self.play(&mut turn, &script::answer(&text, opening));
        let asked = words(&text);
        if let Some(session) = self.sessions.get_mut(name) {
            session.words += asked + turn.words;
            let usage = wire::usage(session.words);
            self.send(&wire::update(name, &usage))?;
        }
        let end = |reason| wire::result(id, &wire::turn_ended(reason, asked, turn.words));
        let answer = match played {
            Ok(()) => end("end_turn"),
            Err(Cut::Cancelled) => {
                if let Some((call, _)) = turn.call.take() {
                    self.tool_update(name, &call, Some("failed"), json!({}))?;
                }
                end("cancelled")
            }
            Err(Cut::Failed) => wire::error(id, wire::INTERNAL, "the demo agent failed, as the prompt asked"),
            Err(Cut::Stop(stop)) => return Err(stop),
        };
        self.send(&answer)?;
        Ok(())
    }

    fn play(&mut self, turn: &mut Turn, steps: &[Step]) -> Result<(), Cut> {
        for step in steps {
            self.rest(turn, script::rest_before(step))?;
            match step {
                Step::Message => turn.message = None,
                Step::Text(text) | Step::SlowText(text) => self.chunk(turn, "agent_message_chunk", text)?,
                Step::Thought(text) => self.chunk(turn, "agent_thought_chunk", text)?,
                Step::Title(title) => self.update(turn, &wire::title(title))?,
                Step::Plan { done, working } => self.update(turn, &wire::plan(*done, *working))?,
                Step::Call { tool, allowed, refused } => {
                    let chosen = if self.call(turn, *tool)? { allowed } else { refused };
                    self.play(turn, chosen)?;
                }
                Step::Output(line) => self.output_line(turn, line)?,
                Step::Done => self.close_call(turn, "completed", json!({}))?,
                Step::WriteNote => {
                    if !self.write_note(turn)? {
                        return Ok(());
                    }
                }
                Step::Fail => return Err(Cut::Failed),
            }
        }
        Ok(())
    }

    // === Steps ===

    fn update(&mut self, turn: &Turn, update: &Value) -> io::Result<()> {
        self.send(&wire::update(&turn.session, update))
    }

    fn tool_update(
        &mut self,
        session: &str,
        call: &str,
        status: Option<&str>,
        fields: Value,
    ) -> io::Result<()> {
        self.send(&wire::update(session, &wire::tool_event("tool_call_update", call, status, fields)))
    }

    fn chunk(&mut self, turn: &mut Turn, kind: &str, text: &str) -> io::Result<()> {
        turn.words += words(text);
        let message = turn.message.get_or_insert_with(|| self.identity.part("message"));
        let chunk = wire::chunk(kind, message, text);
        self.update(turn, &chunk)
    }

    /// Opens a tool call, with a permission where one is needed. Returns whether it may go on.
    fn call(&mut self, turn: &mut Turn, tool: Tool) -> Result<bool, Cut> {
        let Some(session) = self.sessions.get(&turn.session) else { return Ok(false) };
        let asks = tool != Tool::Look && session.mode == Mode::Ask && !session.allowed.contains(&tool);
        let fields = wire::tool(tool, &note::path(&session.cwd, &turn.session));
        let call = self.identity.part("call");
        let opened = wire::tool_event("tool_call", &call, Some("pending"), fields.clone());
        self.update(turn, &opened)?;
        turn.call = Some((call.clone(), String::new()));
        if asks {
            let mut asked = fields;
            asked["toolCallId"] = call.as_str().into();
            asked["status"] = "pending".into();
            let permission = self.ask(turn, &asked)?;
            if permission == Permission::Refused {
                self.close_call(turn, "failed", wire::text_content("refused"))?;
                return Ok(false);
            }
            if permission == Permission::Always
                && let Some(session) = self.sessions.get_mut(&turn.session)
            {
                session.allowed.insert(tool);
            }
        }
        self.tool_update(&turn.session, &call, Some("in_progress"), json!({}))?;
        Ok(true)
    }

    fn ask(&mut self, turn: &Turn, call: &Value) -> Result<Permission, Cut> {
        self.permissions_asked += 1;
        let id = self.permissions_asked;
        self.send(&wire::permission(id, &turn.session, call))?;
        loop {
            if let Some(answer) = self.listen(turn, None)?
                && answer["id"] == id
            {
                return Ok(Permission::of_answer(&answer));
            }
        }
    }

    fn output_line(&mut self, turn: &mut Turn, line: &str) -> io::Result<()> {
        let Some((call, output)) = &mut turn.call else { return Ok(()) };
        output.push_str(line);
        output.push('\n');
        let (call, content) = (call.clone(), wire::text_content(output));
        self.tool_update(&turn.session, &call, None, content)
    }

    fn close_call(&mut self, turn: &mut Turn, status: &str, fields: Value) -> io::Result<()> {
        match turn.call.take() {
            Some((call, _)) => self.tool_update(&turn.session, &call, Some(status), fields),
            None => Ok(()),
        }
    }

    /// Returns whether it was written.
    fn write_note(&mut self, turn: &mut Turn) -> io::Result<bool> {
        let Some(session) = self.sessions.get(&turn.session) else { return Ok(false) };
        let path = note::path(&session.cwd, &turn.session);
        match note::write(&path) {
            Ok(written) => {
                let diff = wire::diff_content(&path, written.old.as_deref(), &written.new);
                self.close_call(turn, "completed", diff)?;
                Ok(true)
            }
            Err(error) => {
                let text = format!("{} could not be written: {error}", path.display());
                self.close_call(turn, "failed", wire::text_content(&text))?;
                turn.message = None;
                self.chunk(turn, "agent_message_chunk", &format!("{text}\n\n"))?;
                Ok(false)
            }
        }
    }

    // === Listening ===

    /// Listens for so long; a cancel cuts it short.
    fn rest(&mut self, turn: &Turn, time: Duration) -> Result<(), Cut> {
        let time = if self.pace == Pace::Person { time } else { Duration::ZERO };
        let until = Instant::now() + time;
        // A late answer to a request of an earlier, cancelled turn is nobody's.
        while self.listen(turn, Some(until))?.is_some() {}
        Ok(())
    }

    /// The next answer of the client; `None` when the time is over.
    fn listen(&mut self, turn: &Turn, until: Option<Instant>) -> Result<Option<Value>, Cut> {
        loop {
            let received = match until {
                None => self.inbox.recv().map_err(RecvTimeoutError::from),
                Some(until) => self.inbox.recv_timeout(until.saturating_duration_since(Instant::now())),
            };
            let incoming = match received {
                Ok(incoming) => incoming,
                Err(RecvTimeoutError::Timeout) => return Ok(None),
                Err(RecvTimeoutError::Disconnected) => return Err(Stop::InputEnded.into()),
            };
            match incoming {
                Some(message) if message["method"] == "session/cancel" => {
                    if message["params"]["sessionId"] == turn.session.as_str() {
                        return Err(Cut::Cancelled);
                    }
                }
                Some(message) if message.get("method").is_none() && message.get("id").is_some() => {
                    return Ok(Some(message));
                }
                other => self.take_aside(other.as_ref())?,
            }
        }
    }
}

/// The text blocks of a prompt, one per line.
fn text_of(params: &Value) -> String {
    let blocks = params["prompt"].as_array().map(Vec::as_slice).unwrap_or_default();
    blocks.iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
}

fn words(text: &str) -> u64 {
    u64::try_from(text.split_whitespace().count()).unwrap_or(u64::MAX)
}
