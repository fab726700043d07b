//! A permission request: the question with everything that is asked, and what became of it.

use super::{cut, lines_of};
use crate::terminal::{Paint, clean_line, visible};
use maestro_client::TranscriptModel;
use maestro_protocol::{
    ApprovalOutcome, Decision, OutcomeCause, OutcomeKind, PendingApproval, PermissionOptionKind, RowId,
    SessionId,
};
use serde_json::{Map, Value};

const TITLE_CHARS_MAX: usize = 160;

/// The whole question: where, what with its raw input uncut, and the options. Nothing in it can hide: what has no
/// shape is written out.
pub(crate) fn question(
    request: &Value,
    tool_row: Option<&Value>,
    cwd: &str,
    pending: &PendingApproval,
    paint: Paint,
) -> String {
    let mut lines = vec![paint.yellow("── the agent asks for permission ──")];
    let mut facts = Map::new();
    facts.insert("directory".into(), cwd.into());
    facts.extend(asked_for(request, tool_row));
    for (name, value) in &facts {
        push_value(&mut lines, 1, &key(name), value);
    }
    lines.push(paint.yellow("── the agent's options ──"));
    lines.extend((1..).zip(&pending.options).map(|(number, option)| {
        format!("  {number}  {} ({})", visible_line(&option.name), kind_words(option.kind))
    }));
    lines_of(lines)
}

/// The question of a live request, whose row and tool's row stand in the transcript.
pub(crate) fn question_of(
    model: &TranscriptModel,
    cwd: &str,
    pending: &PendingApproval,
    paint: Paint,
) -> String {
    let request = model.row(&pending.row_id).map_or(&Value::Null, |row| &row.data);
    let call_id = request.pointer("/toolCall/toolCallId").and_then(Value::as_str);
    let tool_row = call_id.and_then(|call_id| model.row(&RowId::tool(call_id)));
    question(request, tool_row.map(|row| &row.data), cwd, pending, paint)
}

/// How to answer a request from another terminal. An option has a line of its own only where it allows something that
/// the plain commands do not.
pub(crate) fn commands(id: SessionId, pending: &PendingApproval) -> String {
    let request = shell_word(pending.row_id.as_str());
    let command = |verb: &str, words: &str| format!("  maestro {verb} {id} --request {request}{words}\n");
    let kind = |decision, command: String| {
        if pending.decisions.contains(&decision) { command } else { String::new() }
    };
    let mut out = "answer it with one of:\n".to_owned();
    out += &kind(Decision::AllowOnce, command("approve", ""));
    out += &kind(Decision::AllowForSession, command("approve", " --session"));
    for option in pending.options.iter().filter(|option| !is_covered(option.kind, pending)) {
        out += &command("approve", &format!(" --option {}", shell_word(&option.option_id)));
    }
    out + &command("deny", "")
}

/// Whether a plain command chooses the options of this kind, or they refuse.
fn is_covered(kind: PermissionOptionKind, pending: &PendingApproval) -> bool {
    match kind {
        PermissionOptionKind::AllowOnce => pending.decisions.contains(&Decision::AllowOnce),
        PermissionOptionKind::AllowAlways => pending.decisions.contains(&Decision::AllowForSession),
        PermissionOptionKind::RejectOnce | PermissionOptionKind::RejectAlways => true,
        PermissionOptionKind::Other => false,
    }
}

/// A text as one word of a shell.
fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':' | '/' | '@');
    let shown = visible_line(text);
    if !shown.is_empty() && shown.chars().all(plain) {
        shown
    } else {
        format!("'{}'", shown.replace('\'', "'\\''"))
    }
}

/// The line that asks for the key, without an end.
pub(crate) fn keys(pending: &PendingApproval, paint: Paint) -> String {
    let key = |decision, words: &'static str| pending.decisions.contains(&decision).then_some(words);
    let offered = [
        key(Decision::AllowOnce, "a = allow once"),
        key(Decision::AllowForSession, "s = allow for the session"),
    ];
    let mut words: Vec<&str> = offered.into_iter().flatten().collect();
    words.push("d = deny");
    if !pending.options.is_empty() {
        words.push("or an option's number");
    }
    format!("{} ", paint.bold(&format!("{}:", words.join(", "))))
}

/// What a person typed, as a decision; otherwise a sentence about what can be typed.
pub(crate) fn read_answer(typed: &str, pending: &PendingApproval) -> Result<Decision, String> {
    let offered = |decision: Decision, words: &str| {
        if pending.decisions.contains(&decision) {
            Ok(decision)
        } else {
            Err(format!("the agent offers no single option to {words}; choose one by its number"))
        }
    };
    match typed.trim() {
        "a" => offered(Decision::AllowOnce, "allow once"),
        "s" => offered(Decision::AllowForSession, "allow for the session"),
        "d" => Ok(Decision::Deny),
        other => {
            let number = other.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
            let option = number.and_then(|place| pending.options.get(place));
            let option = option.map(|option| Decision::Option(option.option_id.clone()));
            option.ok_or_else(|| "that is none of the keys".to_owned())
        }
    }
}

