use super::{Api, agent, request};
use crate::server::peer::Peer;
use http::{Method, StatusCode};
use maestro_protocol::{AuditEntry, AuditEvent, AuditPage, AuditQuery, ProblemCode, SessionId};
use std::fs;
use uuid::Uuid;

impl Api {
    async fn audit_page(&self, query: &str) -> AuditPage {
        let answer = self.send(Method::GET, &format!("/api/audit{query}"), "").await;
        assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
        serde_json::from_slice(&answer.body).expect("a page")
    }
}

/// Everything that was noted, after the thread wrote it.
async fn written(api: Api) -> (Vec<AuditEntry>, String) {
    let Api { audit, audit_thread, dir, registry, .. } = api;
    registry.shut_down().await;
    tokio::task::spawn_blocking(move || audit_thread.end()).await.expect("ended");
    let page = audit.page("owner@localhost", AuditQuery::default()).expect("a page");
    assert_eq!(page.broken_line, None);
    (page.entries, fs::read_to_string(dir.path().join("audit.jsonl")).expect("a log"))
}

#[tokio::test]
async fn what_is_done_and_what_is_refused_is_noted_without_secrets() {
    let api = Api::start();
    let session = api.session().await;
    let agent = || agent(Some(SessionId::from_uuid(Uuid::from_u128(7))));
    let nonce = "0e4c1f6e-3f0a-4f6e-9d55-0d3f4bb1a001";
    let path = format!("/api/sessions/{}/structured/approvals/{nonce}?token=canary", session.id);
    api.send_as(agent(), request(Method::POST, &path, r#"{"decision": "AllowOnce"}"#)).await;
    api.send_as(Peer::Stranger, request(Method::GET, "/api/sessions", "")).await;
    api.send_as(agent(), request(Method::GET, &format!("/api/sessions/{}", session.id), "")).await;
    // Refused for what they are, and not for who asked.
    api.send(Method::GET, &format!("/api/sessions/{nonce}"), "").await;
    api.send(Method::POST, "/api/sessions", r#"{"view": "canary"}"#).await;

    let (entries, text) = written(api).await;
    let events: Vec<AuditEvent> = entries.into_iter().map(|entry| entry.event).collect();
    let refused = |code, method: &str, path: String, session| AuditEvent::Refused {
        code,
        method: method.into(),
        path,
        session,
    };
    let approvals = format!("/api/sessions/{}/structured/approvals", session.id);
    let foreign = format!("/api/sessions/{}", session.id);
    let other = Some(SessionId::from_uuid(Uuid::from_u128(7)));
    let expect = [
        AuditEvent::SessionCreated {
            session: session.id,
            agent: session.agent,
            cwd: session.cwd,
            client: "unknown".into(),
        },
        refused(ProblemCode::AgentPeer, "POST", approvals, other),
        refused(ProblemCode::UnknownPeer, "GET", "/api/sessions".into(), None),
        refused(ProblemCode::NotFound, "GET", foreign, other),
    ];
    assert_eq!(events, expect);
    assert!(!text.contains(nonce) && !text.contains("canary"), "{text}");
}

#[tokio::test]
async fn a_page_of_the_log_can_be_asked_for() {
    let api = Api::start();
    for _ in 0..3 {
        api.audit.note("owner@localhost", AuditEvent::DaemonEnded);
        api.audit.note("other@localhost", AuditEvent::DaemonEnded);
    }
    let numbers = |page: &AuditPage| page.entries.iter().map(|entry| entry.number).collect::<Vec<_>>();
    let page = api.audit_page("").await;
    assert_eq!(
        (numbers(&page), page.before),
        (vec![1, 3, 5], None),
        "another account's entries are not shown"
    );
    let page = api.audit_page("?limit=2").await;
    assert_eq!((numbers(&page), page.before), (vec![3, 5], Some(3)));
    assert_eq!(numbers(&api.audit_page("?before=3&limit=2").await), [1]);
    for (query, expect) in [
        ("?limit=x", "400 invalid_request limit"),
        ("?limit=1&limit=2", "400 invalid_request limit"),
        ("?since=1", "400 invalid_request since"),
    ] {
        let answer = api.send(Method::GET, &format!("/api/audit{query}"), "").await;
        assert_eq!(answer.refusal(), expect);
    }
}
