mod merge;

pub(crate) use merge::strip_maestro;

use crate::line::{Body, Line, Update, UpdateKind, text_of};
use crate::tool::{self, Mention};
use crate::touch::{Action, Touch};
use maestro_protocol::{ApprovalOutcome, Envelope, RowId, TranscriptRow, TranscriptRowKind};
use serde_json::{Map, Value};

/// Folds one line into one row: `row` is the row before, `None` at its birth; `touch` is one of those that
/// [`crate::StateFold::apply`] gave for `line`. The lines that touch a row are all that a row is made of.
pub fn fold_row(row: Option<TranscriptRow>, touch: &Touch, line: &Line) -> TranscriptRow {
    match (&line.body, touch.action) {
        (Body::Update(update), Action::Tool) => {
            let mention = if update.kind == UpdateKind::ToolCall { Mention::Call } else { Mention::Update };
            merge_tool(row, &touch.row_id, mention, &update.data)
        }
        (Body::Update(update), action) => from_update(row, &touch.row_id, action, update),
        (Body::Envelope(envelope), action) => from_envelope(row, &touch.row_id, action, envelope),
        (Body::Malformed | Body::UnknownEnvelope, _) => row.unwrap_or_else(|| blank(&touch.row_id)),
    }
}

/// Whether a chunk's text can be appended to the row.
pub(crate) fn row_text(row: &TranscriptRow) -> Option<&str> {
    row.data.as_object().and_then(text_of)
}

fn from_update(row: Option<TranscriptRow>, id: &RowId, action: Action, update: &Update) -> TranscriptRow {
    let kind = match update.kind {
        UpdateKind::Chunk(voice) => voice.row_kind(),
        UpdateKind::Plan => TranscriptRowKind::Plan,
        _ => TranscriptRowKind::Notice,
    };
    if action == Action::Text
        && let Some(mut row) = row
        && let Some(chunk) = text_of(&update.data)
        && let Some(Value::String(text)) = own_text(&mut row)
    {
        text.push_str(chunk);
        return row;
    }
    let mut data = update.data.clone();
    if action != Action::Prompt {
        strip_maestro(&mut data);
    }
    TranscriptRow { id: id.clone(), kind, data: Value::Object(data) }
}

fn own_text(row: &mut TranscriptRow) -> Option<&mut Value> {
    row_text(row)?;
    row.data.get_mut("content")?.get_mut("text")
}

fn from_envelope(
    row: Option<TranscriptRow>,
    id: &RowId,
    action: Action,
    envelope: &Envelope,
) -> TranscriptRow {
    match (action, envelope) {
        (Action::Approval, Envelope::Approval(approval)) => {
            let mut row = approval.row.clone();
            if let Value::Object(data) = &mut row.data {
                strip_maestro(data);
                if let Some(Value::Object(call)) = data.get_mut("toolCall") {
                    strip_maestro(call);
                }
            }
            row
        }
        (Action::Tool, Envelope::Approval(approval)) => match tool::of_request(&approval.row.data) {
            Some((_, call)) => merge_tool(row, id, Mention::Approval, call),
            None => row.unwrap_or_else(|| blank(id)),
        },
        (Action::Outcome, Envelope::ApprovalResolved(resolved)) => {
            mark(row, id, "outcome", outcome_json(&resolved.outcome))
        }
        (Action::Settle, _) => mark(row, id, merge::SETTLED, Value::from("interrupted")),
        (Action::Notice, Envelope::Notice(notice)) => TranscriptRow {
            id: id.clone(),
            kind: TranscriptRowKind::Notice,
            data: serde_json::to_value(notice).unwrap_or_default(),
        },
        _ => row.unwrap_or_else(|| blank(id)),
    }
}

fn outcome_json(outcome: &ApprovalOutcome) -> Value {
    serde_json::to_value(outcome).unwrap_or_default()
}

fn merge_tool(
    row: Option<TranscriptRow>,
    id: &RowId,
    mention: Mention,
    patch: &Map<String, Value>,
) -> TranscriptRow {
    let mut data = if let Some(Value::Object(mut data)) = row.map(|row| row.data) {
        // One agent tells that a call runs, then asks for it as pending, and says nothing more until it ends.
        let runs = data.get("status").is_some_and(|status| status == "in_progress");
        let sets_back =
            mention == Mention::Approval && patch.get("status").is_some_and(|status| status == "pending");
        merge::merge(&mut data, patch);
        if runs && sets_back {
            data.insert("status".into(), Value::from("in_progress"));
        }
        data
    } else {
        let mut data = patch.clone();
        strip_maestro(&mut data);
        data
    };
    if tool::standing(mention, patch).is_some() {
        merge::clear_mark(&mut data, merge::SETTLED);
    }
    let kind = if merge::has_diff(&data) { TranscriptRowKind::ToolDiff } else { TranscriptRowKind::ToolCall };
    TranscriptRow { id: id.clone(), kind, data: Value::Object(data) }
}

fn mark(row: Option<TranscriptRow>, id: &RowId, key: &str, value: Value) -> TranscriptRow {
    let mut row = row.unwrap_or_else(|| blank(id));
    if let Value::Object(data) = &mut row.data {
        merge::set_mark(data, key, value);
    }
    row
}

/// The row that a line would have made that is not there: a fold over the lines of a log never needs it.
fn blank(id: &RowId) -> TranscriptRow {
    let kind = match id.as_str().split(':').next() {
        Some("user") => TranscriptRowKind::User,
        Some("agent") => TranscriptRowKind::AgentText,
        Some("thought") => TranscriptRowKind::AgentThought,
        Some("tool") => TranscriptRowKind::ToolCall,
        Some("approval") => TranscriptRowKind::Approval,
        Some("plan") => TranscriptRowKind::Plan,
        _ => TranscriptRowKind::Notice,
    };
    TranscriptRow { id: id.clone(), kind, data: Value::Object(Map::new()) }
}
