use crate::{Frame, decode::tolerant::text_at};
use maestro_protocol::json;
use serde_json::Value;

/// With what an agent ends a turn of its own (CONTRACT §8.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnMark {
    /// A notification of this method.
    Notification(&'static str),
    /// An update of this kind with a text at `pointer` that is not `unless`.
    Update {
        /// Its `sessionUpdate`.
        kind: &'static str,
        /// Where in the update the text stands, as a JSON pointer.
        pointer: &'static str,
        /// The text that marks the end of a person's turn.
        unless: &'static str,
    },
}

impl TurnMark {
    /// Whether `frame` is the mark.
    pub fn is(&self, frame: &Frame) -> bool {
        match (self, frame) {
            (Self::Notification(marks), Frame::OtherNotification { method }) => method == marks,
            (Self::Update { kind: marks, pointer, unless }, Frame::Update { params, kind, .. }) => {
                kind == marks && text_at(&update(params), pointer).is_some_and(|text| text != *unless)
            }
            _ => false,
        }
    }
}

/// What of a frame shows that an agent works although nobody asked it anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stir {
    /// It speaks or thinks.
    Text,
    /// It mentions this tool call, which shows work only if the call is new.
    Call(String),
}

/// How `frame` shows work, if it does. A chunk without content shows none: some agents hang figures onto such.
pub fn stir(frame: &Frame) -> Option<Stir> {
    match frame {
        Frame::Update { params, kind, .. } => match kind.as_str() {
            "agent_message_chunk" | "agent_thought_chunk" => {
                let content = update(params).get("content").cloned().unwrap_or_default();
                let empty = content.get("text").and_then(Value::as_str).is_some_and(str::is_empty);
                (content.is_object() && !empty).then_some(Stir::Text)
            }
            "tool_call" | "tool_call_update" => text_at(&update(params), "/toolCallId").map(Stir::Call),
            _ => None,
        },
        _ => None,
    }
}

/// The update in the params of a notification, which a frame only has if it can be read.
fn update(params: &[u8]) -> Value {
    let params: Value = json::from_slice(params).unwrap_or_default();
    params.get("update").cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AgentTable, decode};
    use serde_json::json;

    fn update_of(update: &Value) -> Frame {
        let params = json!({"sessionId": "s", "update": update});
        decode(json!({"jsonrpc": "2.0", "method": "session/update", "params": params}).to_string().as_bytes())
    }

    #[test]
    fn text_and_calls_show_work() {
        let check =
            |update: Value, expect: Option<Stir>| assert_eq!(stir(&update_of(&update)), expect, "{update}");
        let chunk = |kind: &str, text: &str| json!({"sessionUpdate": kind, "content": {"type": "text", "text": text}});
        let call = || Some(Stir::Call("t".into()));
        check(chunk("agent_message_chunk", "hi"), Some(Stir::Text));
        check(chunk("agent_thought_chunk", "hm"), Some(Stir::Text));
        check(chunk("agent_message_chunk", ""), None);
        check(chunk("user_message_chunk", "hi"), None);
        check(
            json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "image", "data": ""}}),
            Some(Stir::Text),
        );
        check(json!({"sessionUpdate": "agent_message_chunk"}), None);
        check(json!({"sessionUpdate": "tool_call", "toolCallId": "t"}), call());
        check(json!({"sessionUpdate": "tool_call_update", "toolCallId": "t"}), call());
        check(json!({"sessionUpdate": "tool_call", "toolCallId": 7}), None);
        check(json!({"sessionUpdate": "usage_update", "used": 1}), None);
        check(json!({"sessionUpdate": "plan", "entries": []}), None);
    }

    #[test]
    fn each_agent_has_its_own_mark() {
        let mark = |key: &str| {
            let key = key.parse().unwrap();
            AgentTable::built_in().get(&key).and_then(|entry| entry.own_turn_end)
        };
        let check = |key: &str, frame: &Frame, expect: bool| {
            assert_eq!(mark(key).is_some_and(|mark| mark.is(frame)), expect, "{key}: {frame:?}");
        };
        let usage = |origin: Value| {
            update_of(&json!({"sessionUpdate": "usage_update", "_meta": {"_claude/origin": origin}}))
        };
        check("claude-agent-acp", &usage(json!({"kind": "task-notification"})), true);
        check("claude-agent-acp", &usage(json!({"kind": "human"})), false);
        check("claude-agent-acp", &usage(json!({})), false);
        check("claude-agent-acp", &usage(json!(null)), false);
        check("qwen", &usage(json!({"kind": "task-notification"})), false);
        let end = Frame::OtherNotification { method: "_qwencode/end_turn".into() };
        check("qwen", &end, true);
        check("claude-agent-acp", &end, false);
        check("gemini", &end, false);
    }
}
