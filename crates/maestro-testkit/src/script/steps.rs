use super::{Payload, Step, Stream};
use serde_json::{Value, json};

/// A list of steps being written. Every method adds to its end.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Steps(Vec<Step>);

impl Steps {
    /// Adds any step.
    #[must_use]
    pub fn step(mut self, step: Step) -> Self {
        self.0.push(step);
        self
    }

    /// The steps as a list.
    pub fn into_vec(self) -> Vec<Step> {
        self.0
    }

    // === What the client does ===

    /// Waits for a call of `method` and remembers it as `name`.
    #[must_use]
    pub fn expect(self, method: &str, name: &str) -> Self {
        self.step(Step::Expect { methods: vec![method.into()], name: name.into() })
    }

    /// Waits for `session/cancel` of the turn that is open.
    #[must_use]
    pub fn await_cancel(self) -> Self {
        self.expect("session/cancel", "cancel")
    }

    /// Waits for the answer to a request of ours.
    #[must_use]
    pub fn await_answer(self, id: impl Into<Value>) -> Self {
        self.step(Step::AwaitAnswer { id: id.into() })
    }

    /// Waits until a test has made this file.
    #[must_use]
    pub fn await_file(self, path: &std::path::Path) -> Self {
        self.step(Step::AwaitFile { path: path.to_string_lossy().into_owned() })
    }

    /// Branches on the option that a permission request was answered with.
    #[must_use]
    pub fn when(
        self,
        id: impl Into<Value>,
        option: &str,
        then: impl FnOnce(Self) -> Self,
        otherwise: impl FnOnce(Self) -> Self,
    ) -> Self {
        self.step(Step::When {
            id: id.into(),
            option: option.into(),
            then: then(Self::default()).0,
            otherwise: otherwise(Self::default()).0,
        })
    }

    /// Plays `steps` `times` times; `None` means until stdin closes.
    #[must_use]
    pub fn repeat(self, times: Option<u64>, steps: impl FnOnce(Self) -> Self) -> Self {
        self.step(Step::Repeat { times, steps: steps(Self::default()).0 })
    }

    // === Answers ===

    /// Answers the call remembered as `name`.
    #[must_use]
    pub fn reply(self, name: &str, result: Value) -> Self {
        self.step(Step::Reply { to: name.into(), result })
    }

    /// Answers the prompt with `end_turn`.
    #[must_use]
    pub fn end_turn(self) -> Self {
        self.stop("end_turn")
    }

    /// Answers the prompt with a stop reason.
    #[must_use]
    pub fn stop(self, reason: &str) -> Self {
        self.reply("prompt", json!({"stopReason": reason}))
    }

    /// Answers the prompt with a JSON-RPC error.
    #[must_use]
    pub fn fail_turn(self, code: i64, message: &str) -> Self {
        self.fail("prompt", code, message)
    }

    /// Answers the call remembered as `name` with a JSON-RPC error.
    #[must_use]
    pub fn fail(self, name: &str, code: i64, message: &str) -> Self {
        self.step(Step::Fail { to: name.into(), error: json!({"code": code, "message": message}) })
    }

    // === Messages ===

    /// Writes a message.
    #[must_use]
    pub fn send(self, message: Value) -> Self {
        self.step(Step::Send { message })
    }

    /// Writes a `session/update` of the session.
    #[must_use]
    pub fn update(self, update: Value) -> Self {
        let mut params = json!({"sessionId": "{{session}}"});
        params["update"] = update;
        self.send(json!({"jsonrpc": "2.0", "method": "session/update", "params": params}))
    }

