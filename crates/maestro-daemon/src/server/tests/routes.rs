use super::{Answer, Api, agent, owner, request};
use crate::{openapi::openapi_json, server::peer::Peer};
use http::{Method, StatusCode, header};
use maestro_protocol::{EndReason, Session, Status};
use serde_json::json;

const UNKNOWN: &str = "0e4c1f6e-3f0a-4f6e-9d55-0d3f4bb1a001";

#[tokio::test]
async fn a_session_is_created_listed_shown_and_renamed() {
    let api = Api::start();
    let first = api.session().await;
    assert_eq!((first.status, first.end_reason), (Status::Dead, Some(EndReason::AdapterMissing)));
    assert!(first.activity_detail.expect("a reason").contains("npm install"));

    let second = api.session().await;
    let list = api.send(Method::GET, "/api/sessions", "").await.json();
    let ids: Vec<_> =
        list["sessions"].as_array().expect("a list").iter().map(|one| one["id"].clone()).collect();
    assert!(ids.contains(&json!(first.id)) && ids.contains(&json!(second.id)) && ids.len() == 2);

    let path = format!("/api/sessions/{}", first.id);
    let renamed = api.send(Method::PATCH, &path, r#"{"title": "A name"}"#).await;
    assert_eq!((renamed.status, &renamed.json()["title"]), (StatusCode::OK, &json!("A name")));
    assert_eq!(api.send(Method::GET, &path, "").await.json()["title"], "A name");
}

#[tokio::test]
async fn a_new_session_says_where_it_is() {
    let api = Api::start();
    let wish = json!({"view": "Structured", "cwd": api.dir.path(), "env": {"PATH": super::NOWHERE}});
    let answer = api.send(Method::POST, "/api/sessions", wish.to_string()).await;
    let session: Session = serde_json::from_slice(&answer.body).expect("a session");
    assert_eq!(answer.headers[header::LOCATION], format!("/api/sessions/{}", session.id));
    assert!(
        !answer.json().as_object().expect("a session").contains_key("env"),
        "the environment is on no wire"
    );
}

#[tokio::test]
async fn killing_a_dead_session_changes_nothing() {
    let api = Api::start();
    let session = api.session().await;
    let path = format!("/api/sessions/{}", session.id);
    for _ in 0..2 {
        let answer = api.send(Method::DELETE, &path, "").await;
        assert_eq!((answer.status, answer.body.len()), (StatusCode::NO_CONTENT, 0));
    }
    assert_eq!(api.send(Method::GET, &path, "").await.json()["end_reason"], json!(EndReason::AdapterMissing));
}

/// Method, path below `/api/`, body of every route that names a session.
const OF_A_SESSION: &[(&str, &str, &str)] = &[
    ("GET", "sessions/{id}", ""),
    ("PATCH", "sessions/{id}", r#"{"title": "x"}"#),
    ("DELETE", "sessions/{id}", ""),
    ("POST", "sessions/{id}/restart", ""),
    ("GET", "sessions/{id}/queue", ""),
    ("POST", "sessions/{id}/queue", r#"{"text": "x"}"#),
    ("PATCH", "sessions/{id}/queue/0e4c1f6e-3f0a-4f6e-9d55-0d3f4bb1a001", r#"{"text": "x"}"#),
    ("DELETE", "sessions/{id}/queue/0e4c1f6e-3f0a-4f6e-9d55-0d3f4bb1a001", ""),
    ("POST", "sessions/{id}/queue/resume", ""),
    ("POST", "sessions/{id}/structured/prompt", r#"{"text": "x"}"#),
    ("POST", "sessions/{id}/structured/cancel", ""),
    ("POST", "sessions/{id}/structured/mode", r#"{"mode_id": "x"}"#),
    ("POST", "sessions/{id}/structured/model", r#"{"model_id": "x"}"#),
    ("POST", "sessions/{id}/structured/config", r#"{"config_id": "x", "value": true}"#),
    (
        "POST",
        "sessions/{id}/structured/approvals/0e4c1f6e-3f0a-4f6e-9d55-0d3f4bb1a001",
        r#"{"decision": "Deny"}"#,
    ),
    ("POST", "sessions/{id}/structured/approvals/%ff", r#"{"decision": {"option": "x"}}"#),
    ("GET", "sessions/{id}/structured/replay", ""),
    ("GET", "structured/{id}", ""),
];

async fn of_a_session(api: &Api, id: &str, route: &(&str, &str, &str)) -> Answer {
    let (method, path, body) = route;
    let path = format!("/api/{}", path.replace("{id}", id));
    api.send(method.parse().expect("a method"), &path, (*body).to_owned()).await
}

#[tokio::test]
async fn unknown_and_malformed_ids_are_the_same_404() {
    let api = Api::start();
    let session = api.session().await;
    let upper = session.id.to_string().to_uppercase();
    for route in OF_A_SESSION {
        let expect = of_a_session(&api, UNKNOWN, route).await;
        assert_eq!(expect.refusal(), "404 not_found", "{route:?}");
        for id in [upper.as_str(), "x", "%ff", "..%2f..", "0e4c1f6e3f0a4f6e9d550d3f4bb1a001"] {
            let answer = of_a_session(&api, id, route).await;
            assert_eq!(answer.body, expect.body, "{route:?} {id}");
        }
    }
}

#[tokio::test]
async fn structured_routes_refuse_a_dead_session() {
    let api = Api::start();
    let id = api.session().await.id.to_string();
    for route in OF_A_SESSION.iter().filter(|(_, path, _)| path.contains("structured")) {
        assert_eq!(of_a_session(&api, &id, route).await.refusal(), "409 not_structured", "{route:?}");
    }
}

#[tokio::test]
async fn an_approval_is_read_before_its_nonce_is_looked_at() {
    let api = Api::start();
    let id = api.session().await.id;
    let path = format!("/api/sessions/{id}/structured/approvals/{UNKNOWN}");
    for body in ["", "{", r#"{"decision": "Allow"}"#, r#"{"decision": {"option": 1}}"#] {
        assert_eq!(api.send(Method::POST, &path, body).await.status, StatusCode::BAD_REQUEST, "{body}");
    }
}

#[tokio::test]
async fn unknown_paths_and_methods_are_problems_too() {
    let api = Api::start();
    let check = async |method: Method, path: &str, expect: &str, allow: Option<&str>| {
        let answer = api.send(method, path, "").await;
        assert_eq!(answer.refusal(), expect, "{path}");
        assert_eq!(answer.headers.get(header::ALLOW).map(|value| value.to_str().expect("text")), allow);
    };
    check(Method::GET, "/", "404 not_found", None).await;
    check(Method::GET, "/api/sessions/", "404 not_found", None).await;
    check(Method::POST, "/api/nothing", "404 not_found", None).await;
    check(Method::PUT, "/api/sessions", "405 method_not_allowed", Some("POST,GET,HEAD")).await;
    check(Method::OPTIONS, "/api/agents", "405 method_not_allowed", Some("GET,HEAD")).await;
}

#[tokio::test]
async fn every_answer_has_the_same_headers_and_none_for_other_origins() {
    let api = Api::start();
    let check = async |method: Method, path: &str, peer: Peer| {
        let mut asked = request(method, path, "");
        asked.headers_mut().insert(header::ORIGIN, "http://localhost:1".parse().expect("a value"));
        let answer = api.send_as(peer, asked).await;
        assert_eq!(answer.headers[header::CACHE_CONTROL], "no-store");
        assert_eq!(answer.headers[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
        assert_eq!(answer.headers["x-request-id"], uuid::Uuid::nil().to_string());
        let cors = answer.headers.keys().find(|name| name.as_str().starts_with("access-control"));
        assert_eq!(cors, None, "{path}");
    };
    check(Method::GET, "/api/agents", owner()).await;
    check(Method::GET, "/api/nothing", owner()).await;
    check(Method::OPTIONS, "/api/sessions", owner()).await;
    check(Method::POST, "/api/sessions", agent(None)).await;
    check(Method::GET, "/api/sessions", Peer::Stranger).await;
}

#[tokio::test]
async fn agents_and_the_document_are_there_to_read() {
    let api = Api::start();
    let agents = api.send(Method::GET, "/api/agents", "").await.json();
    assert_eq!(
        (&agents["agents"][0]["key"], &agents["agents"][0]["default"]),
        (&json!("claude-code-acp"), &json!(true))
    );
    let document = api.send(Method::GET, "/api/openapi.json", "").await;
    assert_eq!(document.headers[header::CONTENT_TYPE], "application/json");
    assert_eq!(String::from_utf8(document.body).expect("text"), openapi_json());
}

#[tokio::test]
async fn a_registry_that_is_shut_down_is_busy() {
    let api = Api::start();
    api.registry.shut_down().await;
    let answer = api.send(Method::POST, "/api/sessions", r#"{"view": "Structured", "cwd": "/"}"#).await;
    assert_eq!(answer.refusal(), "503 busy");
    assert_eq!(answer.headers[header::RETRY_AFTER], "1");
}
