//! Every route as every kind of caller, generated from the API's own document.

use super::{Answer, Api, agent, owner, request};
use crate::{openapi::openapi_json, server::peer::Peer};
use http::{Method, StatusCode};
use maestro_protocol::SessionId;
use serde_json::Value;
use uuid::Uuid;

const UNKNOWN: &str = "0e4c1f6e-3f0a-4f6e-9d55-0d3f4bb1a001";

/// A route of the document.
struct Route {
    method: Method,
    path: String,
    permission: String,
}

impl Route {
    fn all() -> Vec<Self> {
        let document: Value = serde_json::from_str(&openapi_json()).expect("JSON");
        let paths = document["paths"].as_object().expect("paths");
        let of_path = |(path, item): (&String, &Value)| {
            let operations = item.as_object().expect("operations").iter();
            let route = |(method, operation): (&String, &Value)| Self {
                method: method.to_uppercase().parse().expect("a method"),
                path: path.clone(),
                permission: operation["x-maestro-permission"].as_str().expect("a permission").into(),
            };
            operations.map(route).collect::<Vec<_>>()
        };
        paths.iter().flat_map(of_path).collect()
    }

    /// The answer to `caller`, asking for this session and for an unknown one of everything else.
    async fn answer(&self, api: &Api, caller: Peer, id: &str) -> Answer {
        let path = self.path.replace("{id}", id);
        let path = path.split('/').map(|piece| if piece.starts_with('{') { UNKNOWN } else { piece });
        let path = path.collect::<Vec<_>>().join("/");
        api.send_as(caller, request(self.method.clone(), &path, "{}")).await
    }
}

#[tokio::test]
async fn every_route_serves_whom_its_permission_names() {
    let api = Api::start();
    let session = api.session().await;
    let (id, own) = (session.id.to_string(), agent(Some(session.id)));
    let foreign = [agent(Some(SessionId::from_uuid(Uuid::from_u128(7)))), agent(None)];
    let routes = Route::all();
    assert!(routes.len() > 20, "{} routes", routes.len());
    for route in &routes {
        let told = format!("{} {} ({})", route.method, route.path, route.permission);
        let stranger = route.answer(&api, Peer::Stranger, &id).await;
        assert_eq!(stranger.refusal(), "403 unknown_peer", "{told}");
        for caller in [&own, &foreign[0], &foreign[1]] {
            let answer = route.answer(&api, caller.clone(), &id).await;
            match route.permission.as_str() {
                "person" => assert_eq!(answer.refusal(), "403 agent_peer", "{told}"),
                // Another's session is one that does not exist, to the byte.
                "session" if caller != &own => {
                    let unknown = route.answer(&api, owner(), UNKNOWN).await;
                    assert_eq!((answer.status, answer.body), (unknown.status, unknown.body), "{told}");
                    assert_eq!(unknown.status, StatusCode::NOT_FOUND, "{told}");
                }
                "session" => {
                    let owner = route.answer(&api, owner(), &id).await;
                    assert_eq!((answer.status, answer.body), (owner.status, owner.body), "{told}");
                }
                "anyone" => assert_eq!(answer.status, StatusCode::OK, "{told}"),
                other => panic!("{told}: what is `{other}`?"),
            }
        }
    }
    assert_eq!(api.count().await, 1, "no refused request has done anything");
    // Last, since it may do what it likes.
    for route in &routes {
        let status = route.answer(&api, owner(), &id).await.status;
        assert_ne!(status, StatusCode::FORBIDDEN, "{} {}", route.method, route.path);
    }
}

#[tokio::test]
async fn an_agents_list_is_its_own_session() {
    let api = Api::start();
    let (one, _other) = (api.session().await, api.session().await);
    let check = async |caller: Peer, expect: &[SessionId]| {
        let list = api.send_as(caller, request(Method::GET, "/api/sessions", "")).await.json();
        let ids = list["sessions"].as_array().expect("a list").iter().map(|session| session["id"].clone());
        let expect: Vec<Value> = expect.iter().map(|id| serde_json::json!(id)).collect();
        assert_eq!(ids.collect::<Vec<_>>(), expect);
    };
    check(agent(Some(one.id)), &[one.id]).await;
    check(agent(None), &[]).await;
    assert_eq!(api.count().await, 2);
}

#[tokio::test]
async fn a_stranger_learns_nothing() {
    let api = Api::start();
    for path in ["/api/sessions", "/api/openapi.json", "/api/nothing", "/"] {
        for method in [Method::GET, Method::POST, Method::OPTIONS] {
            let answer = api.send_as(Peer::Stranger, request(method, path, "{}")).await;
            assert_eq!(answer.refusal(), "403 unknown_peer", "{path}");
        }
    }
}
