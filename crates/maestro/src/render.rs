//! Rows, states and sessions as text. Pure: what a row looks like depends on the row alone. Everything that others
//! wrote passes through `terminal::clean`.

pub(crate) mod approval;
pub(crate) mod audit;
mod diff;
mod notice;
mod plan;
pub(crate) mod queue;
pub(crate) mod session;
pub(crate) mod stream;
mod tool;
pub(crate) mod usage;

use crate::terminal::{Paint, clean, clean_line};
use maestro_protocol::{TranscriptRow, TranscriptRowKind};
use serde_json::Value;

/// A whole row as lines, each with its end. Rows without anything to see are empty.
pub(crate) fn row(row: &TranscriptRow, paint: Paint) -> String {
    match row.kind {
        TranscriptRowKind::User => prefixed("› ", &user_text(&row.data), |line| paint.bold(line)),
        TranscriptRowKind::AgentText => plain(&content_text(&row.data)),
        TranscriptRowKind::AgentThought => {
            prefixed("", &format!("{THINKING}{}", content_text(&row.data)), |line| paint.dim(line))
        }
        TranscriptRowKind::ToolCall | TranscriptRowKind::ToolDiff => tool::Card::read(&row.data).whole(paint),
        TranscriptRowKind::Approval => approval::settled(&row.data, paint),
        TranscriptRowKind::Plan => plan::checklist(&row.data, paint),
        TranscriptRowKind::Notice => notice::line(&row.data, paint),
    }
}

/// Rows one under the other, with a blank line between those that are more than a line of the same kind.
pub(crate) fn transcript(rows: &[TranscriptRow], paint: Paint) -> String {
    let shown = rows.iter().map(|each| row(each, paint)).filter(|text| !text.is_empty());
    shown.collect::<Vec<_>>().join("\n")
}

/// Text of an agent as lines.
pub(crate) fn plain(text: &str) -> String {
    prefixed("", text, str::to_owned)
}

/// Lines, each with its end.
pub(crate) fn lines_of(lines: impl IntoIterator<Item = String>) -> String {
    lines.into_iter().map(|line| line + "\n").collect()
}

/// What marks the agent's reasoning, with and without colour.
const THINKING: &str = "(thinking) ";

fn prefixed(prefix: &str, text: &str, style: impl Fn(&str) -> String) -> String {
    let text = clean(text);
    let text = text.trim_end_matches('\n');
    if text.is_empty() {
        return String::new();
    }
    lines_of(text.split('\n').map(|line| style(&format!("{prefix}{line}"))))
}

/// A prompt: its first text and, in short, its further blocks.
fn user_text(data: &Value) -> String {
    let further = data.pointer("/_meta/maestro/blocks").and_then(Value::as_array);
    let mut text = content_text(data);
    for block in further.into_iter().flatten() {
        text.push('\n');
        text.push_str(&block_text(block));
    }
    text
}

/// The text of a row's `content`.
fn content_text(data: &Value) -> String {
    data.get("content").map(block_text).unwrap_or_default()
}

/// A content block: its text, or what it is.
fn block_text(block: &Value) -> String {
    let field = |name: &str| block.get(name).and_then(Value::as_str);
    match field("type") {
        Some("text") => field("text").unwrap_or_default().to_owned(),
        Some("resource_link") => {
            format!("[link {}]", clean_line(field("uri").unwrap_or("without an address")))
        }
        Some("resource") => {
            let uri = block.pointer("/resource/uri").and_then(Value::as_str);
            format!("[file {}]", clean_line(uri.unwrap_or("without an address")))
        }
        Some(kind) => format!("[{}]", clean_line(&[kind, field("mimeType").unwrap_or_default()].join(" "))),
        None => String::new(),
    }
}

/// Cuts a text to a number of characters, with `…` in place of the rest.
fn cut(text: &str, n_chars_max: usize) -> String {
    if text.char_indices().nth(n_chars_max).is_none() {
        return text.to_owned();
    }
    let kept: String = text.chars().take(n_chars_max.saturating_sub(1)).collect();
    kept + "…"
}

#[cfg(test)]
pub(crate) mod tests;
