//! The daemon's own lines, put together.

use maestro_protocol::{
    ApprovalOutcome, ApprovalResolvedLine, Envelope, Origin, OutcomeCause, OutcomeKind, RowId, Timestamp,
    TurnLine,
};
use serde_json::{Value, json};

/// An approval that was answered `cancelled`.
pub(super) fn cancelled(row_id: RowId, because: OutcomeCause, when: Timestamp) -> Envelope {
    let outcome = ApprovalOutcome {
        what: OutcomeKind::Cancelled,
        option_id: None,
        decision: None,
        because: Some(because),
        when,
        account: None,
        client: None,
    };
    Envelope::ApprovalResolved(ApprovalResolvedLine { row_id, outcome })
}

/// An approval that a daemon left open when it was killed.
pub(super) fn interrupted(row_id: RowId, when: Timestamp) -> Envelope {
    cancelled(row_id, OutcomeCause::Interrupted, when)
}

/// A turn's end without the agent's answer.
pub(super) fn turn_ended(origin: Origin, reason: &str, at: Timestamp) -> Envelope {
    Envelope::Turn(TurnLine::Ended { origin, reason: reason.into(), error: None, usage: None, at })
}

/// A turn that its session's end cut short.
pub(super) fn turn_interrupted(origin: Origin, at: Timestamp) -> Envelope {
    turn_ended(origin, "interrupted", at)
}

/// The `user_message_chunk` that the daemon writes for a prompt: its first text is the row's content, the other blocks
/// stand under `_meta.maestro.blocks` (CONTRACT §4.4).
pub(super) fn prompt_line(acp_session_id: &str, message_id: &str, content: &[Value]) -> Vec<u8> {
    let first = content.iter().position(|block| block["type"] == "text").unwrap_or(0);
    let others: Vec<&Value> =
        content.iter().enumerate().filter(|(index, _)| *index != first).map(|(_, block)| block).collect();
    let mut update = json!({
        "sessionUpdate": "user_message_chunk",
        "messageId": message_id,
        "content": content.get(first),
    });
    if !others.is_empty() {
        update["_meta"] = json!({"maestro": {"blocks": others}});
    }
    json!({"sessionId": acp_session_id, "update": update}).to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(content: &Value, expect: &Value) {
        let line = prompt_line("s", "m", content.as_array().unwrap());
        let line: Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(&line["update"], expect);
    }

    #[test]
    fn the_first_text_is_the_row() {
        check(
            &json!([{"type": "text", "text": "hi"}]),
            &json!({"sessionUpdate": "user_message_chunk", "messageId": "m", "content": {"type": "text", "text": "hi"}}),
        );
        check(
            &json!([{"type": "image", "data": "x"}, {"type": "text", "text": "hi"}, {"type": "text", "text": "more"}]),
            &json!({
                "sessionUpdate": "user_message_chunk",
                "messageId": "m",
                "content": {"type": "text", "text": "hi"},
                "_meta": {"maestro": {"blocks": [
                    {"type": "image", "data": "x"}, {"type": "text", "text": "more"}]}},
            }),
        );
        check(
            &json!([{"type": "image", "data": "x"}]),
            &json!({"sessionUpdate": "user_message_chunk", "messageId": "m", "content": {"type": "image", "data": "x"}}),
        );
    }
}
