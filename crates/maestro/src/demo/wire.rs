//! The messages of the demo agent. Pure.

use super::script::{PLAN, Tool, WORDS};
use serde_json::{Value, json};
use std::path::Path;

pub(super) const INVALID_REQUEST: i64 = -32600;
pub(super) const METHOD_NOT_FOUND: i64 = -32601;
pub(super) const INVALID_PARAMS: i64 = -32602;
pub(super) const INTERNAL: i64 = -32603;
pub(super) const NO_SUCH_SESSION: i64 = -32002;
pub(super) const PARSE: i64 = -32700;

/// How far the demo agent may go unasked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Mode {
    /// Asks before every tool that does something.
    #[default]
    Ask,
    /// Never asks.
    Auto,
}

impl Mode {
    pub(super) fn of_id(id: &str) -> Option<Self> {
        match id {
            "ask" => Some(Self::Ask),
            "auto" => Some(Self::Auto),
            _ => None,
        }
    }

    fn id(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Auto => "auto",
        }
    }
}

/// How a permission request was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Permission {
    Once,
    Always,
    Refused,
}

impl Permission {
    const ALL: [(Self, &str, &str); 3] = [
        (Self::Once, "allow_once", "Allow once"),
        (Self::Always, "allow_always", "Allow for this session"),
        (Self::Refused, "reject_once", "Reject"),
    ];

    /// Anything but a clear yes is a no.
    pub(super) fn of_answer(answer: &Value) -> Self {
        let chosen = answer["result"]["outcome"]["optionId"].as_str();
        let found = Self::ALL.iter().find(|(_, id, _)| chosen == Some(id));
        found.map_or(Self::Refused, |(permission, ..)| *permission)
    }

    fn options() -> Vec<Value> {
        Self::ALL.iter().map(|(_, id, name)| json!({"optionId": id, "name": name, "kind": id})).collect()
    }
}

pub(super) fn result(id: &Value, result: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

pub(super) fn error(id: &Value, code: i64, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

pub(super) fn update(session: &str, update: &Value) -> Value {
    json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": update}})
}

pub(super) fn initialized() -> Value {
    json!({
        "protocolVersion": 1,
        "agentCapabilities": {
            "loadSession": true,
            "promptCapabilities": {"image": false, "audio": false, "embeddedContext": false}
        },
        "agentInfo": {"name": "demo", "title": "Demo", "version": env!("CARGO_PKG_VERSION")},
        "authMethods": []
    })
}

pub(super) fn modes(current: Mode) -> Value {
    json!({
        "currentModeId": current.id(),
        "availableModes": [
            {"id": "ask", "name": "Ask", "description": "Asks before it does anything"},
            {"id": "auto", "name": "Auto", "description": "Does everything unasked"}
        ]
    })
}

pub(super) fn commands() -> Value {
    let commands: Vec<Value> =
        WORDS.iter().map(|word| json!({"name": word.word, "description": word.does})).collect();
    json!({"sessionUpdate": "available_commands_update", "availableCommands": commands})
}

pub(super) fn chunk(kind: &str, message: &str, text: &str) -> Value {
    json!({"sessionUpdate": kind, "messageId": message, "content": {"type": "text", "text": text}})
}

pub(super) fn title(title: &str) -> Value {
    json!({"sessionUpdate": "session_info_update", "title": title})
}

pub(super) fn plan(done: usize, working: bool) -> Value {
    let status = |index: usize| match index {
        index if index < done => "completed",
        index if index == done && working => "in_progress",
        _ => "pending",
    };
    let entry = |(index, content)| json!({"content": content, "priority": "medium", "status": status(index)});
    json!({"sessionUpdate": "plan", "entries": PLAN.iter().enumerate().map(entry).collect::<Vec<_>>()})
}

/// Counted in words, which stand for the tokens that a script does not have. It costs nothing.
pub(super) fn usage(words: u64) -> Value {
    json!({
        "sessionUpdate": "usage_update", "used": words, "size": 200_000, "cost": {"amount": 0.0, "currency": "USD"}
    })
}

pub(super) fn turn_ended(reason: &str, asked: u64, said: u64) -> Value {
    json!({
        "stopReason": reason,
        "usage": {"inputTokens": asked, "outputTokens": said, "totalTokens": asked + said}
    })
}

/// The fields of a tool call that say what it is. `note` is the file that an edit writes.
pub(super) fn tool(tool: Tool, note: &Path) -> Value {
    let note = note.to_string_lossy();
    match tool {
        Tool::Look => json!({"title": "Look around", "kind": "search", "rawInput": {"pattern": "*"}}),
        Tool::Run => json!({
            "title": "Count to three", "kind": "execute",
            "rawInput": {"command": "seq 3", "note": "the demo pretends: no program is started"}
        }),
        Tool::Edit => json!({
            "title": format!("Write {note}"), "kind": "edit", "locations": [{"path": note}],
            "rawInput": {"path": note, "append": super::note::LINE}
        }),
    }
}

/// A tool call or an update of one: `fields` with its id, and with its status if that changes.
pub(super) fn tool_event(event: &str, call: &str, status: Option<&str>, mut fields: Value) -> Value {
    fields["sessionUpdate"] = event.into();
    fields["toolCallId"] = call.into();
    if let Some(status) = status {
        fields["status"] = status.into();
    }
    fields
}

pub(super) fn text_content(text: &str) -> Value {
    json!({"content": [{"type": "content", "content": {"type": "text", "text": text}}]})
}

pub(super) fn diff_content(path: &Path, old: Option<&str>, new: &str) -> Value {
    json!({"content": [{"type": "diff", "path": path.to_string_lossy(), "oldText": old, "newText": new}]})
}

/// Asks a person; `call` is the tool call as far as it is known.
pub(super) fn permission(id: u64, session: &str, call: &Value) -> Value {
    json!({
        "jsonrpc": "2.0", "id": id, "method": "session/request_permission",
        "params": {"sessionId": session, "toolCall": call, "options": Permission::options()}
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_yes_is_a_yes() {
        let check = |answer: Value, expect: Permission| {
            assert_eq!(Permission::of_answer(&answer), expect, "{answer}");
        };
        let selected = |id: &str| json!({"result": {"outcome": {"outcome": "selected", "optionId": id}}});
        check(selected("allow_once"), Permission::Once);
        check(selected("allow_always"), Permission::Always);
        check(selected("reject_once"), Permission::Refused);
        check(selected("other"), Permission::Refused);
        check(json!({"result": {"outcome": {"outcome": "cancelled"}}}), Permission::Refused);
        check(json!({"error": {"code": -32601, "message": "no"}}), Permission::Refused);
        check(json!({}), Permission::Refused);
    }

    #[test]
    fn a_plan_moves() {
        let check = |done, working, expect: [&str; 3]| {
            let plan = plan(done, working);
            let entries = plan["entries"].as_array().unwrap();
            assert_eq!(
                entries.iter().map(|entry| entry["status"].as_str().unwrap()).collect::<Vec<_>>(),
                expect
            );
        };
        check(0, false, ["pending", "pending", "pending"]);
        check(0, true, ["in_progress", "pending", "pending"]);
        check(2, true, ["completed", "completed", "in_progress"]);
        check(3, false, ["completed", "completed", "completed"]);
    }

    #[test]
    fn a_mode_is_known_by_its_id() {
        for mode in [Mode::Ask, Mode::Auto] {
            assert_eq!(Mode::of_id(mode.id()), Some(mode));
        }
        assert_eq!(Mode::of_id("yolo"), None);
    }
}
