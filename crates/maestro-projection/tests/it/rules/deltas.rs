use super::{AGENT, CLOCK, ENDED, bare, chunk, folded, tool, update};
use maestro_projection::{Applied, DeltaForm, Projection};
use serde_json::{Value, json};

/// The last of the lines gives these deltas, written as JSON with rows cut to their id.
#[track_caller]
fn check(lines: &[String], form: DeltaForm, expect: &Value) {
    let (last, before) = lines.split_last().unwrap();
    let mut projection = folded(before);
    let applied = projection.apply(before.len() as u64 + 1, last.as_bytes());
    let mut deltas = serde_json::to_value(projection.deltas(&applied, form)).unwrap();
    for delta in deltas.as_array_mut().unwrap() {
        if let Some(row) = delta.get_mut("row") {
            *row = row["id"].take();
        }
    }
    assert_eq!(&deltas, expect);
}

#[test]
fn text_grows_by_utf16_offsets() {
    // One, two, one and two, and one code units.
    let wide =
        [bare(AGENT, "a\u{1F980}"), bare(AGENT, "e\u{301}"), bare(AGENT, "\u{1F980}"), bare(AGENT, "z")];
    let append = |offset: u64, text: &str| json!([{"type": "AppendText", "id": "agent:1", "offset": offset, "text": text}]);
    check(&wide[..1], DeltaForm::Text, &json!([{"type": "Append", "row": "agent:1"}]));
    check(&wide[..2], DeltaForm::Text, &append(3, "e\u{301}"));
    check(&wide[..3], DeltaForm::Text, &append(5, "\u{1F980}"));
    check(&wide, DeltaForm::Text, &append(7, "z"));
    check(&wide, DeltaForm::Plain, &json!([{"type": "Patch", "row": "agent:1"}]));
    let resumed = [chunk(AGENT, "m", "\u{1F980}"), chunk(AGENT, "n", "b"), chunk(AGENT, "m", "c")];
    check(
        &resumed,
        DeltaForm::Text,
        &json!([{"type": "AppendText", "id": "agent:m", "offset": 2, "text": "c"}]),
    );
}

#[test]
fn what_does_more_than_lengthen_text_is_a_patch() {
    let patch = json!([{"type": "Patch", "row": "tool:t"}]);
    let call = tool("tool_call", json!({}));
    check(&[call.clone(), tool("tool_call_update", json!({"title": "T"}))], DeltaForm::Text, &patch);
    check(&[call, ENDED.to_owned()], DeltaForm::Text, &patch);
}

#[test]
fn a_line_that_changes_no_row_has_no_deltas() {
    for line in [
        CLOCK.to_owned(),
        "junk".to_owned(),
        bare(AGENT, ""),
        update(json!({"sessionUpdate": "usage_update"})),
    ] {
        check(&[line], DeltaForm::Plain, &json!([]));
    }
    check(&[chunk(AGENT, "m", "a"), chunk(AGENT, "m", "")], DeltaForm::Text, &json!([]));
}

#[test]
fn an_approval_touches_the_call_before_itself() {
    check(
        &[super::approval(&json!({"toolCallId": "t"}))],
        DeltaForm::Plain,
        &json!([{"type": "Append", "row": "tool:t"}, {"type": "Append", "row": "approval:1"}]),
    );
}

#[test]
fn changes_since_a_cursor_come_in_row_order_once_each() {
    let projection = folded(&[
        bare(AGENT, "a"),
        tool("tool_call", json!({})),
        chunk(AGENT, "m", "b"),
        tool("tool_call_update", json!({"title": "T"})),
        chunk(AGENT, "n", "c"),
        chunk(AGENT, "m", "d"),
    ]);
    let check = |cursor: u64, expect: &[&str]| {
        let (deltas, times) = projection.changed_since(cursor);
        let deltas = deltas.iter().map(|delta| {
            let delta = serde_json::to_value(delta).unwrap();
            format!("{} {}", delta["type"].as_str().unwrap(), delta["row"]["id"].as_str().unwrap())
        });
        assert_eq!(deltas.collect::<Vec<_>>(), expect, "since {cursor}");
        assert!(times.is_empty());
    };
    check(0, &["Append agent:1", "Append tool:t", "Append agent:m", "Append agent:n"]);
    check(2, &["Patch tool:t", "Append agent:m", "Append agent:n"]);
    check(4, &["Patch agent:m", "Append agent:n"]);
    check(5, &["Patch agent:m"]);
    check(6, &[]);
    check(99, &[]);
}

#[test]
fn a_line_tells_what_touched_its_rows_before() {
    let mut projection = Projection::new();
    let mut prev = |cursor: u64, line: &str| match projection.apply(cursor, line.as_bytes()) {
        Applied::Line { changes, .. } => changes.iter().map(|change| change.prev).collect::<Vec<_>>(),
        Applied::Malformed => vec![u64::MAX],
    };
    assert_eq!(prev(1, &tool("tool_call", json!({}))), [0]);
    assert_eq!(prev(2, "junk"), [u64::MAX]);
    assert_eq!(prev(3, &super::approval(&json!({"toolCallId": "t"}))), [1, 0]);
    assert_eq!(prev(4, super::RESOLVED), [3]);
    assert_eq!(prev(5, ENDED), [3]);
    assert_eq!(prev(6, CLOCK), [0; 0]);
}

/// What a reader is told that stands at the first `at` lines, written as JSON with rows cut to their id.
#[track_caller]
fn check_grown(lines: &[String], at: usize, expect: &Value) {
    let standing = folded(&lines[..at]).standing();
    let (deltas, _) = folded(lines).grown_since(&standing);
    let mut deltas = serde_json::to_value(deltas).unwrap();
    for delta in deltas.as_array_mut().unwrap() {
        if let Some(row) = delta.get_mut("row") {
            *row = row["id"].take();
        }
    }
    assert_eq!(&deltas, expect, "from line {at}");
}

#[test]
fn all_that_a_text_grew_since_is_one_delta() {
    let lines = [
        chunk(AGENT, "m", "\u{1F980}"),
        chunk(AGENT, "n", "b"),
        chunk(AGENT, "m", "e\u{301}"),
        CLOCK.to_owned(),
        chunk(AGENT, "m", "z"),
        tool("tool_call", json!({})),
    ];
    let append = |offset: u64, text: &str| json!({"type": "AppendText", "id": "agent:m", "offset": offset, "text": text});
    let tool = json!({"type": "Append", "row": "tool:t"});
    check_grown(&lines, 1, &json!([append(2, "e\u{301}z"), {"type": "Append", "row": "agent:n"}, tool]));
    check_grown(&lines, 2, &json!([append(2, "e\u{301}z"), tool]));
    check_grown(&lines, 3, &json!([append(4, "z"), tool]));
    check_grown(&lines, 5, &json!([tool]));
    check_grown(&lines, 6, &json!([]));
}

#[test]
fn a_text_whose_end_a_reader_does_not_remember_comes_as_a_whole() {
    let born = (0..40).map(|n| chunk(AGENT, &format!("m{n}"), "a"));
    let lines = born.chain([chunk(AGENT, "m1", "b"), chunk(AGENT, "m38", "c")]).collect::<Vec<_>>();
    let grown = json!({"type": "AppendText", "id": "agent:m38", "offset": 1, "text": "c"});
    check_grown(&lines, 40, &json!([{"type": "Patch", "row": "agent:m1"}, grown]));
}
