//! Random logs: mostly well-formed lines about few ids, so that they meet, with hostile ones between.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

pub(crate) type Lines = Vec<Vec<u8>>;

pub(crate) fn log() -> impl Strategy<Value = Lines> {
    vec(line(), 0..48)
}

fn line() -> impl Strategy<Value = Vec<u8>> {
    let bytes = |value: BoxedStrategy<Value>| value.prop_map(|value| value.to_string().into_bytes());
    prop_oneof![
        10 => bytes(update().boxed()),
        6 => bytes(envelope().boxed()),
        1 => hostile(),
        1 => vec(any::<u8>(), 0..40),
    ]
}

fn update() -> impl Strategy<Value = Value> {
    let update = prop_oneof![6 => chunk(), 5 => tool(), 2 => state_update(), 1 => other_update()];
    (update, 0..8_u8).prop_map(|(update, form)| match form {
        0 => json!({"jsonrpc": "2.0", "method": "session/update", "params": {"update": update}}),
        _ => json!({"sessionId": "s", "update": update}),
    })
}

fn text() -> impl Strategy<Value = &'static str> {
    select(vec!["", "a", "word ", "\u{1F980}", "e\u{301}", "line\n", "p1", "\u{0}\u{202E}"])
}

fn block() -> impl Strategy<Value = Value> {
    prop_oneof![
        6 => text().prop_map(|text| json!({"type": "text", "text": text})),
        1 => Just(json!({"type": "image", "data": "AA==", "mimeType": "image/png"})),
        1 => select(vec![json!(null), json!("text"), json!({"type": "text"}), json!({"text": "x"}), json!([])]),
    ]
}

fn meta() -> impl Strategy<Value = Option<Value>> {
    select(vec![
        None,
        None,
        None,
        Some(json!({"maestro": {"settled": "forged", "outcome": 1, "blocks": ["x"]}})),
        Some(json!({"claudeCode": {"toolName": "Bash"}})),
        Some(json!({"claudeCode": {"parentToolUseId": "t1"}, "maestro": "x"})),
        Some(json!({"terminal_output_delta": {"data": "out", "terminal_id": "1"}})),
        Some(json!({"parentToolCallId": "t2", "source": null})),
        Some(json!("x")),
        Some(json!({})),
        Some(json!(null)),
    ])
}

fn with(mut object: Value, key: &str, value: Option<Value>) -> Value {
    if let (Some(value), Value::Object(object)) = (value, &mut object) {
        object.insert(key.into(), value);
    }
    object
}

fn chunk() -> BoxedStrategy<Value> {
    let kind = select(vec!["agent_message_chunk", "agent_thought_chunk", "user_message_chunk"]);
    let id = select(vec![
        None,
        None,
        Some(json!("m1")),
        Some(json!("m2")),
        Some(json!("p")),
        Some(json!("3")),
        Some(json!("")),
        Some(json!(5)),
    ]);
    (kind, block(), id, meta())
        .prop_map(|(kind, block, id, meta)| {
            let chunk = json!({"sessionUpdate": kind, "content": block});
            // No agent knows the id that the daemon mints for a prompt before the prompt's own line.
            let meta = meta.filter(|_| id != Some(json!("p")));
            with(with(chunk, "messageId", id), "_meta", meta)
        })
        .boxed()
}

fn patch() -> impl Strategy<Value = Value> {
    let status = select(vec![
        None,
        Some(json!("pending")),
        Some(json!("in_progress")),
        Some(json!("completed")),
        Some(json!("failed")),
        Some(json!("cancelled")),
        Some(json!("odd")),
        Some(json!(null)),
        Some(json!(1)),
    ]);
    let content = select(vec![
        None,
        Some(json!([{"type": "diff", "path": "/a", "newText": "b"}])),
        Some(json!([{"type": "content", "content": {"type": "text", "text": "t"}}])),
        Some(json!([])),
        Some(json!("odd")),
        Some(json!(null)),
    ]);
    let id = select(vec![json!("t1"), json!("t2"), json!("t3"), json!(null), json!(""), json!(7)]);
    (id, status, content, meta()).prop_map(|(id, status, content, meta)| {
        let patch = with(json!({"toolCallId": id}), "status", status);
        with(with(patch, "content", content), "_meta", meta)
    })
}

