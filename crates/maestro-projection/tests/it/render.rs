//! A fold as short text that a person can review.

use fnv::FnvHasher;
use maestro_projection::Projection;
use maestro_protocol::{ReducedState, TranscriptRow, TranscriptRowKind};
use serde_json::Value;
use std::fmt::Write as _;
use std::hash::Hasher as _;

pub(crate) fn projection(projection: &Projection) -> String {
    let mut out = String::new();
    let times = projection.times();
    for row in projection.snapshot().rows {
        let _always_fits = writeln!(out, "{}", self::row(&row));
        let times = times.get(&row.id).expect("every line follows a time").0;
        assert!(times[0] <= times[1]);
    }
    out + &state(&projection.state())
}

fn row(row: &TranscriptRow) -> String {
    let data = &row.data;
    let body = match row.kind {
        TranscriptRowKind::User | TranscriptRowKind::AgentText | TranscriptRowKind::AgentThought => {
            let text = data["content"]["text"].as_str();
            text.map_or_else(|| format!("block {}", data["content"]["type"]), self::text)
        }
        TranscriptRowKind::ToolCall | TranscriptRowKind::ToolDiff => tool(data),
        TranscriptRowKind::Approval => approval(data),
        TranscriptRowKind::Plan => plan(data),
        TranscriptRowKind::Notice => {
            format!("{} {}", word(&data["sessionUpdate"]), text(&data.to_string()))
        }
    };
    format!("{} {:?} {body}", row.id, row.kind)
}

fn tool(data: &Value) -> String {
    let mut out = format!(
        "{} {} {}",
        word(&data["status"]),
        word(&data["kind"]),
        text(data["title"].as_str().unwrap_or(""))
    );
    for block in data["content"].as_array().into_iter().flatten() {
        let _always_fits = match block["type"].as_str() {
            Some("content") => write!(out, " [{}]", text(block["content"]["text"].as_str().unwrap_or("?"))),
            Some("diff") => write!(out, " [diff {}]", word(&block["path"])),
            other => write!(out, " [{}]", other.unwrap_or("?")),
        };
    }
    for (label, value) in [
        ("in", &data["rawInput"]),
        ("out", &data["rawOutput"]),
        ("parent", &data["_meta"]["claudeCode"]["parentToolUseId"]),
        ("parent", &data["_meta"]["parentToolCallId"]),
        ("terminal", &data["_meta"]["terminal_output_delta"]["data"]),
        ("settled", &data["_meta"]["maestro"]["settled"]),
    ] {
        if !value.is_null() {
            let _always_fits = write!(out, " {label}={}", text(&value.to_string()));
        }
    }
    out
}

fn approval(data: &Value) -> String {
    let options = data["options"].as_array().into_iter().flatten().map(|option| word(&option["kind"]));
    let options = options.collect::<Vec<_>>().join(",");
    let outcome = &data["_meta"]["maestro"]["outcome"];
    let outcome = match outcome["what"].as_str() {
        Some(what) => format!("{what} {} {}", word(&outcome["option_id"]), word(&outcome["because"])),
        None => "open".into(),
    };
    format!("tool:{} ({options}) -> {outcome}", word(&data["toolCall"]["toolCallId"]))
}

fn plan(data: &Value) -> String {
    let entries = data["entries"].as_array().into_iter().flatten();
    let entries = entries.map(|entry| {
        format!("{}={}", word(&entry["status"]), text(entry["content"].as_str().unwrap_or("?")))
    });
    entries.collect::<Vec<_>>().join(", ")
}

fn state(state: &ReducedState) -> String {
    let turn = &state.turn;
    let end = turn.last_end.as_ref().map_or("-".into(), |end| {
        let error = end.error.as_ref().map(|error| format!(" {}", text(&error.to_string())));
        format!("{} {}{}", end.turn_id.as_deref().unwrap_or("-"), end.reason, error.unwrap_or_default())
    });
    let json = |value: &Option<Value>| value.as_ref().map_or("-".into(), |value| text(&value.to_string()));
    let offer = |current: Option<&String>, available: &Value| {
        format!("{} of {}", current.map_or("-", String::as_str), available.as_array().map_or(0, Vec::len))
    };
    let usage = state.usage.as_ref();
    let cost = usage.and_then(|usage| usage.cost.as_ref());
    [
        format!("-- title {:?}", state.title),
        format!(
            "-- turn active={} origin={:?} responding={} thinking={} id={:?} open={:?} end={end}",
            turn.active, turn.origin, turn.responding, turn.thinking, turn.turn_id, turn.active_tool_calls
        ),
        format!("-- plan {}", json(&state.plan)),
        format!(
            "-- usage cost={} last_turn={}",
            cost.map_or("-".into(), |cost| format!("{} {}", cost.amount, cost.currency)),
            json(&usage.and_then(|usage| usage.last_turn.clone()))
        ),
        format!(
            "-- context {}",
            state.context.map_or("-".into(), |context| format!("{}/{}", context.used, context.size))
        ),
        format!(
            "-- mode {} model {} options {} commands {}\n",
            state.mode.as_ref().map_or("-".into(), |mode| offer(mode.current.as_ref(), &mode.available)),
            state.model.as_ref().map_or("-".into(), |model| offer(model.current.as_ref(), &model.available)),
            json(&state.config_options),
            state.commands.as_ref().map_or("-".into(), |commands| commands.len().to_string()),
        ),
    ]
    .join("\n")
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or("-")
}

/// The start of a text; its length in characters and a digest where it is cut.
fn text(text: &str) -> String {
    const SHOWN: usize = 60;
    let start = text.chars().take(SHOWN).collect::<String>();
    let length = text.chars().count();
    if length <= SHOWN {
        return format!("{start:?}");
    }
    let mut hasher = FnvHasher::default();
    hasher.write(text.as_bytes());
    format!("{start:?}...{length} #{:08x}", hasher.finish() >> 32)
}
