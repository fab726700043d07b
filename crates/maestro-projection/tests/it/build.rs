//! The logs that a daemon would have written of a recording: one per ACP session, in order of appearance.
//!
//! Where a recording does what the daemon never does, the builder does what the daemon would: a prompt sent while
//! another is open starts when the first response comes, and the response ends the turn that is open then.

use crate::trace::{Direction, Message, Trace};
use maestro_protocol::{
    ApprovalLine, ApprovalOutcome, ApprovalResolvedLine, ClockLine, Envelope, Origin, OutcomeCause,
    OutcomeKind, RowId, SessionLine, SessionLineEvent, Timestamp, TranscriptRow, TranscriptRowKind, TurnLine,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};

/// 2026-12-01T00:00:00Z
const EPOCH_MS: i64 = 1_796_083_200_000;
/// A clock line stands before a line when the log's last time is this old.
const CLOCK_MS: i64 = 200;
/// How long the one agent that replays after its answer must be quiet.
const GEMINI_DRAIN_MS: f64 = 300.0;
const STATE_KINDS: [&str; 5] = [
    "usage_update",
    "current_mode_update",
    "config_option_update",
    "available_commands_update",
    "session_info_update",
];

pub(crate) struct Log {
    pub(crate) session: String,
    pub(crate) lines: Vec<Vec<u8>>,
    clock: i64,
    prompts: u32,
    turn_open: bool,
    waiting: VecDeque<Vec<Value>>,
    load: Load,
    /// Open permission requests and their rows.
    approvals: BTreeMap<Id, RowId>,
}

#[derive(Clone, Copy)]
enum Load {
    None,
    InFlight,
    Draining { quiet_since: f64 },
}

/// A process and the JSON of a request id.
type Id = (u64, String);

enum Request {
    New,
    Load(String),
    Prompt(String),
    SetMode(String, String),
}

struct Builder {
    drains: bool,
    logs: Vec<Log>,
    requests: BTreeMap<Id, Request>,
    /// Updates that came before the answer which names their session.
    early: Vec<(String, Vec<u8>)>,
    approvals: u32,
    now: i64,
    proc: u64,
}

pub(crate) fn logs(trace: &Trace) -> Vec<Log> {
    let mut builder = Builder {
        drains: trace.name.starts_with("gemini"),
        logs: Vec::new(),
        requests: BTreeMap::new(),
        early: Vec::new(),
        approvals: 0,
        now: 0,
        proc: 1,
    };
    for message in &trace.messages {
        builder.message(message);
    }
    for (session, line) in std::mem::take(&mut builder.early) {
        builder.log(&session).push(line);
    }
    builder.logs
}

impl Builder {
    fn message(&mut self, message: &Message) {
        #[expect(clippy::cast_possible_truncation, reason = "recordings last minutes")]
        let now = message.ms as i64;
        self.now = now;
        if message.proc != self.proc {
            self.proc = message.proc;
            let now = self.time();
            self.logs.iter_mut().for_each(|log| log.interrupt(now));
        }
        let Ok(Value::Object(rpc)) = serde_json::from_str::<Value>(&message.line) else { return };
        let rpc = Value::Object(rpc);
        let id = rpc.get("id").map(|id| (message.proc, id.to_string()));
        match (message.dir, rpc["method"].as_str(), id) {
            (Direction::Out, Some(method), id) => self.sent(method, &rpc["params"], id),
            (Direction::Out, None, Some(id)) => self.answered(&id, &rpc["result"]),
            (Direction::In, Some("session/update"), _) => self.update(message, &rpc["params"]),
            (Direction::In, Some("session/request_permission"), Some(id)) => {
                self.permission(id, &rpc["params"]);
            }
            (Direction::In, Some("$/cancel_request"), _) => {
                let id = (message.proc, rpc["params"]["requestId"].to_string());
                self.resolve(&id, OutcomeKind::Cancelled, None, Some(OutcomeCause::Withdrawn));
            }
            (Direction::In, None, Some(id)) => self.response(&id, &rpc, message.ms),
            _ => {}
        }
    }

    fn sent(&mut self, method: &str, params: &Value, id: Option<Id>) {
        let Some(id) = id else { return };
        let session = params["sessionId"].as_str().unwrap_or_default().to_owned();
        let request = match method {
            "session/new" | "session/fork" => Request::New,
            "session/load" | "session/resume" => {
                if let Some(log) = self.known(&session) {
                    log.load = Load::InFlight;
                }
                Request::Load(session)
            }
            "session/prompt" => {
                let now = self.time();
                let Some(log) = self.known(&session) else { return };
                log.waiting.push_back(params["prompt"].as_array().cloned().unwrap_or_default());
                log.next_prompt(now);
                Request::Prompt(session)
            }
            "session/set_mode" => {
                Request::SetMode(session, params["modeId"].as_str().unwrap_or_default().into())
            }
            _ => return,
        };
        self.requests.insert(id, request);
    }

