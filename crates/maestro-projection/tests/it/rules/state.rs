use super::{check, check_state, update};
use serde_json::{Value, json};

#[test]
fn state_kinds_make_no_row() {
    for kind in [
        "usage_update",
        "current_mode_update",
        "config_option_update",
        "available_commands_update",
        "session_info_update",
    ] {
        check::<String>(&[update(json!({"sessionUpdate": kind}))], &[]);
    }
}

#[test]
fn usage_ignores_what_is_no_count() {
    let usage = |used: Value, size: Value| {
        update(json!({"sessionUpdate": "usage_update", "used": used, "size": size}))
    };
    let check = |lines: &[String], expect: Value| check_state(lines, "/context", expect);
    check(&[usage(json!(5), json!(10))], json!({"used": 5, "size": 10}));
    check(&[usage(json!(5), json!(null))], json!(null));
    check(&[usage(json!(5), json!(10)), usage(json!(6), json!(null))], json!({"used": 6, "size": 10}));
    for odd in [
        json!(1.5),
        json!(2.0),
        json!("7"),
        json!(-1),
        json!(u64::MAX),
        json!(1_u64 << 53),
        json!([]),
        json!({}),
    ] {
        check(&[usage(json!(5), json!(10)), usage(odd.clone(), odd)], json!({"used": 5, "size": 10}));
    }
    check(
        &[usage(json!((1_u64 << 53) - 1), json!(0))],
        json!({"used": 9_007_199_254_740_991_u64, "size": 0}),
    );
}

#[test]
fn cost_needs_an_amount_and_a_currency() {
    let cost = |cost: Value| update(json!({"sessionUpdate": "usage_update", "cost": cost}));
    let check = |lines: &[String], expect: Value| check_state(lines, "/usage/cost", expect);
    check(&[cost(json!({"amount": 0.5, "currency": "USD"}))], json!({"amount": 0.5, "currency": "USD"}));
    check(&[cost(json!({"amount": 2, "currency": "EUR"}))], json!({"amount": 2.0, "currency": "EUR"}));
    for odd in [json!(null), json!({"amount": "1", "currency": "USD"}), json!({"amount": 1}), json!(3)] {
        check(
            &[cost(json!({"amount": 0.5, "currency": "USD"})), cost(odd)],
            json!({"amount": 0.5, "currency": "USD"}),
        );
    }
}

fn session(fields: Value) -> String {
    let mut line =
        json!({"maestroEvent": "session", "event": "opened", "acp_session_id": "s", "at": super::AT});
    line.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    line.to_string()
}

fn options(category: &str, current: &str) -> Value {
    json!([{"id": "o", "category": category, "type": "select", "currentValue": current,
        "options": [{"value": current}]}])
}

#[test]
fn a_mode_comes_from_handshake_option_and_update() {
    let check = |lines: &[String], expect: Value| check_state(lines, "/mode", expect);
    let opened = session(json!({"modes": {"currentModeId": "a", "availableModes": [{"id": "a"}]}}));
    let changed = |id: Value| update(json!({"sessionUpdate": "current_mode_update", "currentModeId": id}));
    let option =
        update(json!({"sessionUpdate": "config_option_update", "configOptions": options("mode", "b")}));
    check(&[], json!(null));
    check(&[opened.clone()], json!({"current": "a", "available": [{"id": "a"}]}));
    check(&[changed(json!("c"))], json!({"current": "c", "available": null}));
    check(&[opened.clone(), changed(json!("c"))], json!({"current": "c", "available": [{"id": "a"}]}));
    check(&[opened.clone(), changed(json!(null))], json!({"current": "a", "available": [{"id": "a"}]}));
    check(&[option.clone()], json!({"current": "b", "available": [{"value": "b"}]}));
    check(&[opened.clone(), option.clone()], json!({"current": "b", "available": [{"id": "a"}]}));
    check(&[option, opened.clone()], json!({"current": "a", "available": [{"id": "a"}]}));
    let set = session(json!({"event": "mode_set", "mode_id": "d"}));
    check(&[opened, set], json!({"current": "d", "available": [{"id": "a"}]}));
}

#[test]
fn a_model_comes_from_handshake_and_option() {
    let check = |lines: &[String], expect: Value| check_state(lines, "/model", expect);
    let opened = session(json!({"models": {"currentModelId": "a", "availableModels": [1]}}));
    check(&[opened], json!({"current": "a", "available": [1]}));
    let by_options = session(json!({"config_options": options("model", "b")}));
    check(&[by_options.clone()], json!({"current": "b", "available": [{"value": "b"}]}));
    let flag = json!([{"category": "model", "type": "boolean", "currentValue": "x"}]);
    let flag = update(json!({"sessionUpdate": "config_option_update", "configOptions": flag}));
    check(&[by_options, flag], json!({"current": "b", "available": [{"value": "b"}]}));
}

