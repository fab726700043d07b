//! The API as its callers see it, over a real registry in a temporary place. Its sessions are dead from the beginning:
//! their agent is looked for where nothing is.

mod audit;
mod bad_requests;
mod health;
mod limits;
mod over_socket;
mod peers;
mod queue;
mod routes;

use super::{
    app::App,
    caller::{Caller, Via},
    gate,
    peer::{Peer, Places},
    routes::router,
};
use crate::{
    account::AccountScope,
    agents::Agents,
    audit::{Audit, AuditThread},
    clock::Sources,
    registry::{self, DaemonFacts, Registry},
    session::Surroundings,
};
use axum::{Router, body::Body};
use http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::BodyExt as _;
use maestro_acp::AgentTable;
use maestro_log::{Committer, DataDir, LogDir};
use maestro_process::{GuardProgram, ProcessDefaults, Spawner};
use maestro_protocol::{Problem, Session, SessionId};
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::Arc};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use uuid::Uuid;

/// A place without programs.
const NOWHERE: &str = "/var/empty/maestro-has-nothing-here";

/// How all callers of these tests came in.
const VIA: Via = Via::UnixSocket { uid: 1 };

fn owner() -> Peer {
    Peer::Known(Caller::person(AccountScope::owner(), VIA))
}

/// A program below the agent of `session`.
fn agent(session: Option<SessionId>) -> Peer {
    Peer::Known(Caller::agent(AccountScope::owner(), session, VIA))
}

/// An answer, read to its end.
#[derive(Debug)]
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("a JSON body")
    }

    #[track_caller]
    fn problem(&self) -> Problem {
        assert_eq!(self.headers[header::CONTENT_TYPE], "application/problem+json", "{self:?}");
        serde_json::from_slice(&self.body).expect("a problem document")
    }

    /// `status code`, with the field if there is one.
    #[track_caller]
    fn refusal(&self) -> String {
        let problem = self.problem();
        assert_eq!(problem.status, self.status.as_u16());
        let code = serde_json::to_value(problem.code).expect("a code");
        let field = problem.field.map(|field| format!(" {field}")).unwrap_or_default();
        format!("{} {}{field}", problem.status, code.as_str().expect("a text"))
    }
}

struct Api {
    registry: Registry,
    router: Router,
    audit: Audit,
    audit_thread: AuditThread,
    dir: tempfile::TempDir,
}

impl Api {
    fn start() -> Self {
        Self::start_with(Sources::system())
    }

    fn start_with(sources: Sources) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let program = std::env::current_exe().expect("the test's own program");
        let committer = Committer::start().expect("a committer");
        let guard = GuardProgram::open(&program).expect("a guard program");
        let lock = DataDir::open(dir.path()).expect("a data directory").lock().expect("its lock");
        let opened = Audit::open(&dir.path().join("audit.jsonl"), Arc::clone(&sources.clock));
        let (audit, audit_thread) = opened.expect("an audit log");
        let around = Surroundings {
            audit: audit.clone(),
            directory: lock.directory(),
            sources,
            agents: Agents::new(AgentTable::built_in(), program),
            logs: LogDir::open(dir.path(), &committer).expect("a directory for logs"),
            spawner: Spawner::start(guard, ProcessDefaults::replace()).expect("a spawner"),
            tasks: TaskTracker::new(),
            daemon: Arc::new(DaemonFacts {
                started_at: Sources::system().clock.now(),
                sessions: dir.path().into(),
                unreadable: Vec::new(),
            }),
        };
        let registry = registry::start(around, Vec::new(), &BTreeSet::new());
        let router = router(App::new(registry.clone(), audit.clone(), CancellationToken::new()));
        Self { registry, router, audit, audit_thread, dir }
    }

    async fn send_as(&self, peer: Peer, request: Request<Body>) -> Answer {
        let (router, audit) = (self.router.clone(), self.audit.clone());
        let answer = gate::answer(router, audit, peer, Places::default(), Uuid::nil(), request).await;
        let (parts, body) = answer.expect("every request is answered").into_parts();
        let body = body.collect().await.expect("a body").to_bytes().to_vec();
        Answer { status: parts.status, headers: parts.headers, body }
    }

    async fn send(&self, method: Method, path: &str, body: impl Into<Body>) -> Answer {
        self.send_as(owner(), request(method, path, body)).await
    }

    /// A dead session.
    async fn session(&self) -> Session {
        let wish = json!({"view": "Structured", "cwd": self.dir.path(), "env": {"PATH": NOWHERE}});
        let answer = self.send(Method::POST, "/api/sessions", wish.to_string()).await;
        assert_eq!(answer.status, StatusCode::CREATED, "{answer:?}");
        serde_json::from_slice(&answer.body).expect("a session")
    }

    async fn count(&self) -> usize {
        let list = self.send(Method::GET, "/api/sessions", "").await.json();
        list["sessions"].as_array().expect("a list").len()
    }
}

fn request(method: Method, path: &str, body: impl Into<Body>) -> Request<Body> {
    Request::builder()
        .method(method)
        .uri(path)
        .header(header::CONTENT_TYPE, "application/json")
        .body(body.into())
        .expect("a request")
}