    fn response(&mut self, id: &Id, rpc: &Value, ms: f64) {
        let Some(request) = self.requests.remove(id) else { return };
        let now = self.time();
        let result = rpc.get("result");
        match request {
            Request::New => {
                let Some(session) = result.and_then(|result| result["sessionId"].as_str()) else { return };
                let log = self.log(session);
                log.opened(SessionLineEvent::Opened, &rpc["result"], now);
                let early = std::mem::take(&mut self.early);
                for (session, line) in early {
                    self.log(&session).push(line);
                }
            }
            Request::Load(session) => {
                let drains = self.drains;
                let Some(log) = self.known(&session) else { return };
                log.load = Load::None;
                if result.is_some() {
                    log.opened(SessionLineEvent::Loaded, &rpc["result"], now);
                    if drains {
                        log.load = Load::Draining { quiet_since: ms };
                    }
                }
            }
            Request::Prompt(session) => {
                let Some(log) = self.known(&session) else { return };
                log.ended(rpc, now);
                log.next_prompt(now);
            }
            Request::SetMode(session, mode) => {
                let Some(log) = self.known(&session).filter(|_| result.is_some()) else { return };
                log.session(SessionLineEvent::ModeSet, &Value::Null, Some(mode), now);
            }
        }
    }

    fn update(&mut self, message: &Message, params: &Value) {
        #[derive(serde::Deserialize)]
        struct Raw<'a> {
            #[serde(borrow)]
            params: &'a RawValue,
        }
        let verbatim =
            serde_json::from_str::<Raw<'_>>(&message.line).unwrap().params.get().as_bytes().to_vec();
        let session = params["sessionId"].as_str().unwrap_or_default().to_owned();
        let is_opening = self.requests.values().any(|request| matches!(request, Request::New));
        if self.known(&session).is_none() && is_opening {
            self.early.push((session, verbatim));
            return;
        }
        let is_state = STATE_KINDS.contains(&params["update"]["sessionUpdate"].as_str().unwrap_or_default());
        let now = self.time();
        let log = self.log(&session);
        if let Load::Draining { quiet_since } = log.load {
            let is_over = message.ms - quiet_since >= GEMINI_DRAIN_MS;
            log.load = if is_over { Load::None } else { Load::Draining { quiet_since: message.ms } };
        }
        if is_state || matches!(log.load, Load::None) {
            log.tick(now);
            log.push(verbatim);
        }
    }

    fn permission(&mut self, id: Id, params: &Value) {
        self.approvals += 1;
        let row_id = RowId::keyed("approval", format!("00000000-0000-4000-8000-{:012}", self.approvals));
        let now = self.time();
        let log = self.log(params["sessionId"].as_str().unwrap_or_default());
        log.approvals.insert(id, row_id.clone());
        let row = TranscriptRow { id: row_id, kind: TranscriptRowKind::Approval, data: params.clone() };
        log.envelope(&Envelope::Approval(ApprovalLine { row, at: stamp(now) }), now);
    }

    fn answered(&mut self, id: &Id, result: &Value) {
        let outcome = &result["outcome"];
        let option = outcome["optionId"].as_str();
        match outcome["outcome"].as_str() {
            Some("selected") => self.resolve(id, OutcomeKind::Selected, option, None),
            Some("cancelled") => {
                self.resolve(id, OutcomeKind::Cancelled, None, Some(OutcomeCause::TurnCancelled));
            }
            _ => {}
        }
    }

    fn resolve(
        &mut self,
        id: &Id,
        what: OutcomeKind,
        option_id: Option<&str>,
        because: Option<OutcomeCause>,
    ) {
        let now = self.time();
        for log in &mut self.logs {
            if let Some(row_id) = log.approvals.remove(id) {
                log.resolved(row_id, what, option_id.map(str::to_owned), because, now);
            }
        }
    }

    fn time(&self) -> i64 {
        EPOCH_MS + self.now
    }

    fn known(&mut self, session: &str) -> Option<&mut Log> {
        self.logs.iter_mut().find(|log| log.session == session)
    }

    fn log(&mut self, session: &str) -> &mut Log {
        let place = self.logs.iter().position(|log| log.session == session).unwrap_or(self.logs.len());
        if place == self.logs.len() {
            self.logs.push(Log::new(session));
        }
        &mut self.logs[place]
    }
}