fn tool() -> BoxedStrategy<Value> {
    (select(vec!["tool_call", "tool_call_update"]), patch())
        .prop_map(|(kind, patch)| with(patch, "sessionUpdate", Some(json!(kind))))
        .boxed()
}

fn state_update() -> BoxedStrategy<Value> {
    let numbers = select(vec![json!(1), json!(2.5), json!(null), json!("3"), json!(u64::MAX), json!(-1)]);
    let ids = select(vec![json!("a"), json!("b"), json!(null), json!(1)]);
    prop_oneof![
        (numbers.clone(), numbers.clone()).prop_map(|(used, size)| json!({
            "sessionUpdate": "usage_update", "used": used, "size": size,
            "cost": {"amount": used, "currency": "USD"}})),
        ids.clone().prop_map(|id| json!({"sessionUpdate": "current_mode_update", "currentModeId": id})),
        options().prop_map(|options| json!({
            "sessionUpdate": "config_option_update", "configOptions": options})),
        ids.clone().prop_map(|name| json!({
            "sessionUpdate": "available_commands_update",
            "availableCommands": [{"name": name, "description": "d", "input": {"hint": name}}]})),
        ids.prop_map(|title| json!({"sessionUpdate": "session_info_update", "title": title})),
    ]
    .boxed()
}

fn options() -> BoxedStrategy<Value> {
    let option =
        (select(vec!["mode", "model", "other"]), select(vec!["a", "b"])).prop_map(|(category, current)| {
            json!({"id": category, "category": category, "type": "select", "currentValue": current,
            "options": [{"value": current}]})
        });
    prop_oneof![5 => vec(option, 0..3).prop_map(Value::from), 1 => Just(json!(null)), 1 => Just(json!("x"))]
        .boxed()
}

fn other_update() -> BoxedStrategy<Value> {
    prop_oneof![
        (select(vec![json!([]), json!([{"content": "a"}])]), meta()).prop_map(|(entries, meta)| with(
            json!({"sessionUpdate": "plan", "entries": entries}),
            "_meta",
            meta
        )),
        meta().prop_map(|meta| with(
            json!({"sessionUpdate": "plan_update", "maestroEvent": "turn"}),
            "_meta",
            meta
        )),
        json_value().prop_map(|value| json!({"sessionUpdate": value})),
        json_value().prop_map(|value| with(json!({}), "x", Some(value))),
    ]
    .boxed()
}

fn at() -> impl Strategy<Value = Value> {
    (0..9_u8).prop_map(|second| json!(format!("2026-12-01T00:00:0{second}Z")))
}

