use super::{AGENT, AT, ENDED, LOADED, RESOLVED, STARTED, approval, bare, check, check_state, tool, update};
use serde_json::{Value, json};

#[test]
fn a_call_is_one_row_whatever_names_it_first() {
    check(
        &[
            tool("tool_call", json!({"title": "T", "status": "pending"})),
            tool("tool_call_update", json!({"status": "completed"})),
        ],
        &[r#"tool:t ToolCall {"title":"T","status":"completed","toolCallId":"t"}"#],
    );
    check(
        &[tool("tool_call_update", json!({"status": "completed"})), tool("tool_call", json!({"title": "T"}))],
        &[r#"tool:t ToolCall {"status":"completed","toolCallId":"t","title":"T"}"#],
    );
    check(
        &[
            approval(&json!({"toolCallId": "t", "status": "pending"})),
            tool("tool_call_update", json!({"status": "failed"})),
        ],
        &[
            r#"tool:t ToolCall {"toolCallId":"t","status":"failed"}"#,
            r#"approval:1 Approval {"toolCall":{"toolCallId":"t","status":"pending"},"options":[]}"#,
        ],
    );
    check(&[tool("tool_call", json!({}))], &[r#"tool:t ToolCall {"toolCallId":"t"}"#]);
}

#[test]
fn fields_that_are_absent_or_null_stay() {
    check(
        &[
            tool("tool_call", json!({"title": "T", "locations": [1, 2], "rawInput": {"a": 1, "b": 2}})),
            tool(
                "tool_call_update",
                json!({"title": null, "locations": [3], "rawInput": {"a": 4}, "x": false}),
            ),
        ],
        &[r#"tool:t ToolCall {"title":"T","locations":[3],"rawInput":{"a":4},"toolCallId":"t","x":false}"#],
    );
}

#[test]
fn meta_merges_one_level_deep() {
    check(
        &[
            tool("tool_call", json!({"_meta": {"claudeCode": {"toolName": "Bash", "r": {"a": 1}}, "k": 1}})),
            tool("tool_call_update", json!({"_meta": {"claudeCode": {"r": {"b": 2}}, "k": null, "l": 2}})),
            tool("tool_call_update", json!({"_meta": null})),
            tool("tool_call_update", json!({"_meta": "odd"})),
        ],
        &[
            r#"tool:t ToolCall {"_meta":{"claudeCode":{"toolName":"Bash","r":{"b":2}},"k":1,"l":2},"toolCallId":"t"}"#,
        ],
    );
}

#[test]
fn terminal_output_is_put_together() {
    let output = |data: Value| {
        tool("tool_call_update", json!({"_meta": {"terminal_output_delta": {"data": data, "id": 1}}}))
    };
    check(
        &[
            tool("tool_call", json!({})),
            output(json!("a\n")),
            output(json!("b")),
            output(json!(1)),
            output(json!("c")),
        ],
        &[r#"tool:t ToolCall {"toolCallId":"t","_meta":{"terminal_output_delta":{"data":"c","id":1}}}"#],
    );
    check(
        &[output(json!("a\n")), output(json!("b"))],
        &[r#"tool:t ToolCall {"_meta":{"terminal_output_delta":{"data":"a\nb","id":1}},"toolCallId":"t"}"#],
    );
}

#[test]
fn the_kind_follows_the_content() {
    let check = |contents: &[Value], expect: &str| {
        let lines = contents.iter().map(|content| tool("tool_call_update", json!({"content": content})));
        let projection = super::folded(&lines.collect::<Vec<_>>());
        assert_eq!(format!("{:?}", projection.snapshot().rows[0].kind), expect, "{contents:?}");
    };
    let (diff, text) = (json!([{"type": "content"}, {"type": "diff"}]), json!([{"type": "content"}]));
    check(&[diff.clone()], "ToolDiff");
    check(&[text.clone()], "ToolCall");
    check(&[text.clone(), diff.clone()], "ToolDiff");
    check(&[diff.clone(), text], "ToolCall");
    check(&[diff.clone(), Value::Null], "ToolDiff");
    check(&[diff, json!([])], "ToolCall");
    check(&[json!({"type": "diff"})], "ToolCall");
    check(&[json!("diff")], "ToolCall");
}

#[test]
fn a_status_opens_and_closes_a_call() {
    let check = |mentions: &[(&str, Value)], is_open: bool| {
        let line = |(kind, status): &(&str, Value)| match (*kind, status) {
            ("approval", Value::Null) => approval(&json!({"toolCallId": "t"})),
            ("approval", status) => approval(&json!({"toolCallId": "t", "status": status})),
            (kind, Value::Null) => tool(kind, json!({})),
            (kind, status) => tool(kind, json!({"status": status})),
        };
        let lines = mentions.iter().map(line).collect::<Vec<_>>();
        let expect = if is_open { json!(["t"]) } else { json!([]) };
        check_state(&lines, "/turn/active_tool_calls", expect);
    };
    let (call, change, ask, absent) = ("tool_call", "tool_call_update", "approval", Value::Null);
    check(&[(call, absent.clone())], true);
    check(&[(call, json!("pending"))], true);
    check(&[(call, json!("in_progress"))], true);
    check(&[(call, json!("completed"))], false);
    check(&[(call, json!("odd"))], false);
    check(&[(change, absent.clone())], false);
    check(&[(change, json!("odd"))], false);
    check(&[(change, json!("pending"))], true);
    check(&[(ask, absent.clone())], true);
    check(&[(ask, json!("odd"))], true);
    check(&[(ask, json!("failed"))], false);
    for end in ["completed", "failed", "cancelled"] {
        check(&[(call, absent.clone()), (change, json!(end))], false);
    }
    check(&[(call, absent.clone()), (change, absent.clone())], true);
    check(&[(call, absent.clone()), (change, json!("odd"))], true);
    check(&[(call, json!("completed")), (change, json!("in_progress"))], true);
}

fn three(then: &[&str]) -> Vec<String> {
    let call = |id: &str| update(json!({"sessionUpdate": "tool_call", "toolCallId": id}));
    let done = update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "b", "status": "completed"}));
    let mut lines = vec![STARTED.to_owned(), call("a"), call("b"), call("c"), done];
    lines.extend(then.iter().map(|line| (*line).to_owned()));
    lines
}

#[test]
fn calls_open_at_a_turns_end_or_a_load_are_settled() {
    check_state(&three(&[]), "/turn/active_tool_calls", json!(["a", "c"]));
    for end in [ENDED, LOADED, &LOADED.replace("loaded", "opened")] {
        check_state(&three(&[end]), "/turn/active_tool_calls", json!([]));
        check(
            &three(&[end]),
            &[
                r#"tool:a ToolCall {"toolCallId":"a","_meta":{"maestro":{"settled":"interrupted"}}}"#,
                r#"tool:b ToolCall {"toolCallId":"b","status":"completed"}"#,
                r#"tool:c ToolCall {"toolCallId":"c","_meta":{"maestro":{"settled":"interrupted"}}}"#,
            ],
        );
    }
    let mode = LOADED.replace("loaded", "mode_set");
    check_state(&three(&[&mode]), "/turn/active_tool_calls", json!(["a", "c"]));
}

#[test]
fn a_late_update_patches_a_settled_call() {
    let settled = |late: Value, expect: &str| {
        let lines = [tool("tool_call", json!({})), ENDED.to_owned(), tool("tool_call_update", late)];
        check(&lines, &[expect]);
    };
    settled(
        json!({"title": "late"}),
        r#"tool:t ToolCall {"toolCallId":"t","_meta":{"maestro":{"settled":"interrupted"}},"title":"late"}"#,
    );
    settled(
        json!({"status": "odd"}),
        r#"tool:t ToolCall {"toolCallId":"t","_meta":{"maestro":{"settled":"interrupted"}},"status":"odd"}"#,
    );
    settled(json!({"status": "completed"}), r#"tool:t ToolCall {"toolCallId":"t","status":"completed"}"#);
    settled(json!({"status": "in_progress"}), r#"tool:t ToolCall {"toolCallId":"t","status":"in_progress"}"#);
    settled(
        json!({"status": "failed", "_meta": {"k": 1, "maestro": {"settled": "x"}}}),
        r#"tool:t ToolCall {"toolCallId":"t","_meta":{"k":1},"status":"failed"}"#,
    );
}

#[test]
fn a_late_running_call_outlives_the_turn_and_is_settled_again() {
    let late = tool("tool_call_update", json!({"status": "in_progress"}));
    let lines = [STARTED.to_owned(), tool("tool_call", json!({})), ENDED.to_owned(), late, bare(AGENT, "x")];
    check_state(&lines, "/turn/active", json!(false));
    check_state(&lines, "/turn/active_tool_calls", json!(["t"]));
    check_state(
        &[&lines[..], &[STARTED.to_owned(), ENDED.to_owned()]].concat(),
        "/turn/active_tool_calls",
        json!([]),
    );
}

#[test]
fn an_approval_shows_the_request_and_its_outcome() {
    let ask = approval(&json!({"toolCallId": "t"}));
    let tool = r#"tool:t ToolCall {"toolCallId":"t"}"#;
    let open = r#"approval:1 Approval {"toolCall":{"toolCallId":"t"},"options":[]}"#;
    let settled = r#"approval:1 Approval {"toolCall":{"toolCallId":"t"},"options":[],"_meta":{"maestro":{"outcome":{"what":"selected","option_id":"o","when":"2026-12-01T00:00:03Z"}}}}"#;
    check(&[ask.as_str()], &[tool, open]);
    check(&[ask.as_str(), RESOLVED], &[tool, settled]);
    check(&[ask.as_str(), RESOLVED, &RESOLVED.replace("selected", "cancelled")], &[tool, settled]);
    check::<&str>(&[RESOLVED], &[]);
    check(&[RESOLVED, ask.as_str()], &[tool, open]);

    let unsettled = |lines: &[&str]| super::folded(lines).unsettled_approvals().len();
    assert_eq!(unsettled(&[&ask]), 1);
    assert_eq!(unsettled(&[&ask, &ask]), 1);
    assert_eq!(unsettled(&[&ask, RESOLVED]), 0);
}

#[test]
fn an_approval_line_with_another_kind_of_row_makes_none() {
    let line = |id: &str, kind: &str| {
        json!({"maestroEvent": "approval", "at": AT,
            "row": {"id": id, "kind": kind, "data": {"toolCall": {"toolCallId": "t"}}}})
        .to_string()
    };
    check::<String>(&[line("plan", "Approval"), line("approval:1", "Plan"), line("tool:t", "ToolCall")], &[]);
    assert_eq!(super::folded(&[line("plan", "Approval")]).unsettled_approvals(), []);
}

#[test]
fn a_request_that_names_no_call_is_only_an_approval() {
    for call in [json!(null), json!({}), json!({"toolCallId": 1}), json!({"toolCallId": ""}), json!("t")] {
        let expect = format!(r#"approval:1 Approval {{"toolCall":{call},"options":[]}}"#);
        check(&[approval(&call)], &[&expect]);
    }
}

#[test]
fn a_call_without_id_is_a_notice() {
    check(
        &[update(json!({"sessionUpdate": "tool_call", "title": "T", "toolCallId": 7}))],
        &[r#"notice:1 Notice {"sessionUpdate":"tool_call","title":"T","toolCallId":7}"#],
    );
}
