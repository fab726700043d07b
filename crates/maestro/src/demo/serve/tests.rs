use super::*;
use crate::demo::note;
use std::{
    io::{PipeReader, PipeWriter, pipe},
    sync::mpsc,
    thread::JoinHandle,
    time::Duration,
};

const LIMIT: Duration = Duration::from_secs(20);

/// A client and an agent, connected by pipes.
struct Client {
    input: Option<PipeWriter>,
    lines: mpsc::Receiver<Value>,
    agent: Option<JoinHandle<io::Result<()>>>,
    place: tempfile::TempDir,
    session: String,
    calls: u64,
}

impl Client {
    fn new(pace: Pace) -> Self {
        let (agent_input, input) = pipe().unwrap();
        let (output, agent_output) = pipe().unwrap();
        let agent = thread::spawn(move || serve(agent_input, agent_output, pace));
        let place = tempfile::tempdir().unwrap();
        let lines = messages(output);
        Self { input: Some(input), lines, agent: Some(agent), place, session: String::new(), calls: 0 }
    }

    /// A client with an open session.
    fn open(pace: Pace) -> Self {
        let mut client = Self::new(pace);
        let initialized = client.ask("initialize", json!({"protocolVersion": 1}));
        assert_eq!(initialized["result"]["protocolVersion"], 1);
        let cwd = client.place.path().to_str().unwrap().to_owned();
        let opened = client.ask("session/new", json!({"cwd": cwd, "mcpServers": []}));
        assert_eq!(opened["result"]["modes"]["currentModeId"], "ask");
        client.session = opened["result"]["sessionId"].as_str().unwrap().to_owned();
        let commands = client.next();
        assert_eq!(commands["params"]["update"]["sessionUpdate"], "available_commands_update");
        client
    }

    fn write(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    fn call(&mut self, method: &str, params: Value) -> u64 {
        self.calls += 1;
        let id = self.calls;
        let mut message = json!({"jsonrpc": "2.0", "id": id, "method": method});
        message["params"] = params;
        self.write(&message.to_string());
        id
    }

    #[track_caller]
    fn next(&self) -> Value {
        self.lines.recv_timeout(LIMIT).unwrap()
    }

    /// A request whose answer is the next message.
    fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.call(method, params);
        let answer = self.next();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    fn prompt(&mut self, text: &str) -> u64 {
        let session = self.session.clone();
        self.call("session/prompt", json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]}))
    }

    fn set_mode(&mut self, mode: &str) -> Value {
        let session = self.session.clone();
        self.ask("session/set_mode", json!({"sessionId": session, "modeId": mode}))
    }

    fn cancel(&mut self) {
        let session = self.session.clone();
        self.write(
            &json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}})
                .to_string(),
        );
    }

    /// Prompts, answers permissions with `decision`, and gathers everything up to the prompt's answer.
    fn turn(&mut self, text: &str, decision: &Value) -> Turn {
        let id = self.prompt(text);
        let mut turn = Turn::default();
        loop {
            let message = self.next();
            if message["method"] == "session/request_permission" {
                self.write(
                    &json!({"jsonrpc": "2.0", "id": message["id"], "result": {"outcome": decision}})
                        .to_string(),
                );
                turn.permissions.push(message["params"].clone());
            } else if message["method"] == "session/update" {
                turn.updates.push(message["params"]["update"].clone());
            } else {
                assert_eq!(message["id"], id, "{message}");
                turn.answer = message;
                return turn;
            }
        }
    }

    fn note(&self) -> std::path::PathBuf {
        note::path(self.place.path(), &self.session)
    }

    fn end(mut self) {
        self.input = None;
        self.agent.take().unwrap().join().unwrap().unwrap();
        assert!(self.lines.recv_timeout(LIMIT).is_err(), "nothing comes after the end");
    }
}

#[derive(Debug, Default)]
struct Turn {
    updates: Vec<Value>,
    permissions: Vec<Value>,
    answer: Value,
}

impl Turn {
    fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.updates.iter().filter(move |update| update["sessionUpdate"] == kind)
    }

    fn text(&self) -> String {
        self.of_kind("agent_message_chunk").map(|chunk| chunk["content"]["text"].as_str().unwrap()).collect()
    }

    /// The statuses that tool calls went through, in order.
    fn statuses(&self) -> Vec<&str> {
        self.updates.iter().filter_map(|update| update["status"].as_str()).collect()
    }

    fn diffs(&self) -> Vec<&Value> {
        let contents = self.of_kind("tool_call_update").map(|update| &update["content"][0]);
        contents.filter(|content| content["type"] == "diff").collect()
    }
}

