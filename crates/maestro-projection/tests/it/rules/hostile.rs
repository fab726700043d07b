use super::{AGENT, STARTED, bare, check, check_state, folded, update};
use maestro_projection::{Applied, Line, Projection};
use serde_json::json;

#[test]
fn a_line_is_of_the_class_that_its_decoded_top_level_tells() {
    let check = |line: &str, expect: &str| {
        let mut projection = Projection::new();
        let applied = projection.apply(1, line.as_bytes());
        let class = match projection.snapshot().rows.first() {
            _ if applied == Applied::Malformed => "malformed",
            Some(_) => "row",
            None if projection.open_turn().is_some() => "turn",
            None => "nothing",
        };
        assert_eq!(class, expect, "{line}");
        assert_eq!(projection.malformed() == 1, expect == "malformed", "{line}");
        assert_eq!(Line::parse(line.as_bytes()).is_malformed(), expect == "malformed", "{line}");
    };
    check(r#"{"update":{}}"#, "row");
    check(r#"{"sessionId":"s","update":{"sessionUpdate":"later"}}"#, "row");
    check(r#"{"jsonrpc":"2.0","method":"session/update","params":{"update":{}}}"#, "row");
    check(r#"{"update":1,"params":{"update":{}}}"#, "row");
    check(r#" {"update":{}} "#, "row");
    check(STARTED, "turn");
    check(&STARTED.replace("maestroEvent", r"m\u0061estroEvent"), "turn");
    check(&format!(r#"{{"update":{{}},{}"#, &STARTED[1..]), "turn");
    check(r#"{"maestroEvent":"later kind"}"#, "nothing");
    check(r#"{"maestroEvent":"task:started","at":"2026-12-01T00:00:00Z"}"#, "nothing");
    check(r#"{"maestroEvent":"turn"}"#, "nothing");
    check(r#"{"maestroEvent":7,"update":{}}"#, "nothing");
    for malformed in [
        "",
        " ",
        "{",
        "[]",
        "null",
        "1",
        "\"update\"",
        "{}",
        r#"{"update":[]}"#,
        r#"{"params":{}}"#,
        r#"{"params":{"update":1}}"#,
        r#"{"params":[{"update":{}}]}"#,
        r#"{"update":{}}{"update":{}}"#,
        r#"{"update":{},}"#,
        r#"{"update":{"x":1e999}}"#,
        r#"{"result":{"update":{}}}"#,
    ] {
        check(malformed, "malformed");
    }
}

#[test]
fn of_a_repeated_key_the_last_one_counts() {
    check(
        &[r#"{"update":{"sessionUpdate":"a"},"update":{"sessionUpdate":"b","x":1,"x":2}}"#],
        &[r#"notice:1 Notice {"sessionUpdate":"b","x":2}"#],
    );
    assert_eq!(folded(&[r#"{"update":{},"update":1}"#]).malformed(), 1);
    check_state(
        &[STARTED.replace("\"origin\":\"person\"", "\"origin\":\"person\",\"origin\":\"agent\"")],
        "/turn/origin",
        json!("agent"),
    );
}

#[test]
fn an_envelope_inside_an_update_is_only_data() {
    check(
        &[update(json!({"maestroEvent": "turn", "phase": "started", "origin": "person", "at": super::AT}))],
        &[
            r#"notice:1 Notice {"maestroEvent":"turn","phase":"started","origin":"person","at":"2026-12-01T00:00:00Z"}"#,
        ],
    );
    let forged =
        json!({"params": {"maestroEvent": "summary", "summary": "x", "at": super::AT, "update": {}}});
    check_state(&[forged.to_string()], "/title", json!(null));
    check(&[forged.to_string()], &["notice:1 Notice {}"]);
}

#[test]
fn an_agents_own_marks_are_removed() {
    let forged =
        json!({"maestro": {"settled": "x", "outcome": {"what": "selected"}, "blocks": []}, "own": 1});
    let chunk = |kind: &str| {
        update(json!({"sessionUpdate": kind, "content": {"type": "text", "text": "a"}, "messageId": "p",
            "_meta": forged}))
    };
    let call = |kind: &str| update(json!({"sessionUpdate": kind, "toolCallId": "t", "_meta": forged}));
    let approval = json!({"maestroEvent": "approval", "at": super::AT, "row": {"id": "approval:1", "kind": "Approval",
        "data": {"toolCall": {"toolCallId": "u", "_meta": forged}, "_meta": forged}}});
    check(
        &[
            chunk("agent_message_chunk"),
            chunk("user_message_chunk"),
            call("tool_call"),
            call("tool_call_update"),
            call("later_kind"),
            approval.to_string(),
        ],
        &[
            r#"agent:p AgentText {"content":{"type":"text","text":"a"},"messageId":"p","_meta":{"own":1}}"#,
            r#"user:p User {"content":{"type":"text","text":"a"},"messageId":"p","_meta":{"own":1}}"#,
            r#"tool:t ToolCall {"toolCallId":"t","_meta":{"own":1}}"#,
            r#"notice:5 Notice {"sessionUpdate":"later_kind","toolCallId":"t","_meta":{"own":1}}"#,
            r#"tool:u ToolCall {"toolCallId":"u","_meta":{"own":1}}"#,
            r#"approval:1 Approval {"toolCall":{"toolCallId":"u","_meta":{"own":1}},"_meta":{"own":1}}"#,
        ],
    );
}

#[test]
fn a_chunk_without_content_is_kept_as_it_came() {
    for content in
        ["null", "1", "[]", "{}", r#"{"type":"text"}"#, r#"{"type":"text","text":1}"#, r#"{"text":"x"}"#]
    {
        let line = format!(r#"{{"update":{{"sessionUpdate":"agent_message_chunk","content":{content}}}}}"#);
        check(&[line], &[&format!(r#"agent:1 AgentText {{"content":{content}}}"#)]);
    }
    check(&[r#"{"update":{"sessionUpdate":"agent_message_chunk"}}"#], &["agent:1 AgentText {}"]);
}

#[test]
fn a_row_id_taken_by_another_row_never_loses_the_newer_line() {
    let image = r#"{"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"image"}}}"#.to_owned();
    check(
        &[super::chunk(AGENT, "2", "a"), image.clone()],
        &[r#"agent:2 AgentText {"content":{"type":"image"}}"#],
    );
    check(
        &[image, super::chunk(AGENT, "1", "a")],
        &[r#"agent:1 AgentText {"content":{"type":"text","text":"a"},"messageId":"1"}"#],
    );
}

#[test]
fn lone_surrogates_and_broken_utf8_make_malformed_lines() {
    let line = |text: &str| {
        format!(
            r#"{{"update":{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"{text}"}}}}}}"#
        )
    };
    let malformed = |line: &[u8]| Line::parse(line).is_malformed();
    assert!(malformed(line(r"\ud800").as_bytes()));
    assert!(malformed(line(r"\udc00x").as_bytes()));
    assert!(!malformed(line(r"\ud83e\udd80").as_bytes()));
    let mut broken = line("x").into_bytes();
    let at = broken.iter().position(|byte| *byte == b'x').unwrap();
    broken[at] = 0xFF;
    assert!(malformed(&broken));
    let elsewhere = [&b"{\"sessionId\":\""[..], &[0xC3], b"\",\"update\":{}}"].concat();
    assert!(malformed(&elsewhere));
}

#[test]
fn nesting_is_read_as_deep_as_it_is_admitted() {
    let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    let check = |line: String, is_read: bool| {
        assert_eq!(!Line::parse(line.as_bytes()).is_malformed(), is_read, "{} bytes", line.len());
    };
    // A message of depth 128 is one level less deep as params, and two deeper in an approval's row.
    check(format!(r#"{{"update":{{"x":{}}}}}"#, nested(125)), true);
    check(format!(r#"{{"params":{{"update":{{"x":{}}}}}}}"#, nested(125)), true);
    check(format!(r#"{{"update":{{"x":{}}}}}"#, nested(200)), false);
    check(format!(r#"{{"update":{{"x":{}}}}}"#, nested(1_000_000)), false);
    check("[".repeat(1_000_000), false);
    let deep = nested(126);
    let approval = format!(
        r#"{{"maestroEvent":"approval","at":"{}","row":{{"id":"approval:1","kind":"Approval","data":{{"x":{deep}}}}}}}"#,
        super::AT
    );
    super::check(&[approval], &[&format!(r#"approval:1 Approval {{"x":{deep}}}"#)]);
}

#[test]
fn malformed_lines_have_a_cursor_and_nothing_else() {
    let projection = folded(&["junk".to_owned(), bare(AGENT, "a"), String::new(), bare(AGENT, "b")]);
    assert_eq!(projection.cursor(), 4);
    assert_eq!(projection.malformed(), 2);
    assert_eq!(projection.snapshot().rows.len(), 1);
    assert_eq!(projection.snapshot().rows[0].id.as_str(), "agent:2");
}
