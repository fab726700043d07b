//! The queue and `Idempotency-Key`, of sessions that are dead: what waits is kept for them, too.

use super::{Answer, Api, NOWHERE, request};
use http::{HeaderValue, Method};
use serde_json::{Value, json};
use std::fs;

fn wish(api: &Api, more: &Value) -> String {
    let mut wish = json!({"view": "Structured", "cwd": api.dir.path(), "env": {"PATH": NOWHERE}});
    wish.as_object_mut().expect("a wish").extend(more.as_object().expect("fields").clone());
    wish.to_string()
}

async fn with_key(api: &Api, method: Method, path: &str, key: &str, body: &str) -> Answer {
    let mut request = request(method, path, body.to_owned());
    let key = HeaderValue::from_str(key).expect("a header value");
    request.headers_mut().insert("idempotency-key", key);
    api.send_as(super::owner(), request).await
}

#[tokio::test]
async fn a_dead_session_keeps_what_waits_and_lets_it_be_changed() {
    let api = Api::start();
    let path = format!("/api/sessions/{}/queue", api.session().await.id);
    let add = async |text: &str| {
        let added = api.send(Method::POST, &path, json!({"text": text}).to_string()).await;
        assert_eq!(added.status, 201, "{added:?}");
        added.json()
    };
    let (first, second) = (add("first").await, add("second").await);
    assert_eq!(first["content"], json!([{"type": "text", "text": "first"}]));
    assert_eq!(first["by"], json!({"account": "owner@localhost", "client": "unknown"}));
    let item = |item: &Value| format!("{path}/{}", item["id"].as_str().expect("an id"));
    let edit = json!({"text": "now the next", "position": 0}).to_string();
    let edited = api.send(Method::PATCH, &item(&second), edit).await;
    assert_eq!((edited.status.as_u16(), &edited.json()["id"]), (200, &second["id"]));
    let queue = api.send(Method::GET, &path, "").await.json();
    assert_eq!(queue, json!({"items": [edited.json(), first], "held": "ended"}));
    assert_eq!(api.send(Method::DELETE, &item(&first), "").await.status, 204);
    assert_eq!(api.send(Method::DELETE, &item(&first), "").await.refusal(), "404 not_found");
    assert_eq!(api.send(Method::GET, &path, "").await.json()["items"], json!([edited.json()]));
}

#[tokio::test]
async fn a_prompt_of_a_session_that_cannot_start_is_kept() {
    let api = Api::start();
    let body = wish(&api, &json!({"prompt": {"text": "do it"}}));
    let session = api.send(Method::POST, "/api/sessions", body).await.json();
    assert_eq!(session["status"], "Dead");
    let path = format!("/api/sessions/{}/queue", session["id"].as_str().expect("an id"));
    let queue = api.send(Method::GET, &path, "").await.json();
    assert_eq!(
        (&queue["items"][0]["content"][0]["text"], &queue["held"]),
        (&json!("do it"), &json!("ended"))
    );
}

#[tokio::test]
async fn a_creation_that_is_retried_makes_one_session() {
    let api = Api::start();
    let body = wish(&api, &json!({"title": "one"}));
    let create = |key: &'static str| with_key(&api, Method::POST, "/api/sessions", key, &body);
    let (first, second) = tokio::join!(create("k"), create("k"));
    let third = create("k").await;
    for again in [&second, &third] {
        assert_eq!((again.status, &again.body), (first.status, &first.body));
        assert_eq!(again.headers["location"], first.headers["location"]);
    }
    let other =
        with_key(&api, Method::POST, "/api/sessions", "k", &wish(&api, &json!({"title": "two"}))).await;
    assert_eq!(other.refusal(), "422 idempotency_key_reused");
    assert_eq!(api.count().await, 1);
    assert_ne!(create("another").await.body, first.body);
    assert_eq!(api.count().await, 2);
}

#[tokio::test]
async fn a_refused_request_does_not_use_up_its_key() {
    let api = Api::start();
    let cwd = api.dir.path().join("project");
    let body = json!({"view": "Structured", "cwd": cwd, "env": {"PATH": NOWHERE}}).to_string();
    let create = || with_key(&api, Method::POST, "/api/sessions", "k", &body);
    assert_eq!(create().await.refusal(), "400 invalid_cwd cwd");
    fs::create_dir(&cwd).expect("made");
    assert_eq!(create().await.status, 201);
    assert_eq!(create().await.status, 201);
    assert_eq!(api.count().await, 1);
}

#[tokio::test]
async fn a_message_that_is_retried_waits_once() {
    let api = Api::start();
    let path = format!("/api/sessions/{}/queue", api.session().await.id);
    let add = |body: &'static str| with_key(&api, Method::POST, &path, "k", body);
    let first = add(r#"{"text": "x"}"#).await;
    let edit = r#"{"text": "edited"}"#;
    let item = format!("{path}/{}", first.json()["id"].as_str().expect("an id"));
    assert_eq!(api.send(Method::PATCH, &item, edit).await.status, 200);
    let again = add(r#"{"text": "x"}"#).await;
    assert_eq!((again.status, &again.body), (first.status, &first.body), "the first answer");
    assert_eq!(add(r#"{"text": "y"}"#).await.refusal(), "422 idempotency_key_reused");
    assert_eq!(api.send(Method::DELETE, &item, "").await.status, 204);
    assert_eq!(add(r#"{"text": "x"}"#).await.body, first.body, "also when it was taken out");
    assert_eq!(api.send(Method::GET, &path, "").await.json(), json!({"items": [], "held": null}));
}

#[tokio::test]
async fn a_restart_that_is_retried_is_one() {
    let api = Api::start();
    let path = format!("/api/sessions/{}/restart", api.session().await.id);
    let first = with_key(&api, Method::POST, &path, "k", "").await;
    assert_eq!(first.status, 202);
    let again = with_key(&api, Method::POST, &path, "k", "").await;
    assert_eq!((again.status, &again.body), (first.status, &first.body));
    assert_eq!(with_key(&api, Method::POST, &path, "k", "{}").await.refusal(), "422 idempotency_key_reused");
}

#[tokio::test]
async fn a_key_that_is_none_is_refused_on_every_route_that_takes_one() {
    let api = Api::start();
    let session = format!("/api/sessions/{}", api.session().await.id);
    let bodies = [
        ("/api/sessions".to_owned(), wish(&api, &json!({}))),
        (format!("{session}/queue"), r#"{"text": "x"}"#.into()),
        (format!("{session}/structured/prompt"), r#"{"text": "x"}"#.into()),
        (format!("{session}/restart"), String::new()),
    ];
    for (path, body) in bodies {
        let refused = with_key(&api, Method::POST, &path, &"k".repeat(256), &body).await;
        assert_eq!(refused.refusal(), "400 invalid_request Idempotency-Key", "{path}");
    }
    assert_eq!(api.count().await, 1);
}

#[tokio::test]
async fn a_queue_file_that_cannot_be_read_is_left_alone() {
    let api = Api::start();
    let id = api.session().await.id;
    let file = api.dir.path().join(format!("{id}.queue.json"));
    fs::write(&file, "{\"items\": [").expect("written");
    let path = format!("/api/sessions/{id}/queue");
    assert_eq!(api.send(Method::GET, &path, "").await.refusal(), "500 internal");
    assert_eq!(api.send(Method::POST, &path, r#"{"text": "x"}"#).await.refusal(), "500 internal");
    assert_eq!(fs::read_to_string(&file).expect("there"), "{\"items\": [");
}
