mod merge;

pub(crate) use merge::strip_maestro;

use crate::line::{Body, Chunk, Line, Update, UpdateKind, Voice, text_of};
use crate::tool::{self, Mention};
use crate::touch::{Action, Touch};
use maestro_protocol::{ApprovalOutcome, Envelope, RowId, TranscriptRow, TranscriptRowKind};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// Folds one line into one row: `row` is the row before, `None` at its birth; `touch` is one of those that
/// [`crate::StateFold::apply`] gave for `line`. The lines that touch a row are all that a row is made of.
pub fn fold_row(row: Option<TranscriptRow>, touch: &Touch, line: &Line) -> TranscriptRow {
    fold_body(row, touch, Cow::Borrowed(&line.body))
}

/// As [`fold_row`]. What is large moves from an owned line into the row.
pub(crate) fn fold_body(row: Option<TranscriptRow>, touch: &Touch, body: Cow<'_, Body>) -> TranscriptRow {
    if let Cow::Owned(Body::Update(update)) = body {
        return from_update(row, touch, Cow::Owned(update));
    }
    match body.as_ref() {
        Body::Update(update) => from_update(row, touch, Cow::Borrowed(update)),
        Body::Chunk(chunk) => from_chunk(row, &touch.row_id, chunk),
        Body::Envelope(envelope) => from_envelope(row, &touch.row_id, touch.action, envelope),
        Body::Malformed | Body::UnknownEnvelope => row.unwrap_or_else(|| blank(&touch.row_id)),
    }
}

/// Whether a chunk's text can be appended to the row.
pub(crate) fn row_text(row: &TranscriptRow) -> Option<&str> {
    row.data.as_object().and_then(text_of)
}

fn from_chunk(row: Option<TranscriptRow>, id: &RowId, chunk: &Chunk) -> TranscriptRow {
    lengthened(row, &chunk.text).unwrap_or_else(|| TranscriptRow {
        id: id.clone(),
        kind: chunk.voice.row_kind(),
        data: Value::Object(chunk.data()),
    })
}

fn from_update(row: Option<TranscriptRow>, touch: &Touch, update: Cow<'_, Update>) -> TranscriptRow {
    let (id, action) = (&touch.row_id, touch.action);
    let kind = match update.kind {
        UpdateKind::ToolCall if action == Action::Tool => {
            return merge_tool(row, id, Mention::Call, data_of(update));
        }
        _ if action == Action::Tool => return merge_tool(row, id, Mention::Update, data_of(update)),
        UpdateKind::Chunk(voice) => Voice::row_kind(voice),
        UpdateKind::Plan => TranscriptRowKind::Plan,
        _ => TranscriptRowKind::Notice,
    };
    let added = text_of(&update.data).filter(|_| action == Action::Text);
    if let Some(row) = added.and_then(|added| lengthened(row, added)) {
        return row;
    }
    let mut data = data_of(update);
    if action != Action::Prompt {
        strip_maestro(&mut data);
    }
    TranscriptRow { id: id.clone(), kind, data: Value::Object(data) }
}

fn data_of(update: Cow<'_, Update>) -> Map<String, Value> {
    match update {
        Cow::Borrowed(update) => update.data.clone(),
        Cow::Owned(update) => update.data,
    }
}

/// The row with text appended; `None` if there is no row of text.
fn lengthened(row: Option<TranscriptRow>, added: &str) -> Option<TranscriptRow> {
    let mut row = row?;
    own_text(&mut row)?.push_str(added);
    Some(row)
}

/// What a line says to a row whose text it may lengthen.
pub(crate) fn said(body: &Body) -> Option<&str> {
    match body {
        Body::Chunk(chunk) => Some(&chunk.text),
        Body::Update(update) => text_of(&update.data),
        _ => None,
    }
}

/// As [`row_text`], to be lengthened.
pub(crate) fn own_text(row: &mut TranscriptRow) -> Option<&mut String> {
    let block = row.data.as_object_mut()?.get_mut("content")?.as_object_mut()?;
    let is_text = block.get("type").and_then(Value::as_str) == Some("text");
    match block.get_mut("text").filter(|_| is_text)? {
        Value::String(text) => Some(text),
        _ => None,
    }
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
            Some((_, call)) => merge_tool(row, id, Mention::Approval, call.clone()),
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
    mut patch: Map<String, Value>,
) -> TranscriptRow {
    let standing = tool::standing(mention, &patch);
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
        strip_maestro(&mut patch);
        patch
    };
    if standing.is_some() {
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