#[test]
fn an_accepted_model_or_option_is_in_force() {
    let opened = session(
        json!({"models": {"currentModelId": "a", "availableModels": [1]}, "config_options": options("other", "x")}),
    );
    let model = session(json!({"event": "model_set", "model_id": "b"}));
    check_state(&[opened.clone(), model], "/model", json!({"current": "b", "available": [1]}));
    let set = |config_id: &str, fields: Value| {
        let mut line = json!({"event": "config_set", "config_id": config_id, "value": "y"});
        line.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        session(line)
    };
    let check = |line: String, expect: Value| {
        check_state(&[opened.clone(), line], "/config_options/0/currentValue", expect);
    };
    check(set("o", json!({"config_options": options("other", "y")})), json!("y"));
    check(set("o", json!({})), json!("y"));
    check(set("unknown", json!({})), json!("x"));
    let by_option = [session(json!({"config_options": options("model", "b")})), set("o", json!({}))];
    check_state(&by_option, "/model/current", json!("y"));
}

#[test]
fn what_people_chose_is_known_to_the_fold() {
    let check = |lines: &[String], model: Option<&str>, options: &[(&str, &str)]| {
        let folded = super::folded(lines);
        let chosen = folded.chosen();
        let told: Vec<_> =
            chosen.options.iter().map(|(id, value)| (id.as_str(), value.to_string())).collect();
        let expect: Vec<_> = options.iter().map(|(id, value)| (*id, (*value).to_owned())).collect();
        assert_eq!((chosen.model.as_deref(), told), (model, expect));
    };
    let opened = session(json!({"models": {"currentModelId": "a"}, "config_options": [
        {"id": "m", "category": "mode", "type": "select"}, {"id": "llm", "category": "model", "type": "select"},
        {"id": "fast", "type": "boolean"}]}));
    let model = |id: &str| session(json!({"event": "model_set", "model_id": id}));
    let set =
        |id: &str, value: Value| session(json!({"event": "config_set", "config_id": id, "value": value}));
    check(&[opened.clone()], None, &[]);
    check(&[opened.clone(), model("b"), model("c")], Some("c"), &[]);
    check(
        &[opened.clone(), set("fast", json!(true)), set("odd", json!("x"))],
        None,
        &[("fast", "true"), ("odd", "x")],
    );
    // What the agent changed by itself, and the mode, nobody chose for the next process.
    check(&[opened.clone(), set("m", json!("plan")), set("llm", json!("d"))], Some("d"), &[]);
    let by_itself =
        update(json!({"sessionUpdate": "config_option_update", "configOptions": options("model", "z")}));
    check(&[opened, model("b"), by_itself], Some("b"), &[]);
}

#[test]
fn config_options_are_kept_verbatim() {
    let line =
        |options: Value| update(json!({"sessionUpdate": "config_option_update", "configOptions": options}));
    check_state(&[line(options("other", "x"))], "/config_options", options("other", "x"));
    check_state(&[line(options("other", "x")), line(json!(null))], "/config_options", options("other", "x"));
    check_state(&[line(options("other", "x")), line(json!([]))], "/config_options", json!([]));
}

fn commands(commands: Vec<Value>) -> String {
    update(json!({"sessionUpdate": "available_commands_update", "availableCommands": commands}))
}

#[test]
fn commands_are_read_as_they_come() {
    check_state(
        &[commands(vec![
            json!({"name": "a", "description": "d", "input": {"hint": "h"}}),
            json!({"name": "b", "description": null, "input": null, "_meta": {"skill": "long"}}),
            json!({"description": "no name"}),
            json!("odd"),
        ])],
        "/commands",
        json!([{"name": "a", "description": "d", "hint": "h"}, {"name": "b", "description": "", "hint": null}]),
    );
    check_state(&[commands(vec![])], "/commands", json!([]));
}

#[test]
fn commands_are_capped_in_number_and_bytes() {
    let count = |commands_sent: Vec<Value>| {
        super::folded(&[commands(commands_sent)]).state().commands.map(|commands| commands.len())
    };
    let small = |n: usize| vec![json!({"name": "a", "description": ""}); n];
    assert_eq!(count(small(512)), Some(512));
    assert_eq!(count(small(513)), Some(512));
    let large = |n: usize, bytes: usize| {
        vec![json!({"name": "n", "description": "d".repeat(bytes - 2), "input": {"hint": "h"}}); n]
    };
    assert_eq!(count(large(64, 1024)), Some(64));
    assert_eq!(count(large(65, 1024)), Some(64));
    assert_eq!(count(large(1, 64 * 1024)), Some(1));
    assert_eq!(count(large(1, 64 * 1024 + 1)), Some(0));
}

#[test]
fn the_newest_plan_replaces_the_plan_and_its_row() {
    let plan = |entries: Value| {
        update(json!({"sessionUpdate": "plan", "entries": entries, "_meta": {"maestro": 1}}))
    };
    let lines = [plan(json!([{"content": "a"}])), plan(json!([{"content": "b"}]))];
    check(&lines, &[r#"plan Plan {"entries":[{"content":"b"}],"_meta":{}}"#]);
    check_state(&lines, "/plan", json!({"entries": [{"content": "b"}], "_meta": {}}));
    check(
        &[update(json!({"sessionUpdate": "plan_removed", "planId": "x"}))],
        &[r#"notice:1 Notice {"sessionUpdate":"plan_removed","planId":"x"}"#],
    );
}
