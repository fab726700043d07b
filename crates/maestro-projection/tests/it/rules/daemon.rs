use super::{
    AGENT, AT, CLOCK, ENDED, STARTED, THOUGHT, USER, bare, check, check_state, chunk, folded, tool, update,
};
use maestro_protocol::{Origin, RowId};
use serde_json::json;

#[test]
fn a_turn_begins_and_ends_where_its_lines_stand() {
    check_state(
        &[CLOCK, STARTED],
        "/turn",
        json!({"active": true, "origin": "person", "responding": false, "thinking": false,
            "active_tool_calls": [], "turn_id": "turn:2", "started_at": AT, "last_end": null}),
    );
    check_state(
        &[CLOCK, STARTED, ENDED],
        "/turn",
        json!({"active": false, "origin": null, "responding": false, "thinking": false,
            "active_tool_calls": [], "turn_id": null, "started_at": null,
            "last_end": {"turn_id": "turn:2", "reason": "end_turn", "error": null, "at": "2026-12-01T00:00:01Z"}}),
    );
    check_state(&[STARTED, ENDED, STARTED], "/turn/last_end/turn_id", json!("turn:1"));
    check_state(&[STARTED, STARTED], "/turn/turn_id", json!("turn:2"));
    check_state(&[ENDED], "/turn/last_end/turn_id", json!(null));
    let failed = r#"{"maestroEvent":"turn","phase":"ended","origin":"person","reason":"error","error":{"code":-32000,"message":"m"},"at":"2026-12-01T00:00:01Z"}"#;
    check_state(&[STARTED, failed], "/turn/last_end/error", json!({"code": -32000, "message": "m"}));
    assert_eq!(folded(&[STARTED]).open_turn(), Some(Origin::Person));
    assert_eq!(folded(&[STARTED.replace("person", "agent")]).open_turn(), Some(Origin::Agent));
    assert_eq!(folded(&[STARTED, ENDED]).open_turn(), None);
}