    /// Visible text without a message id.
    #[must_use]
    pub fn chunk(self, text: &str) -> Self {
        self.update(
            json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}),
        )
    }

    /// Visible text of a message.
    #[must_use]
    pub fn chunk_of(self, message: &str, text: &str) -> Self {
        self.update(json!({
            "sessionUpdate": "agent_message_chunk", "messageId": message, "content": {"type": "text", "text": text}
        }))
    }

    /// Reasoning without a message id.
    #[must_use]
    pub fn thought(self, text: &str) -> Self {
        self.update(
            json!({"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": text}}),
        )
    }

    /// A person's words as the agent saw them.
    #[must_use]
    pub fn echo(self, text: &str) -> Self {
        self.update(json!({"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": text}}))
    }

    /// A tool call that is in progress.
    #[must_use]
    pub fn tool_call(self, id: &str, title: &str) -> Self {
        self.update(json!({
            "sessionUpdate": "tool_call", "toolCallId": id, "title": title, "kind": "execute", "status": "in_progress"
        }))
    }

    /// A new status of a tool call.
    #[must_use]
    pub fn tool_status(self, id: &str, status: &str) -> Self {
        self.update(json!({"sessionUpdate": "tool_call_update", "toolCallId": id, "status": status}))
    }

    /// A plan of these steps, all pending.
    #[must_use]
    pub fn plan(self, entries: &[&str]) -> Self {
        let entries: Vec<Value> = entries
            .iter()
            .map(|content| json!({"content": content, "priority": "medium", "status": "pending"}))
            .collect();
        self.update(json!({"sessionUpdate": "plan", "entries": entries}))
    }

    /// A permission request with this id for a command, with the options `allow-once`, `allow-always` and
    /// `reject-once`.
    #[must_use]
    pub fn permission(self, id: impl Into<Value>, tool_call: &str, command: &str) -> Self {
        let options = json!([
            {"optionId": "allow-once", "name": "Allow once", "kind": "allow_once"},
            {"optionId": "allow-always", "name": "Always allow", "kind": "allow_always"},
            {"optionId": "reject-once", "name": "Reject", "kind": "reject_once"},
        ]);
        self.permission_with(id, tool_call, command, options)
    }

    /// A permission request with options of the caller's.
    #[must_use]
    pub fn permission_with(
        self,
        id: impl Into<Value>,
        tool_call: &str,
        command: &str,
        options: Value,
    ) -> Self {
        let mut params = json!({
            "sessionId": "{{session}}",
            "toolCall": {
                "toolCallId": tool_call, "title": command, "kind": "execute", "status": "pending",
                "rawInput": {"command": command}
            },
        });
        params["options"] = options;
        self.request(id, "session/request_permission", params)
    }

    /// Writes a request of the agent's.
    #[must_use]
    pub fn request(self, id: impl Into<Value>, method: &str, params: Value) -> Self {
        let mut message = json!({"jsonrpc": "2.0", "id": null, "method": method, "params": null});
        (message["id"], message["params"]) = (id.into(), params);
        self.send(message)
    }

    /// `$/cancel_request` for a request of ours.
    #[must_use]
    pub fn withdraw(self, id: impl Into<Value>) -> Self {
        let id: Value = id.into();
        self.send(json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": id}}))
    }

    // === The process ===

    /// Writes text exactly as it stands, without a newline.
    #[must_use]
    pub fn raw(self, text: &str) -> Self {
        self.step(Step::Write { stream: Stream::Stdout, payload: Payload::Text(text.into()), times: 1 })
    }

    /// Writes bytes exactly as they are, `times` times over.
    #[must_use]
    pub fn bytes(self, stream: Stream, bytes: &[u8], times: u64) -> Self {
        self.step(Step::Write { stream, payload: Payload::Bytes(bytes.to_vec()), times })
    }

    /// Does nothing for so many milliseconds.
    #[must_use]
    pub fn wait(self, ms: u64) -> Self {
        self.step(Step::Wait { ms })
    }

    /// Records a word for the test.
    #[must_use]
    pub fn note(self, text: &str) -> Self {
        self.step(Step::Note { text: text.into() })
    }

    /// Records environment, file descriptors, umask and limits.
    #[must_use]
    pub fn inspect(self) -> Self {
        self.step(Step::Inspect)
    }

    /// Ends the process with a status.
    #[must_use]
    pub fn exit(self, code: u8) -> Self {
        self.step(Step::Exit { code })
    }

    /// Ends the process by a signal.
    #[must_use]
    pub fn die(self, signal: i32) -> Self {
        self.step(Step::Die { signal })
    }
}
