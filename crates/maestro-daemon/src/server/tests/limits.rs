use super::{Api, owner, request};
use crate::server::{
    body::{BODY_MAX_BYTES, PROMPT_MAX_BYTES},
    gate,
    peer::Places,
};
use axum::{Router, routing::get};
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use maestro_protocol::{Problem, ProblemCode};
use uuid::Uuid;

#[tokio::test]
async fn bodies_are_bounded_to_the_byte() {
    let api = Api::start();
    let session = format!("/api/sessions/{}", api.session().await.id);
    let check = async |method: Method, path: String, start: &str, length: usize, expect: &str| {
        let body = format!("{start}{}\"}}", "x".repeat(length - start.len() - 2));
        assert_eq!(body.len(), length);
        assert_eq!(api.send(method, &path, body).await.refusal(), expect, "{path} {length}");
    };
    let title = r#"{"title": ""#;
    check(Method::PATCH, session.clone(), title, BODY_MAX_BYTES, "400 invalid_request title").await;
    check(Method::PATCH, session.clone(), title, BODY_MAX_BYTES + 1, "413 body_too_large").await;
    let prompt = format!("{session}/structured/prompt");
    let text = r#"{"text": ""#;
    check(Method::POST, prompt.clone(), text, PROMPT_MAX_BYTES, "409 not_structured").await;
    check(Method::POST, prompt, text, PROMPT_MAX_BYTES + 1, "413 body_too_large").await;
}

#[tokio::test]
async fn a_panic_is_one_internal_problem() {
    let audit = Api::start().audit;
    let router = Router::new().route("/", get(async || -> &'static str { panic!("the secret reason") }));
    let answer =
        gate::answer(router, audit, owner(), Places::default(), Uuid::nil(), request(Method::GET, "/", ""))
            .await
            .expect("an answer");
    assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
    let body = answer.into_body().collect().await.expect("a body").to_bytes();
    let problem: Problem = serde_json::from_slice(&body).expect("a problem");
    assert_eq!(problem.code, ProblemCode::Internal);
    assert!(!problem.detail.contains("secret"), "what went wrong is for the log: {problem:?}");
}
