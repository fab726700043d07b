//! What is refused, and in which words. A refused request creates and changes nothing.

use super::{Answer, Api, request};
use axum::body::Body;
use http::{HeaderValue, Method, header};
use serde_json::{Value, json};

/// The refusals of a route, one per body, as people read them.
struct Refusals<'a> {
    api: &'a Api,
    seen: Vec<Value>,
}

impl<'a> Refusals<'a> {
    fn of(api: &'a Api) -> Self {
        Self { api, seen: Vec::new() }
    }

    async fn add(&mut self, method: Method, path: &str, body: impl Into<String>) {
        let body = body.into();
        let answer = self.api.send(method, path, body.clone()).await;
        self.note(&body, &answer);
    }

    fn note(&mut self, what: &str, answer: &Answer) {
        let problem = answer.problem();
        let what: String = what.chars().take(100).collect();
        self.seen.push(json!({
            "given": what,
            "refusal": answer.refusal(),
            "detail": problem.detail,
        }));
    }
}

#[tokio::test]
async fn creating() {
    let api = Api::start();
    let mut refusals = Refusals::of(&api);
    let long = "x".repeat(201);
    let with = |field: &str, value: Value| json!({"view": "Structured", field: value}).to_string();
    let bodies = [
        "{".into(),
        "[1]".into(),
        r#"["Structured"]"#.into(),
        "null".into(),
        r#"{"view": "Structured"} x"#.into(),
        "\u{feff}{}".into(),
        String::new(),
        r#"{"view": 1}"#.into(),
        r#"{"view": "Terminal"}"#.into(),
        r#"{"view": "Other"}"#.into(),
        r#"{"view": "Structured", "view": "Structured"}"#.into(),
        with("worktree", json!(true)),
        with("commander", json!("x")),
        with("prompt", json!("hello")),
        with("prompt", json!({})),
        with("prompt", json!({"text": " "})),
        with("prompt", json!({"content": ["x"]})),
        with("prompt", json!({"text": "x", "mode": "plan"})),
        with("trust", json!(null)),
        with("colour", json!("red")),
        with("\u{1b}[2J", json!(1)),
        with("agent", json!("nobody")),
        with("agent", json!("No Key")),
        with("agent", json!(["claude-code-acp"])),
        with("cwd", json!("relative")),
        with("cwd", json!("")),
        with("cwd", json!("/a\0b")),
        with("cwd", json!(super::NOWHERE)),
        with("cwd", json!("/etc/passwd")),
        with("cwd", json!(7)),
        with("title", json!(long)),
        with("title", json!("two\nlines")),
        with("title", json!("two\u{2028}lines")),
        with("title", json!("a\u{1b}[2J")),
        with("mode", json!("")),
        with("mode", json!(long)),
        with("model", json!("")),
        with("model", json!("a\tb")),
        with("env", json!({"": "x"})),
        with("env", json!({"A=B": "x"})),
        with("env", json!({"A\u{0}": "x"})),
        with("env", json!({"A": "x\u{0}"})),
        with("env", json!({"A": 1})),
        with("env", json!({"MAESTRO_SESSION": "x"})),
        with("env", json!("PATH=/bin")),
        format!("{}{}", "[".repeat(65), "]".repeat(65)),
    ];
    for body in bodies {
        refusals.add(Method::POST, "/api/sessions", body).await;
    }
    insta::assert_json_snapshot!(refusals.seen);
    assert_eq!(api.count().await, 0, "nothing was created");
}

