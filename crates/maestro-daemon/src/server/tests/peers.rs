use super::{Api, request};
use crate::server::peer::Standing;
use http::Method;

const ID: &str = "0e4c1f6e-3f0a-4f6e-9d55-0d3f4bb1a001";

#[tokio::test]
async fn an_agent_reads_and_changes_nothing() {
    let api = Api::start();
    let check = async |method: Method, path: &str, agent: &str| {
        let path = path.replace("ID", ID);
        let answer = api.send_as(Standing::Agent, request(method, &path, "{}")).await;
        let seen =
            if answer.status.is_success() { answer.status.as_u16().to_string() } else { answer.refusal() };
        assert_eq!(seen, agent, "{path}");
    };
    check(Method::GET, "/api/sessions", "200").await;
    check(Method::GET, "/api/agents", "200").await;
    check(Method::GET, "/api/openapi.json", "200").await;
    check(Method::GET, "/api/sessions/ID", "404 not_found").await;
    check(Method::GET, "/api/sessions/ID/structured/replay", "404 not_found").await;
    check(Method::GET, "/api/structured/ID", "404 not_found").await;
    check(Method::GET, "/api/sessions/ID/queue", "404 not_found").await;
    check(Method::POST, "/api/sessions", "403 agent_peer").await;
    check(Method::POST, "/api/sessions/ID/queue", "403 agent_peer").await;
    check(Method::PATCH, "/api/sessions/ID/queue/ID", "403 agent_peer").await;
    check(Method::DELETE, "/api/sessions/ID/queue/ID", "403 agent_peer").await;
    check(Method::POST, "/api/sessions/ID/queue/resume", "403 agent_peer").await;
    check(Method::PATCH, "/api/sessions/ID", "403 agent_peer").await;
    check(Method::DELETE, "/api/sessions/ID", "403 agent_peer").await;
    check(Method::POST, "/api/sessions/ID/restart", "403 agent_peer").await;
    check(Method::POST, "/api/sessions/ID/structured/prompt", "403 agent_peer").await;
    check(Method::POST, "/api/sessions/ID/structured/cancel", "403 agent_peer").await;
    check(Method::POST, "/api/sessions/ID/structured/approvals/x", "403 agent_peer").await;
    check(Method::POST, "/api/nothing", "403 agent_peer").await;
    assert_eq!(api.count().await, 0);
}

#[tokio::test]
async fn a_stranger_learns_nothing() {
    let api = Api::start();
    for path in ["/api/sessions", "/api/openapi.json", "/api/nothing", "/"] {
        for method in [Method::GET, Method::POST, Method::OPTIONS] {
            let answer = api.send_as(Standing::Stranger, request(method, path, "{}")).await;
            assert_eq!(answer.refusal(), "403 unknown_peer", "{path}");
        }
    }
}