#[test]
fn a_prompt_settles_its_queue_item_and_its_request_once_its_line_is_there() {
    let id = |n: u32| format!("00000000-0000-4000-8000-00000000000{n}");
    let started = |n: u32, more: &str| {
        let named = format!(r#""message_id":"p{n}","queue_item":"{}"{more}"#, id(n));
        STARTED.replace(r#""message_id":"p""#, &named)
    };
    let prompt = |n: u32| chunk(USER, &format!("p{n}"), "text");
    let check = |lines: &[String], sent: Option<u32>, keys: &[&str]| {
        let projection = folded(lines);
        let fold = projection.fold();
        assert_eq!(fold.sent_item().map(|item| item.to_string()), sent.map(id));
        assert_eq!(fold.requests().map(|(request, _)| request.key.as_str()).collect::<Vec<_>>(), keys);
    };
    let key = r#","request":{"key":"k","body":"b"}"#;
    check(&[started(1, key)], None, &[]);
    check(&[started(1, key), prompt(2)], None, &[]);
    check(&[started(1, key), prompt(1)], Some(1), &["k"]);
    check(&[started(1, key), prompt(1), prompt(1)], Some(1), &["k"]);
    check(&[started(1, key), ENDED.to_owned(), prompt(1)], None, &[]);
    check(&[started(1, ""), prompt(1), ENDED.to_owned(), started(2, ""), prompt(2)], Some(2), &[]);
    check(&[started(1, ""), prompt(1), ENDED.to_owned(), started(2, "")], Some(1), &[]);
    check(&[started(1, ""), prompt(1), STARTED.to_owned(), chunk(USER, "p", "text")], Some(1), &[]);
    let many: Vec<String> =
        (0..100).flat_map(|n| [started(1, &key.replace("\"k\"", &format!("\"{n}\""))), prompt(1)]).collect();
    let newest: Vec<String> = (84..100).map(|n| n.to_string()).collect();
    check(&many, Some(1), &newest.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn the_indicators_show_the_newest_thing_of_the_turn() {
    let check = |lines: &[String], responding: bool, thinking: bool| {
        let lines = [&[STARTED.to_owned()], lines].concat();
        check_state(&lines, "/turn/responding", json!(responding));
        check_state(&lines, "/turn/thinking", json!(thinking));
    };
    check(&[bare(AGENT, "a")], true, false);
    check(&[bare(AGENT, "a"), bare(THOUGHT, "a")], false, true);
    check(&[bare(THOUGHT, "a"), chunk(AGENT, "m", "a")], true, false);
    check(&[bare(AGENT, "a"), tool("tool_call", json!({}))], false, false);
    check(&[bare(AGENT, "a"), tool("tool_call_update", json!({}))], false, false);
    check(&[bare(THOUGHT, "a"), update(json!({"sessionUpdate": "plan", "entries": []}))], false, false);
    check(&[bare(AGENT, "a"), update(json!({"sessionUpdate": "usage_update", "used": 1}))], true, false);
    check(&[bare(AGENT, "a"), bare(THOUGHT, "")], true, false);
    check(&[bare(AGENT, "a"), ENDED.to_owned()], false, false);
    check(&[bare(AGENT, "a"), ENDED.to_owned(), bare(AGENT, "b")], false, false);
}

#[test]
fn the_usage_of_a_turn_is_kept_verbatim() {
    let ended = |usage: &str| ENDED.replace("\"at\"", &format!("\"usage\":{usage},\"at\""));
    check_state(&[ended(r#"{"usage":{"n":1.5}}"#)], "/usage/last_turn", json!({"usage": {"n": 1.5}}));
    check_state(&[ended("{\"quota\":1}"), ENDED.to_owned()], "/usage/last_turn", json!({"quota": 1}));
    check_state(&[ended("null")], "/usage", json!(null));
}

#[test]
fn a_title_is_the_rename_or_the_agents_or_the_first_prompts() {
    let prompt = |text: &str| chunk(USER, "p", text);
    let renamed = |name: &str| json!({"maestroEvent": "summary", "summary": name, "at": AT}).to_string();
    let agent =
        |title: serde_json::Value| update(json!({"sessionUpdate": "session_info_update", "title": title}));
    let check = |lines: &[String], title: serde_json::Value| check_state(lines, "/title", title);
    let started = STARTED.to_owned();
    check(&[], json!(null));
    check(&[prompt("a")], json!(null));
    check(&[started.replace("person", "agent"), prompt("a")], json!(null));
    check(&[started.clone(), prompt(" fix\n\tthe  bug ")], json!("fix the bug"));
    check(&[started.clone(), prompt("a"), started.clone(), prompt("b")], json!("a"));
    check(&[agent(json!("A")), started.clone(), prompt("a")], json!("A"));
    check(&[agent(json!("A")), renamed("mine"), agent(json!("B"))], json!("mine"));
    check(&[agent(json!("A")), renamed("mine"), renamed("")], json!("A"));
    check(&[started.clone(), prompt("a"), agent(json!("A")), agent(json!(null))], json!("a"));
    check(
        &[agent(json!("A")), update(json!({"sessionUpdate": "session_info_update", "updatedAt": "x"}))],
        json!("A"),
    );
    check(&[agent(json!("A")), agent(json!(7))], json!("A"));
}

#[test]
fn only_a_persons_prompt_counts_as_one() {
    let has = |lines: &[&str]| folded(lines).has_prompt();
    let prompt = chunk(USER, "p", "a");
    assert!(has(&[STARTED, &prompt]));
    assert!(!has(&[STARTED]));
    assert!(!has(&[&prompt]));
    assert!(!has(&[STARTED, &chunk(USER, "q", "a")]));
    assert!(!has(&[&STARTED.replace("person", "agent"), &prompt]));
}

#[test]
fn a_prompt_that_failed_before_anything_came_of_it_was_not_kept() {
    let has = |lines: &[&str]| folded(lines).has_prompt();
    let prompt = chunk(USER, "p", "a");
    let failed = r#"{"maestroEvent":"turn","phase":"ended","origin":"person","reason":"error","error":{"code":-32000},"at":"2026-01-01T00:00:00Z"}"#;
    let ended = r#"{"maestroEvent":"turn","phase":"ended","origin":"person","reason":"interrupted","at":"2026-01-01T00:00:00Z"}"#;
    assert!(!has(&[STARTED, &prompt, failed]));
    assert!(!has(&[STARTED, &prompt, failed, STARTED, &prompt, failed]));
    assert!(has(&[STARTED, &prompt, ended]), "an agent that was cut short may have kept it");
    assert!(has(&[STARTED, &prompt, &chunk(AGENT, "m", "yes"), failed]));
    assert!(has(&[STARTED, &prompt, failed, STARTED, &prompt]));
    assert!(has(&[STARTED, &prompt, ended, STARTED, &prompt, failed]), "the first one was kept");
}

#[test]
fn a_notice_line_is_a_notice() {
    check(
        &[
            r#"{"maestroEvent":"notice","reason":"too_long","text":"x","bytes":9000000}"#,
            r#"{"maestroEvent":"notice","reason":"mode_refused","text":"no","later":1}"#,
            r#"{"maestroEvent":"notice","reason":"later reason","text":"no"}"#,
        ],
        &[
            r#"notice:1 Notice {"reason":"too_long","text":"x","bytes":9000000}"#,
            r#"notice:2 Notice {"reason":"mode_refused","text":"no"}"#,
        ],
    );
}

#[test]
fn every_time_in_the_log_moves_the_clock_of_the_rows() {
    let times = |lines: &[&str], id: &str| {
        let times = folded(lines).times();
        times.get(&RowId::from(id.to_owned())).map(|times| times.0.map(|time| time.to_string()))
    };
    let (first, second) = (bare(AGENT, "a"), bare(AGENT, "b"));
    let at = |seconds: u8| format!("2026-12-01T00:00:0{seconds}Z");
    let later_kind = r#"{"maestroEvent":"later kind","at":"2026-12-01T00:00:07Z"}"#;
    assert_eq!(times(&[&first], "agent:1"), None);
    assert_eq!(times(&[CLOCK, &first], "agent:2"), Some([at(5), at(5)]));
    assert_eq!(times(&[CLOCK, &first, later_kind, &second], "agent:2"), Some([at(5), at(7)]));
    assert_eq!(
        times(&[CLOCK, &first, &CLOCK.replace(":05Z", ":02Z"), &second], "agent:2"),
        Some([at(5), at(2)])
    );
    assert_eq!(times(&[&first, CLOCK, &second], "agent:1"), Some([at(5), at(5)]));
    let ask = super::approval(&json!({}));
    assert_eq!(times(&[CLOCK, &ask], "approval:1"), Some([at(0), at(0)]));
    assert_eq!(folded(&[CLOCK, "junk"]).last_time().map(|time| time.to_string()), Some(at(5)));
}
