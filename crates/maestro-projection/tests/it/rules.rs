//! One rule at a time, through two doors: [`check`] for rows and [`check_state`] for the state.
#![expect(
    clippy::needless_pass_by_value,
    clippy::cloned_ref_to_slice_refs,
    reason = "tables of cases read best with their values in place"
)]

mod daemon;
mod deltas;
mod hostile;
mod ledger;
mod paging;
mod state;
mod text;
mod tools;

use maestro_projection::Projection;
use serde_json::{Value, json};

fn folded<L: AsRef<str>>(lines: &[L]) -> Projection {
    let mut projection = Projection::new();
    for (cursor, line) in (1..).zip(lines) {
        projection.apply(cursor, line.as_ref().as_bytes());
    }
    projection
}

/// The lines give these rows, each written `<id> <kind> <data>`.
#[track_caller]
fn check<L: AsRef<str>>(lines: &[L], expect: &[&str]) {
    let rows = folded(lines).snapshot().rows;
    let rows = rows.iter().map(|row| format!("{} {:?} {}", row.id, row.kind, row.data)).collect::<Vec<_>>();
    assert_eq!(rows, expect);
}

/// The lines give a state whose part at `pointer` is `expect`.
#[track_caller]
fn check_state<L: AsRef<str>>(lines: &[L], pointer: &str, expect: Value) {
    let state = serde_json::to_value(folded(lines).state()).unwrap();
    assert_eq!(state.pointer(pointer), Some(&expect), "{state:#}");
}

fn update(update: Value) -> String {
    json!({"sessionId": "s", "update": update}).to_string()
}

/// A text chunk without message id.
fn bare(voice: &str, text: &str) -> String {
    update(json!({"sessionUpdate": format!("{voice}_chunk"), "content": {"type": "text", "text": text}}))
}

fn chunk(voice: &str, id: &str, text: &str) -> String {
    update(json!({"sessionUpdate": format!("{voice}_chunk"), "content": {"type": "text", "text": text},
        "messageId": id}))
}

/// A `tool_call` or `tool_call_update` of the call `t`.
fn tool(kind: &str, mut fields: Value) -> String {
    fields["sessionUpdate"] = kind.into();
    fields["toolCallId"] = "t".into();
    update(fields)
}

fn approval(call: &Value) -> String {
    json!({"maestroEvent": "approval", "at": AT,
        "row": {"id": "approval:1", "kind": "Approval", "data": {"toolCall": call, "options": []}}})
    .to_string()
}

const AGENT: &str = "agent_message";
const THOUGHT: &str = "agent_thought";
const USER: &str = "user_message";

const AT: &str = "2026-12-01T00:00:00Z";
/// A person's turn begins and its prompt follows under the id `p`.
const STARTED: &str = r#"{"maestroEvent":"turn","phase":"started","origin":"person","message_id":"p","at":"2026-12-01T00:00:00Z"}"#;
const ENDED: &str = r#"{"maestroEvent":"turn","phase":"ended","origin":"person","reason":"end_turn","at":"2026-12-01T00:00:01Z"}"#;
const CLOCK: &str = r#"{"maestroEvent":"clock","at":"2026-12-01T00:00:05Z"}"#;
const LOADED: &str =
    r#"{"maestroEvent":"session","event":"loaded","acp_session_id":"s","at":"2026-12-01T00:00:02Z"}"#;
const RESOLVED: &str = r#"{"maestroEvent":"approval_resolved","row_id":"approval:1","outcome":{"what":"selected","option_id":"o","when":"2026-12-01T00:00:03Z"}}"#;
