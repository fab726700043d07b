//! A server that plays the daemon's part of the API: fixed answers and a record of what was asked.

use axum::{
    Json, Router,
    body::Bytes,
    extract::{
        Path, RawQuery, Request, State, WebSocketUpgrade,
        ws::{CloseFrame, Message, WebSocket},
    },
    http::{Method, StatusCode, Uri, header},
    middleware::{self, Next},
    response::{IntoResponse as _, Response},
    routing::{any, delete, get, post},
};
use serde_json::{Value, json};
use std::{
    path::{Path as FilePath, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};
use tempfile::TempDir;
use tokio::net::UnixListener;

pub(crate) const LIVE: &str = "8f14e45f-ceea-467f-a8f3-1d6d0e3b2c11";
pub(crate) const DEAD: &str = "8f14e45f-ceea-467f-a8f3-1d6d0e3b2c12";
pub(crate) const GARBAGE: &str = "8f14e45f-ceea-467f-a8f3-1d6d0e3b2c13";

/// How deep the data of the one row of a snapshot nests: deeper than serde_json reads by default.
pub(crate) const ROW_DEPTH: usize = 128;

#[derive(Default)]
struct Record {
    requests: Mutex<Vec<(String, Option<Value>)>>,
    user_agents: Mutex<Vec<String>>,
    socket_queries: Mutex<Vec<String>>,
    /// The keys of retries, of the requests that have one.
    keys: Mutex<Vec<String>>,
    tries_to_queue: AtomicUsize,
    sockets_opened: AtomicUsize,
    sockets_open: AtomicUsize,
}

pub(crate) struct Server {
    socket: PathBuf,
    _dir: TempDir,
    record: Arc<Record>,
    task: tokio::task::JoinHandle<()>,
}

impl Server {
    pub(crate) fn start() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let record = Arc::new(Record::default());
        let socket = dir.path().join("daemon.sock");
        let listener = UnixListener::bind(&socket).expect("bound");
        let router = router(record.clone());
        let task = tokio::spawn(async { axum::serve(listener, router).await.expect("serves") });
        Self { socket, _dir: dir, record, task }
    }

    pub(crate) fn socket(&self) -> &FilePath {
        &self.socket
    }

    pub(crate) fn requests(&self) -> Vec<(String, Option<Value>)> {
        self.record.requests.lock().expect("unpoisoned").clone()
    }

    pub(crate) fn user_agents(&self) -> Vec<String> {
        let mut names = self.record.user_agents.lock().expect("unpoisoned").clone();
        names.dedup();
        names
    }

    /// What the sockets asked for, in their order.
    pub(crate) fn socket_queries(&self) -> Vec<String> {
        self.record.socket_queries.lock().expect("unpoisoned").clone()
    }

    pub(crate) fn keys(&self) -> Vec<String> {
        self.record.keys.lock().expect("unpoisoned").clone()
    }

    pub(crate) fn open_sockets(&self) -> usize {
        self.record.sockets_open.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn router(record: Arc<Record>) -> Router {
    Router::new()
        .route("/api/sessions", get(list).post(create))
        .route("/api/sessions/{id}", get(show).patch(show).merge(delete(kill)))
        .route("/api/sessions/{id}/restart", post(show))
        .route("/api/sessions/{id}/queue", get(queue).post(queue_at_last))
        .route("/api/sessions/{id}/queue/resume", post(accept))
        .route("/api/sessions/{id}/queue/{item}", delete(|| async { StatusCode::NO_CONTENT }).patch(edit))
        .route("/api/sessions/{id}/structured/prompt", post(accept))
        .route("/api/sessions/{id}/structured/cancel", post(accept))
        .route("/api/sessions/{id}/structured/{setting}", post(|| async { StatusCode::NO_CONTENT }))
        .route("/api/sessions/{id}/structured/approvals/{nonce}", post(|| async { StatusCode::NO_CONTENT }))
        .route(
            "/api/sessions/{id}/structured/replay",
            get(|| async { Json(json!({"events": [], "next": null, "prev": null})) }),
        )
        .route("/api/sessions/{id}/structured/rows/{row}/hunks", get(hunks))
        .route("/api/agents", get(agents))
        .layer(middleware::from_fn_with_state(record.clone(), write_down))
        .route("/api/structured/{id}", any(socket))
        .with_state(record)
}

async fn write_down(State(record): State<Arc<Record>>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let bytes: Bytes = axum::body::to_bytes(body, 1 << 20).await.expect("a short body");
    let (method, uri): (&Method, &Uri) = (&parts.method, &parts.uri);
    let body = (!bytes.is_empty()).then(|| serde_json::from_slice(&bytes).expect("a JSON body"));
    record.requests.lock().expect("unpoisoned").push((format!("{method} {uri}"), body));
    let name = parts.headers.get(header::USER_AGENT).map(|name| name.to_str().expect("ASCII").to_owned());
    let key = parts.headers.get("idempotency-key").map(|key| key.to_str().expect("ASCII").to_owned());
    record.keys.lock().expect("unpoisoned").extend(key);
    record.user_agents.lock().expect("unpoisoned").push(name.unwrap_or_default());
    next.run(Request::from_parts(parts, bytes.into())).await
}

fn session(id: &str) -> Value {
    let dead = id == DEAD;
    json!({
        "id": id, "owner": "owner@localhost", "view": "Structured", "agent": "demo", "title": "", "cwd": "/tmp",
        "status": if dead { "Dead" } else { "Starting" }, "activity": null, "activity_detail": null,
        "end_reason": dead.then_some("exited"), "acp_session_id": null,
        "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z", "usage": null,
    })
}

async fn list() -> Json<Value> {
    Json(json!({"sessions": [session(LIVE), session(DEAD)]}))
}

async fn create() -> (StatusCode, Json<Value>) {
    (StatusCode::CREATED, Json(session(LIVE)))
}

async fn show(Path(id): Path<String>) -> Json<Value> {
    Json(if id == GARBAGE { json!({"id": 1}) } else { session(&id) })
}

fn item() -> Value {
    json!({
        "id": LIVE, "content": [{"type": "text", "text": "hi"}], "created_at": "2026-01-01T00:00:00Z",
        "by": {"account": "owner@localhost", "client": "cli"},
    })
}

async fn queue() -> Json<Value> {
    Json(json!({"items": [item()], "held": "failed"}))
}

/// The first two tries get no answer.
async fn queue_at_last(State(record): State<Arc<Record>>) -> (StatusCode, Json<Value>) {
    let tries = record.tries_to_queue.fetch_add(1, Ordering::SeqCst);
    assert!(tries >= 2, "this ends the connection without an answer");
    (StatusCode::CREATED, Json(item()))
}

async fn edit() -> Json<Value> {
    Json(item())
}

async fn kill(Path(id): Path<String>) -> StatusCode {
    assert!(id != GARBAGE, "this ends the connection without an answer");
    StatusCode::NO_CONTENT
}

async fn accept(Path(id): Path<String>) -> Response {
    match id.as_str() {
        DEAD => not_structured(),
        GARBAGE => (StatusCode::INTERNAL_SERVER_ERROR, "oh").into_response(),
        _ => StatusCode::ACCEPTED.into_response(),
    }
}

fn not_structured() -> Response {
    let problem = json!({
        "status": 409, "title": "Conflict", "code": "not_structured", "detail": "the session is dead",
        "request_id": "r",
    });
    (StatusCode::CONFLICT, Json(problem)).into_response()
}

async fn hunks(Path((_, row)): Path<(String, String)>) -> Json<Value> {
    Json(json!({"row_id": row, "cursor": 4, "diffs": []}))
}

async fn agents() -> Json<Value> {
    let demo = json!({
        "key": "demo", "name": "Demo", "default": true, "program": null, "install": null, "sign_in": null,
    });
    Json(json!({"agents": [demo]}))
}

async fn socket(
    State(record): State<Arc<Record>>,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
    upgrade: WebSocketUpgrade,
) -> Response {
    record.socket_queries.lock().expect("unpoisoned").push(query.unwrap_or_default());
    match id.as_str() {
        DEAD => not_structured(),
        GARBAGE => upgrade.on_upgrade(async |mut socket| send(&mut socket, "{\"type\":\"Nothing\"}").await),
        _ => upgrade.on_upgrade(async move |socket| {
            record.sockets_open.fetch_add(1, Ordering::SeqCst);
            play(socket, record.sockets_opened.fetch_add(1, Ordering::SeqCst) + 1).await;
            record.sockets_open.fetch_sub(1, Ordering::SeqCst);
        }),
    }
}

/// The n-th socket: a snapshot, a state, a ping, an update, and an end of its own kind.
async fn play(mut socket: WebSocket, n: usize) {
    // The row's object and its `a` around the nested arrays make up the rest of the depth.
    let nested = format!("{}{}", "[".repeat(ROW_DEPTH - 1), "]".repeat(ROW_DEPTH - 1));
    let row = format!(r#"{{"id":"notice:1","kind":"Notice","data":{{"a":{nested}}}}}"#);
    send(
        &mut socket,
        &format!(r#"{{"type":"TranscriptSnapshot","cursor":{n},"rows":[{row}],"times":{{}}}}"#),
    )
    .await;
    let state = state(n);
    send(&mut socket, &json!({"type": "ReducedState", "state": state}).to_string()).await;
    // The second ends while nothing of the client is under way to it, so that all it sent is read.
    if n != 2 && socket.send(Message::Ping(Bytes::new())).await.is_err() {
        return;
    }
    let update = json!({
        "type": "ProjectionUpdate", "cursor": n + 1, "transcript": [], "state": state, "times": {},
    });
    send(&mut socket, &update.to_string()).await;
    let code = match n {
        1 => 1012,
        2 => return,
        _ => 4410,
    };
    if socket.send(Message::Close(Some(CloseFrame { code, reason: "".into() }))).await.is_ok() {
        while let Some(Ok(_)) = socket.recv().await {}
    }
}

fn state(n: usize) -> Value {
    let turn = json!({
        "active": false, "origin": null, "responding": false, "thinking": false, "active_tool_calls": [],
        "turn_id": null, "started_at": null, "last_end": null,
    });
    json!({
        "turn": turn, "pending_approval": null, "plan": null, "usage": null, "context": null, "model": null,
        "mode": null, "config_options": null, "commands": null, "title": format!("socket {n}"),
    })
}

async fn send(socket: &mut WebSocket, text: &str) {
    // A client that hung up ends the play at the next read; nothing else is left to do.
    drop(socket.send(Message::Text(text.into())).await);
}