fn messages(output: PipeReader) -> mpsc::Receiver<Value> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(output).lines() {
            if sender.send(serde_json::from_str(&line.unwrap()).unwrap()).is_err() {
                return;
            }
        }
    });
    receiver
}

fn selected(option: &str) -> Value {
    json!({"outcome": "selected", "optionId": option})
}

#[test]
fn the_first_turn_streams_a_guided_answer() {
    let mut client = Client::open(Pace::None);
    let turn = client.turn("hello there", &selected("none"));
    assert_eq!(turn.answer["result"]["stopReason"], "end_turn");
    assert!(turn.text().starts_with("Hello.") && turn.text().contains("**tour**"), "{}", turn.text());
    assert_eq!(turn.of_kind("session_info_update").next().unwrap()["title"], "Demo: hello there");
    let ids: BTreeSet<&str> =
        turn.of_kind("agent_message_chunk").map(|chunk| chunk["messageId"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 1);
    assert!(turn.of_kind("agent_message_chunk").count() > 10, "it streams");
    let used = |turn: &Turn| turn.of_kind("usage_update").next().unwrap()["used"].as_u64().unwrap();
    let first = used(&turn);
    assert!(first > 2);
    let second = client.turn("think", &selected("none"));
    assert!(used(&second) > first, "usage adds up");
    assert_eq!(second.of_kind("session_info_update").count(), 0);
    client.end();
}

#[test]
fn a_tour_shows_everything() {
    let mut client = Client::open(Pace::None);
    let turn = client.turn("tour", &selected("allow_once"));
    assert!(turn.of_kind("agent_thought_chunk").count() > 2);
    assert_eq!(turn.of_kind("plan").count(), 5);
    let calls: Vec<_> = turn.of_kind("tool_call").map(|call| call["kind"].as_str().unwrap()).collect();
    assert_eq!(calls, ["search", "execute", "edit"]);
    let one = ["pending", "in_progress", "completed"];
    assert_eq!(turn.statuses(), [one, one, one].concat());
    assert_eq!(turn.permissions.len(), 2);
    assert_eq!(turn.diffs().len(), 1);
    client.end();
}

#[test]
fn nothing_is_written_before_it_is_allowed() {
    let mut client = Client::open(Pace::None);
    let refused = client.turn("edit", &selected("reject_once"));
    assert_eq!(refused.statuses(), ["pending", "failed"]);
    assert!(refused.text().contains("nothing was written"));
    assert!(!client.note().parent().unwrap().exists());

    let once = client.turn("edit", &selected("allow_once"));
    let kinds: Vec<_> =
        once.permissions[0]["options"].as_array().unwrap().iter().map(|option| &option["kind"]).collect();
    assert_eq!(kinds, ["allow_once", "allow_always", "reject_once"]);
    assert_eq!(once.permissions[0]["toolCall"]["rawInput"]["append"], note::LINE);
    assert_eq!(
        (&once.diffs()[0]["oldText"], &once.diffs()[0]["newText"]),
        (&Value::Null, &json!(note::LINE))
    );
    assert_eq!(std::fs::read_to_string(client.note()).unwrap(), note::LINE);

    assert_eq!(client.turn("edit", &selected("allow_always")).permissions.len(), 1);
    let unasked = client.turn("edit", &selected("none"));
    assert_eq!((unasked.permissions.len(), unasked.statuses().last()), (0, Some(&"completed")));
    assert_eq!(unasked.diffs()[0]["newText"], note::LINE.repeat(3));
    assert_eq!(client.turn("run", &selected("reject_once")).permissions.len(), 1, "only edits were allowed");
    client.end();
}

#[test]
fn the_auto_mode_does_not_ask() {
    let mut client = Client::open(Pace::None);
    assert_eq!(client.set_mode("other")["error"]["code"], wire::INVALID_PARAMS);
    assert_eq!(client.set_mode("auto")["result"], json!({}));
    assert!(client.turn("run and edit", &selected("none")).permissions.is_empty());
    assert_eq!(client.set_mode("ask")["result"], json!({}));
    assert_eq!(client.turn("run", &json!({"outcome": "cancelled"})).permissions.len(), 1);
    client.end();
}

#[test]
fn a_note_that_cannot_be_written_is_told() {
    let mut client = Client::open(Pace::None);
    std::fs::write(client.note().parent().unwrap(), "in the way").unwrap();
    let turn = client.turn("edit", &selected("allow_once"));
    assert_eq!(turn.statuses(), ["pending", "in_progress", "failed"]);
    assert!(turn.text().contains("could not be written"), "{}", turn.text());
    assert_eq!(turn.answer["result"]["stopReason"], "end_turn");
    client.end();
}

#[test]
fn a_failed_turn_is_an_error_and_the_next_one_works() {
    let mut client = Client::open(Pace::None);
    assert_eq!(client.turn("fail", &selected("none")).answer["error"]["code"], wire::INTERNAL);
    assert_eq!(client.turn("think", &selected("none")).answer["result"]["stopReason"], "end_turn");
    client.end();
}

#[test]
fn a_cancel_ends_a_stream_at_once() {
    let mut client = Client::open(Pace::Person);
    let id = client.prompt("slow");
    while !client.next().to_string().contains("forty") {}
    client.cancel();
    let mut texts = String::new();
    let answer = loop {
        let message = client.next();
        if message["id"] == id {
            break message;
        }
        texts.push_str(message["params"]["update"]["content"]["text"].as_str().unwrap_or_default());
    };
    assert_eq!(answer["result"]["stopReason"], "cancelled");
    assert!(!texts.contains("40"), "it stopped before the end");
    client.end();
}

#[test]
fn a_cancel_ends_the_wait_for_a_permission_and_closes_the_call() {
    let mut client = Client::open(Pace::None);
    let id = client.prompt("run");
    let request = loop {
        let message = client.next();
        if message["method"] == "session/request_permission" {
            break message;
        }
    };
    let busy = client.prompt("think");
    let refused = client.next();
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(busy), &json!(wire::INVALID_REQUEST)));
    client.cancel();
    let usage = client.next();
    assert_eq!(usage["params"]["update"]["sessionUpdate"], "usage_update");
    let closed = client.next();
    assert_eq!(closed["params"]["update"]["status"], "failed");
    let answer = client.next();
    assert_eq!((&answer["id"], &answer["result"]["stopReason"]), (&json!(id), &json!("cancelled")));
    // The client's late answer is nobody's.
    client.write(
        &json!({"jsonrpc": "2.0", "id": request["id"], "result": {"outcome": {"outcome": "cancelled"}}})
            .to_string(),
    );
    assert_eq!(
        client.turn("run", &selected("allow_once")).statuses(),
        ["pending", "in_progress", "completed"]
    );
    client.end();
}

