//! Facts counted straight from each recording, by code that shares nothing with the folds or with the builder of
//! logs, against what the folds show.

use crate::{build, trace};
use maestro_projection::Projection;
use maestro_protocol::TranscriptRowKind;
use serde_json::Value;
use std::collections::BTreeMap;

/// What is true of one ACP session.
#[derive(Debug, Default, PartialEq)]
struct Facts {
    prompts: Vec<String>,
    agent_text: String,
    thought_text: String,
    tools: BTreeMap<String, Tool>,
    plan: Option<Value>,
    /// Per request, in order: the chosen option, `cancelled`, or `open`.
    approvals: Vec<String>,
    others: usize,
    used: Option<u64>,
    cost: Option<f64>,
}

#[derive(Debug, Default, Clone, PartialEq)]
struct Tool {
    status: Option<String>,
    title: Option<String>,
    settled: bool,
}

#[test]
fn the_folds_show_what_the_recordings_say() {
    let mut sessions = 0;
    for trace in trace::all() {
        let counted = Counter::count(&trace);
        let logs = build::logs(&trace);
        assert_eq!(logs.len(), counted.len(), "{}: sessions", trace.name);
        for log in logs {
            let mut projection = Projection::new();
            for (cursor, line) in (1..).zip(&log.lines) {
                projection.apply(cursor, line);
            }
            assert_eq!(shown(&projection), counted[&log.session], "{} {}", trace.name, log.session);
            sessions += 1;
        }
    }
    assert!(sessions > 230, "only {sessions} sessions");
}

fn shown(projection: &Projection) -> Facts {
    let mut facts = Facts::default();
    for row in projection.snapshot().rows {
        let text = row.data["content"]["text"].as_str();
        match row.kind {
            TranscriptRowKind::User if row.id.as_str().starts_with("user:prompt-") => {
                facts.prompts.push(text.unwrap().into());
            }
            TranscriptRowKind::User => {}
            TranscriptRowKind::AgentText => facts.agent_text += text.unwrap(),
            TranscriptRowKind::AgentThought => facts.thought_text += text.unwrap(),
            TranscriptRowKind::ToolCall | TranscriptRowKind::ToolDiff => {
                let field = |key: &str| row.data[key].as_str().map(str::to_owned);
                let settled = !row.data["_meta"]["maestro"]["settled"].is_null();
                let tool = Tool { status: field("status"), title: field("title"), settled };
                facts.tools.insert(row.id.as_str()["tool:".len()..].into(), tool);
            }
            TranscriptRowKind::Approval => {
                let outcome = &row.data["_meta"]["maestro"]["outcome"];
                let what = outcome["option_id"].as_str().or(outcome["what"].as_str()).unwrap_or("open");
                facts.approvals.push(what.into());
            }
            TranscriptRowKind::Plan => facts.plan = Some(row.data["entries"].clone()),
            TranscriptRowKind::Notice => facts.others += 1,
        }
    }
    let state = projection.state();
    assert_eq!(state.plan.map(|plan| plan["entries"].clone()), facts.plan);
    facts.used = state.context.map(|context| context.used);
    facts.cost = state.usage.and_then(|usage| usage.cost).map(|cost| cost.amount);
    facts
}

/// Goes through a recording once.
#[derive(Default)]
struct Counter {
    sessions: BTreeMap<String, Facts>,
    /// Our open requests: process, id, method, session.
    sent: Vec<(u64, Value, String, String)>,
    /// The agent's open permission requests: process, id, session, position.
    asked: Vec<(u64, Value, String, usize)>,
    /// Sessions that replay their history now, with the time of the last sign of it.
    replaying: BTreeMap<String, Option<f64>>,
    queued: BTreeMap<String, Vec<String>>,
    busy: BTreeMap<String, bool>,
}

impl Counter {
    fn count(trace: &trace::Trace) -> BTreeMap<String, Facts> {
        let mut counter = Self::default();
        let mut proc = 1;
        for message in &trace.messages {
            if message.proc != proc {
                proc = message.proc;
                counter.process_gone();
            }
            let rpc = serde_json::from_str::<Value>(&message.line).unwrap_or_default();
            if message.dir == trace::Direction::Out {
                counter.outgoing(proc, &rpc);
            } else {
                counter.incoming(proc, &rpc, message.ms, trace.name.starts_with("gemini"));
            }
        }
        counter.sessions
    }

    fn outgoing(&mut self, proc: u64, rpc: &Value) {
        let session = rpc["params"]["sessionId"].as_str().unwrap_or("").to_owned();
        match rpc["method"].as_str() {
            Some(method @ ("session/new" | "session/fork")) => {
                self.sent.push((proc, rpc["id"].clone(), method.into(), String::new()));
            }
            Some(method @ ("session/load" | "session/resume" | "session/prompt")) => {
                if !self.sessions.contains_key(&session) {
                    return;
                }
                self.sent.push((proc, rpc["id"].clone(), method.into(), session.clone()));
                if method == "session/prompt" {
                    let text = rpc["params"]["prompt"][0]["text"].as_str().unwrap().to_owned();
                    self.queued.entry(session.clone()).or_default().push(text);
                    self.next(&session);
                } else {
                    self.replaying.insert(session, None);
                }
            }
            None => {
                let outcome = &rpc["result"]["outcome"];
                if let Some(what) = outcome["outcome"].as_str() {
                    self.settle_asked(proc, &rpc["id"], outcome["optionId"].as_str().unwrap_or(what));
                }
            }
            _ => {}
        }
    }