#[tokio::test]
async fn renaming() {
    let api = Api::start();
    let path = format!("/api/sessions/{}", api.session().await.id);
    let mut refusals = Refusals::of(&api);
    let long = json!({"title": "ü".repeat(201)}).to_string();
    for body in
        ["", "{}", r#"{"title": null}"#, r#"{"title": "a\tb"}"#, r#"{"title": "a", "name": "b"}"#, &long]
    {
        refusals.add(Method::PATCH, &path, body).await;
    }
    insta::assert_json_snapshot!(refusals.seen);
    assert_eq!(api.send(Method::GET, &path, "").await.json()["title"], "");
    let just_fits = json!({"title": "ü".repeat(200)}).to_string();
    assert_eq!(api.send(Method::PATCH, &path, just_fits).await.status, 200);
}

#[tokio::test]
async fn queueing() {
    let api = Api::start();
    let path = format!("/api/sessions/{}/queue", api.session().await.id);
    let added = api.send(Method::POST, &path, r#"{"text": "x"}"#).await.json();
    let item = format!("{path}/{}", added["id"].as_str().expect("an id"));
    let nowhere = format!("{path}/0e4c1f6e-3f0a-4f6e-9d55-0d3f4bb1a001");
    let mut refusals = Refusals::of(&api);
    for body in ["", r#"{"text": ""}"#, r#"{"content": []}"#, r#"{"text": "x", "position": 0}"#] {
        refusals.add(Method::POST, &path, body.to_owned()).await;
    }
    for body in [
        "",
        r#"{"position": -1}"#,
        r#"{"position": 1.5}"#,
        r#"{"position": "first"}"#,
        r#"{"text": " ", "position": 0}"#,
        r#"{"text": "x", "content": []}"#,
        r#"{"by": {}}"#,
    ] {
        refusals.add(Method::PATCH, &item, body.to_owned()).await;
    }
    refusals.add(Method::PATCH, &nowhere, r#"{"text": "x"}"#.to_owned()).await;
    refusals.add(Method::PATCH, &format!("{path}/x"), r#"{"text": "x"}"#.to_owned()).await;
    refusals.add(Method::DELETE, &nowhere, String::new()).await;
    refusals.add(Method::POST, &format!("{path}/resume"), String::new()).await;
    refusals.add(Method::POST, &format!("{path}/resume"), r#"{"now": true}"#.to_owned()).await;
    insta::assert_json_snapshot!(refusals.seen);
    let queue = api.send(Method::GET, &path, "").await.json();
    assert_eq!(queue["items"], json!([added]), "nothing was changed by what was refused");
}

#[tokio::test]
async fn prompting() {
    let api = Api::start();
    let path = format!("/api/sessions/{}/structured/prompt", api.session().await.id);
    let mut refusals = Refusals::of(&api);
    let nested = |depth: usize| {
        format!(
            r#"{{"content": [{{"type": "x", "y": {}{}}}]}}"#,
            "[".repeat(depth - 3),
            "]".repeat(depth - 3)
        )
    };
    let bodies = [
        String::new(),
        "{}".into(),
        r#"{"text": ""}"#.into(),
        r#"{"text": " \n"}"#.into(),
        r#"{"text": ["x"]}"#.into(),
        r#"{"text": "\ud800"}"#.into(),
        r#"{"text": "x", "content": []}"#.into(),
        r#"{"content": []}"#.into(),
        r#"{"content": {}}"#.into(),
        r#"{"content": [{"type": "text", "text": "x"}, "x"]}"#.into(),
        r#"{"content": [{"text": "x"}]}"#.into(),
        r#"{"content": [{"type": 1}]}"#.into(),
        r#"{"text": "x", "mode": "plan"}"#.into(),
        nested(65),
    ];
    for body in bodies {
        refusals.add(Method::POST, &path, body).await;
    }
    insta::assert_json_snapshot!(refusals.seen);
    let deepest = api.send(Method::POST, &path, nested(64)).await;
    assert_eq!(deepest.refusal(), "409 not_structured", "it was read");
}

#[tokio::test]
async fn answering_and_commands_without_a_body() {
    let api = Api::start();
    let path = format!("/api/sessions/{}", api.session().await.id);
    let mut refusals = Refusals::of(&api);
    let approval = format!("{path}/structured/approvals/anything");
    for body in [
        "",
        r#"{"decision": "Allow"}"#,
        r#"{"decision": {"option": 1}}"#,
        r#"{"decision": "Deny", "why": 1}"#,
    ] {
        refusals.add(Method::POST, &approval, body).await;
    }
    for route in ["restart", "structured/cancel"] {
        refusals.add(Method::POST, &format!("{path}/{route}"), r#"{"force": true}"#).await;
    }
    insta::assert_json_snapshot!(refusals.seen);
}

#[tokio::test]
async fn replaying() {
    let api = Api::start();
    let path = format!("/api/sessions/{}/structured/replay", api.session().await.id);
    let mut refusals = Refusals::of(&api);
    let queries = [
        "since=1&before=2",
        "since=",
        "since=-1",
        "since=+1",
        "before=x",
        "limit=1.5",
        "since=99999999999999999999",
        "since=1&since=2",
        "after=1",
        "deltas=none",
        "deltas=text&deltas=text",
        "%ff=1",
    ];
    for query in queries {
        let answer = api.send(Method::GET, &format!("{path}?{query}"), "").await;
        refusals.note(query, &answer);
    }
    insta::assert_json_snapshot!(refusals.seen);
    for query in ["", "deltas=text", "since=0", "before=5&limit=0", "limit=501"] {
        let answer = api.send(Method::GET, &format!("{path}?{query}"), "").await;
        assert_eq!(answer.refusal(), "409 not_structured", "{query}: it was read");
    }
}

#[tokio::test]
async fn asking_for_usage() {
    let api = Api::start();
    let mut refusals = Refusals::of(&api);
    let queries =
        ["since=", "since=today", "until=2026-13-01", "since=2026-12-01&since=2026-12-01", "day=2026-12-01"];
    for query in queries {
        let answer = api.send(Method::GET, &format!("/api/usage?{query}"), "").await;
        refusals.note(query, &answer);
    }
    insta::assert_json_snapshot!(refusals.seen);
}

#[tokio::test]
async fn bodies_of_other_kinds() {
    let api = Api::start();
    let check = async |kind: Option<&'static str>,
                       encoding: Option<&'static str>,
                       body: &'static str,
                       expect: &str| {
        let mut asked = request(Method::POST, "/api/sessions", Body::from(body));
        asked.headers_mut().remove(header::CONTENT_TYPE);
        for (name, value) in [(header::CONTENT_TYPE, kind), (header::CONTENT_ENCODING, encoding)] {
            value.map(|value| asked.headers_mut().insert(name, HeaderValue::from_static(value)));
        }
        let answer = api.send_as(super::owner(), asked).await;
        assert_eq!(answer.refusal(), expect, "{kind:?} {encoding:?}");
    };
    check(None, None, "{}", "415 unsupported_media_type").await;
    check(Some("text/plain"), None, "{}", "415 unsupported_media_type").await;
    check(Some("application/x-www-form-urlencoded"), None, "view=Structured", "415 unsupported_media_type")
        .await;
    check(Some("application/json"), Some("gzip"), "{}", "415 unsupported_media_type").await;
    check(Some("application/json; charset=utf-8"), None, "{}", "400 invalid_request view").await;
    check(None, None, "", "400 invalid_request view").await;
    assert_eq!(api.count().await, 0);
}