#[test]
fn an_earlier_session_is_loaded_by_another_process() {
    let first = Client::open(Pace::None);
    let session = first.session.clone();
    first.end();
    let mut second = Client::new(Pace::None);
    second.session.clone_from(&session);
    let loaded = second.ask("session/load", json!({"sessionId": session, "cwd": "/", "mcpServers": []}));
    assert_eq!(loaded["result"]["modes"]["currentModeId"], "ask");
    assert_eq!(second.next()["params"]["update"]["sessionUpdate"], "available_commands_update");
    assert!(second.turn("think", &selected("none")).text().starts_with("I was started anew"));
    let unknown =
        second.ask("session/load", json!({"sessionId": "demo-1-2-3", "cwd": "/", "mcpServers": []}));
    assert_eq!(unknown["error"]["code"], wire::NO_SUCH_SESSION);
    second.end();
}

#[test]
fn what_makes_no_sense_is_answered_by_the_book() {
    let mut client = Client::open(Pace::None);
    assert_eq!(client.ask("no/such_method", json!({}))["error"]["code"], wire::METHOD_NOT_FOUND);
    assert_eq!(client.ask("session/new", json!({"cwd": "relative"}))["error"]["code"], wire::INVALID_PARAMS);
    let prompt = json!({"sessionId": "other", "prompt": []});
    assert_eq!(client.ask("session/prompt", prompt)["error"]["code"], wire::NO_SUCH_SESSION);
    let mut check = |line: &str, code: i64| {
        client.write(line);
        assert_eq!(client.next()["error"]["code"], code, "{line}");
    };
    check("{broken", wire::PARSE);
    check("17", wire::INVALID_REQUEST);
    check("{}", wire::INVALID_REQUEST);
    client.write("");
    client.write(r#"{"jsonrpc":"2.0","method":"no/such_notification"}"#);
    client.write(r#"{"jsonrpc":"2.0","id":99,"result":{}}"#);
    assert_eq!(client.ask("initialize", json!({}))["result"]["agentInfo"]["name"], "demo");
    client.end();
}