    fn incoming(&mut self, proc: u64, rpc: &Value, ms: f64, replays_late: bool) {
        let params = &rpc["params"];
        let session = params["sessionId"].as_str().unwrap_or("").to_owned();
        match rpc["method"].as_str() {
            Some("session/update") => self.update(&session, &params["update"], ms),
            Some("session/request_permission") => {
                let facts = self.sessions.entry(session.clone()).or_default();
                facts.approvals.push("open".into());
                self.asked.push((proc, rpc["id"].clone(), session.clone(), facts.approvals.len() - 1));
                if let Some(id) = params["toolCall"]["toolCallId"].as_str() {
                    let tool = facts.tools.entry(id.into()).or_default();
                    let mut call = params["toolCall"].clone();
                    // A request asks about a call that runs; it does not set it back.
                    if tool.status.as_deref() == Some("in_progress") && call["status"] == "pending" {
                        call["status"] = Value::Null;
                    }
                    tool.mention(&call, true);
                }
            }
            Some("$/cancel_request") => self.settle_asked(proc, &params["requestId"], "cancelled"),
            Some(_) => {}
            None => self.response(proc, rpc, ms, replays_late),
        }
    }

    fn response(&mut self, proc: u64, rpc: &Value, ms: f64, replays_late: bool) {
        let place = self.sent.iter().position(|(sent_by, id, ..)| *sent_by == proc && *id == rpc["id"]);
        let Some(place) = place else { return };
        let (_, _, method, session) = self.sent.remove(place);
        match method.as_str() {
            "session/prompt" => {
                self.settle_tools(&session);
                self.busy.insert(session.clone(), false);
                self.next(&session);
            }
            "session/load" | "session/resume" => {
                self.replaying.remove(&session);
                if rpc.get("result").is_some() {
                    self.settle_tools(&session);
                    if replays_late {
                        self.replaying.insert(session, Some(ms));
                    }
                }
            }
            _ => {
                if let Some(session) = rpc["result"]["sessionId"].as_str() {
                    self.sessions.entry(session.into()).or_default();
                }
            }
        }
    }

    fn update(&mut self, session: &str, update: &Value, ms: f64) {
        let facts = self.sessions.entry(session.into()).or_default();
        let is_replayed = match self.replaying.get_mut(session) {
            None => false,
            Some(None) => true,
            Some(Some(last)) => {
                let is_near = ms - *last < 300.0;
                *last = ms;
                is_near
            }
        };
        if !is_replayed {
            self.replaying.remove(session);
        }
        let kind = update["sessionUpdate"].as_str().unwrap();
        match kind {
            "usage_update" => {
                facts.used = update["used"].as_u64().or(facts.used);
                facts.cost = update["cost"]["amount"].as_f64().or(facts.cost);
            }
            "session_info_update"
            | "available_commands_update"
            | "current_mode_update"
            | "config_option_update" => {}
            _ if is_replayed => {}
            "agent_message_chunk" => facts.agent_text += update["content"]["text"].as_str().unwrap(),
            "agent_thought_chunk" => facts.thought_text += update["content"]["text"].as_str().unwrap(),
            "user_message_chunk" => {}
            "plan" => facts.plan = Some(update["entries"].clone()),
            "tool_call" | "tool_call_update" => {
                let id = update["toolCallId"].as_str().unwrap();
                let tool = facts.tools.entry(id.into()).or_default();
                tool.mention(update, kind == "tool_call");
            }
            _ => facts.others += 1,
        }
    }

    fn next(&mut self, session: &str) {
        let busy = self.busy.entry(session.into()).or_default();
        let queued = self.queued.entry(session.into()).or_default();
        if !*busy && !queued.is_empty() {
            *busy = true;
            self.sessions.get_mut(session).unwrap().prompts.push(queued.remove(0));
        }
    }

    fn settle_asked(&mut self, proc: u64, id: &Value, what: &str) {
        let place = self.asked.iter().position(|asked| asked.0 == proc && asked.1 == *id);
        if let Some(place) = place {
            let (_, _, session, position) = self.asked.remove(place);
            self.sessions.get_mut(&session).unwrap().approvals[position] = what.into();
        }
    }

    fn settle_tools(&mut self, session: &str) {
        for tool in self.sessions.get_mut(session).unwrap().tools.values_mut() {
            tool.settled |= !matches!(tool.status.as_deref(), Some("completed" | "failed"));
        }
    }

    fn process_gone(&mut self) {
        for (_, _, session, position) in std::mem::take(&mut self.asked) {
            self.sessions.get_mut(&session).unwrap().approvals[position] = "cancelled".into();
        }
        for (session, busy) in std::mem::take(&mut self.busy) {
            if busy {
                self.settle_tools(&session);
            }
        }
        self.queued.clear();
    }
}

impl Tool {
    fn mention(&mut self, call: &Value, opens: bool) {
        self.title = call["title"].as_str().map(str::to_owned).or(self.title.take());
        let status = call["status"].as_str();
        self.settled &= status.is_none() && !opens;
        self.status = status.map(str::to_owned).or(self.status.take());
    }
}