impl Log {
    fn new(session: &str) -> Self {
        Self {
            session: session.into(),
            lines: Vec::new(),
            clock: 0,
            prompts: 0,
            turn_open: false,
            waiting: VecDeque::new(),
            load: Load::None,
            approvals: BTreeMap::new(),
        }
    }

    fn push(&mut self, line: Vec<u8>) {
        assert!(!line.contains(&b'\n'));
        self.lines.push(line);
    }

    fn tick(&mut self, now: i64) {
        if now - self.clock >= CLOCK_MS {
            self.clock = now;
            self.push(Envelope::Clock(ClockLine { at: stamp(now) }).to_line());
        }
    }

    fn envelope(&mut self, envelope: &Envelope, now: i64) {
        self.tick(now);
        self.clock = now;
        self.push(envelope.to_line());
    }

    fn opened(&mut self, event: SessionLineEvent, result: &Value, now: i64) {
        self.session(event, result, None, now);
    }

    fn session(&mut self, event: SessionLineEvent, result: &Value, mode_id: Option<String>, now: i64) {
        let part = |key: &str| result.get(key).filter(|part| !part.is_null()).cloned();
        let line = SessionLine {
            modes: part("modes"),
            models: part("models"),
            config_options: part("configOptions"),
            mode_id,
            ..SessionLine::new(event, self.session.clone(), stamp(now))
        };
        self.envelope(&Envelope::Session(line), now);
    }

    /// Starts the turn of the prompt that waited longest, unless a turn is open.
    fn next_prompt(&mut self, now: i64) {
        if self.turn_open {
            return;
        }
        let Some(prompt) = self.waiting.pop_front() else { return };
        self.turn_open = true;
        self.prompts += 1;
        let message_id = format!("prompt-{}", self.prompts);
        let started = TurnLine::Started {
            origin: Origin::Person,
            message_id: Some(message_id.clone()),
            queue_item: None,
            request: None,
            at: stamp(now),
        };
        self.envelope(&Envelope::Turn(started), now);
        let text = prompt.iter().position(|block| block["type"] == "text").unwrap_or(0);
        let mut further = prompt.clone();
        let content = further.remove(text);
        let mut update =
            json!({"sessionUpdate": "user_message_chunk", "content": content, "messageId": message_id});
        if !further.is_empty() {
            update["_meta"] = json!({"maestro": {"blocks": further}});
        }
        self.push(json!({"sessionId": self.session, "update": update}).to_string().into_bytes());
    }

    fn ended(&mut self, rpc: &Value, now: i64) {
        self.turn_open = false;
        let result = &rpc["result"];
        let parts = [("usage", &result["usage"]), ("quota", &result["_meta"]["quota"])];
        let usage = parts.into_iter().filter(|(_, part)| !part.is_null());
        let usage =
            usage.map(|(key, part)| (key.to_owned(), part.clone())).collect::<serde_json::Map<_, _>>();
        let line = TurnLine::Ended {
            origin: Origin::Person,
            reason: result["stopReason"].as_str().unwrap_or("error").into(),
            error: rpc.get("error").cloned(),
            usage: Some(usage).filter(|usage| !usage.is_empty()).map(Value::Object),
            at: stamp(now),
        };
        self.envelope(&Envelope::Turn(line), now);
    }

    fn resolved(
        &mut self,
        row_id: RowId,
        what: OutcomeKind,
        option_id: Option<String>,
        because: Option<OutcomeCause>,
        now: i64,
    ) {
        let outcome = ApprovalOutcome {
            what,
            option_id,
            decision: None,
            because,
            when: stamp(now),
            account: None,
            client: None,
        };
        self.envelope(&Envelope::ApprovalResolved(ApprovalResolvedLine { row_id, outcome }), now);
    }

    /// What the daemon appends when a process is gone.
    fn interrupt(&mut self, now: i64) {
        for (_, row_id) in std::mem::take(&mut self.approvals) {
            self.resolved(row_id, OutcomeKind::Cancelled, None, Some(OutcomeCause::SessionEnded), now);
        }
        self.waiting.clear();
        if std::mem::take(&mut self.turn_open) {
            let line = TurnLine::Ended {
                origin: Origin::Person,
                reason: "interrupted".into(),
                error: None,
                usage: None,
                at: stamp(now),
            };
            self.envelope(&Envelope::Turn(line), now);
        }
    }
}

fn stamp(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(ms)
}