fn envelope() -> impl Strategy<Value = Value> {
    let row_id = select(vec!["approval:1", "approval:2", "tool:t1", "plan"]);
    let kind = select(vec!["Approval", "Approval", "Approval", "Notice", "Odd"]);
    let approval = (row_id.clone(), kind, patch(), at(), meta()).prop_map(|(id, kind, call, at, meta)| {
        let data = with(json!({"toolCall": call, "options": []}), "_meta", meta);
        json!({"maestroEvent": "approval", "row": {"id": id, "kind": kind, "data": data}, "at": at})
    });
    let resolved = (row_id, at()).prop_map(|(id, at)| {
        json!({"maestroEvent": "approval_resolved", "row_id": id,
            "outcome": {"what": "cancelled", "because": "denied", "when": at}})
    });
    let item = select(vec![None, Some(json!("0e4c1f6e-3f0a-4f6e-9d55-0d3f4bb1a001"))]);
    let request = select(vec![None, Some(json!({"key": "k", "body": "b"}))]);
    let id = select(vec![None, Some(json!("p"))]);
    let started = (select(vec!["person", "agent"]), id, item, request, at()).prop_map(
        |(origin, id, item, request, at)| {
            let line = json!({"maestroEvent": "turn", "phase": "started", "origin": origin, "at": at});
            with(with(with(line, "message_id", id), "queue_item", item), "request", request)
        },
    );
    let ended = (select(vec![None, Some(json!({"usage": {"n": 1}}))]), at()).prop_map(|(usage, at)| {
        let line = json!({"maestroEvent": "turn", "phase": "ended", "origin": "agent", "reason": "end_turn",
            "at": at});
        with(line, "usage", usage)
    });
    let prompt = text().prop_map(|text| {
        json!({"update": {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": text},
            "messageId": "p", "_meta": {"maestro": {"blocks": [{"type": "text", "text": "p1"}]}}}})
    });
    let events = select(vec!["opened", "loaded", "mode_set", "model_set", "config_set"]);
    let session = (events, select(vec!["mode", "model", "other"]), select(vec!["a", "b"]), options(), at())
        .prop_map(|(event, option, id, options, at)| {
            json!({"maestroEvent": "session", "event": event, "acp_session_id": "s", "mode_id": id,
                "model_id": id, "config_id": option, "value": id,
                "modes": {"currentModeId": id, "availableModes": [id]},
                "models": {"currentModelId": id}, "config_options": options, "at": at})
        });
    prop_oneof![
        3 => approval,
        2 => resolved,
        3 => started,
        3 => ended,
        3 => prompt,
        1 => session,
        1 => at().prop_map(|at| json!({"maestroEvent": "clock", "at": at})),
        1 => (select(vec!["", "name"]), at())
            .prop_map(|(summary, at)| json!({"maestroEvent": "summary", "summary": summary, "at": at})),
        1 => Just(json!({"maestroEvent": "notice", "reason": "too_long", "text": "x", "bytes": 9})),
        1 => (json_value(), at()).prop_map(|(kind, at)| json!({"maestroEvent": kind, "at": at})),
    ]
}

fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let deep = |depth: usize| format!(r#"{{"update":{{"x":{}1{}}}}}"#, "[".repeat(depth), "]".repeat(depth));
    let texts = vec![
        String::new(),
        "{}".into(),
        "[]".into(),
        "null".into(),
        r#"{"update":1,"update":{"sessionUpdate":"plan","entries":[]}}"#.into(),
        r#"{"update":{"sessionUpdate":"plan"},"update":2}"#.into(),
        r#"{"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"\ud800"}}}"#
            .into(),
        r#"{"maestro\u0045vent":"turn","phase":"started","origin":"agent","at":"2026-12-01T00:00:00Z"}"#
            .into(),
        r#"{"maestroEvent":"turn","update":{"sessionUpdate":"plan"}}"#.into(),
        deep(120),
        deep(126),
        deep(134),
        deep(5000),
        format!("{}{}", "[".repeat(100_000), "]".repeat(100_000)),
    ];
    select(texts).prop_map(String::into_bytes)
}

pub(crate) fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        select(vec!["maestroEvent", "update", "plan", "tool_call", "text", "", "\u{1F980}"])
            .prop_map(Value::from),
        ".{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let keys = select(vec![
            "maestroEvent",
            "update",
            "params",
            "sessionUpdate",
            "content",
            "type",
            "text",
            "_meta",
            "maestro",
            "toolCallId",
            "status",
            "row",
            "id",
            "kind",
            "data",
            "at",
            "messageId",
        ]);
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((keys, inner), 0..5).prop_map(|pairs| {
                Value::Object(pairs.into_iter().map(|(k, v)| (k.to_owned(), v)).collect::<Map<_, _>>())
            }),
        ]
    })
}