/// A settled or waiting request on one line.
pub(super) fn settled(data: &Value, paint: Paint) -> String {
    let title = data.pointer("/toolCall/title").and_then(Value::as_str).unwrap_or("a tool call");
    let title = cut(&clean_line(title), TITLE_CHARS_MAX);
    let words = outcome(data)
        .map_or_else(|| "waits for an answer".to_owned(), |outcome| outcome_words(data, &outcome));
    format!("{} {title}: {}\n", paint.yellow("? permission for"), paint.bold(&words))
}

/// What became of a request, if anything did.
pub(crate) fn outcome(data: &Value) -> Option<ApprovalOutcome> {
    let outcome = data.pointer("/_meta/maestro/outcome")?;
    serde_json::from_value(outcome.clone()).ok()
}

/// What became of a request, and through whom.
pub(crate) fn outcome_words(data: &Value, outcome: &ApprovalOutcome) -> String {
    let what = match outcome.what {
        OutcomeKind::Selected => selected_words(data, outcome),
        OutcomeKind::Cancelled => match outcome.because {
            Some(OutcomeCause::Denied) => "denied".to_owned(),
            Some(OutcomeCause::TurnCancelled) => "withdrawn, the turn was cancelled".to_owned(),
            Some(OutcomeCause::Superseded) => "withdrawn, a newer request took its place".to_owned(),
            Some(OutcomeCause::Withdrawn) => "withdrawn by the agent".to_owned(),
            Some(OutcomeCause::SessionEnded) => "withdrawn, the session ended".to_owned(),
            Some(OutcomeCause::Interrupted) => "withdrawn, the daemon ended".to_owned(),
            None => "withdrawn".to_owned(),
        },
    };
    let by = outcome.account.as_deref().map(|account| format!(" by {}", clean_line(account)));
    let with = outcome.client.as_deref().map(|client| format!(" with {}", clean_line(client)));
    [Some(what), by, with].into_iter().flatten().collect()
}

fn selected_words(data: &Value, outcome: &ApprovalOutcome) -> String {
    let options = data.get("options").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let field = |option: &Value, name: &str| option.get(name).and_then(Value::as_str).map(str::to_owned);
    let chosen = options.iter().find(|option| field(option, "optionId") == outcome.option_id);
    let kind = chosen.and_then(|option| field(option, "kind"));
    let words = match kind.as_deref() {
        Some("allow_once") => "allowed once",
        Some("allow_always") => "allowed from now on",
        Some("reject_once") => "denied",
        Some("reject_always") => "denied from now on",
        _ => "answered",
    };
    let name = chosen.and_then(|option| field(option, "name")).or_else(|| outcome.option_id.clone());
    format!("{words} (\"{}\")", clean_line(&name.unwrap_or_default()))
}

fn kind_words(kind: PermissionOptionKind) -> &'static str {
    match kind {
        PermissionOptionKind::AllowOnce => "allow once",
        PermissionOptionKind::AllowAlways => "allow always",
        PermissionOptionKind::RejectOnce => "reject once",
        PermissionOptionKind::RejectAlways => "reject always",
        PermissionOptionKind::Other => "something else",
    }
}

/// All fields of the tool call that the request is for: what its row knows, overlaid by what the request says. Left out
/// are ids, the status, and what the daemon itself added.
fn asked_for(request: &Value, tool_row: Option<&Value>) -> Map<String, Value> {
    let fields = |value: Option<&Value>| value.and_then(Value::as_object).cloned().unwrap_or_default();
    let mut asked = fields(tool_row);
    asked.extend(fields(request.get("toolCall")).into_iter().filter(|(_, value)| !value.is_null()));
    for unneeded in ["toolCallId", "sessionId", "status"] {
        asked.shift_remove(unneeded);
    }
    if let Some(meta) = asked.get_mut("_meta").and_then(Value::as_object_mut) {
        meta.shift_remove("maestro");
    }
    asked.retain(|_, value| !value.as_object().is_some_and(Map::is_empty));
    asked
}

/// Adds a value under its name, one line per value, nested by indentation. Text of several lines stands behind bars.
fn push_value(lines: &mut Vec<String>, depth: usize, name: &str, value: &Value) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            lines.push(format!("{indent}{name}:"));
            for (field, value) in fields {
                push_value(lines, depth + 1, &key(field), value);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            lines.push(format!("{indent}{name}:"));
            for item in items {
                push_value(lines, depth + 1, "-", item);
            }
        }
        Value::String(text) if text.contains('\n') => {
            lines.push(format!("{indent}{name}:"));
            lines.extend(text.split('\n').map(|line| format!("{indent}  │ {}", visible_ending(line))));
        }
        Value::String(text) => lines.push(format!("{indent}{name}: {}", quoted(text))),
        plain => lines.push(format!("{indent}{name}: {plain}")),
    }
}

/// A field's name: as it is where it is a plain word, else quoted.
fn key(name: &str) -> String {
    let plain =
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
    if plain { name.to_owned() } else { quoted(name) }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", visible_line(text).replace('"', "\\\""))
}

fn visible_line(text: &str) -> String {
    visible(text).replace('\n', "\\n")
}

/// A line whose spaces at the end can be seen.
fn visible_ending(line: &str) -> String {
    let kept = line.trim_end_matches(' ');
    visible(kept) + &"\\u{20}".repeat(line.len() - kept.len())
}
