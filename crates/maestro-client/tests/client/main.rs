//! The client against a small HTTP server on a Unix socket in a temporary directory.

mod server;

use maestro_client::{Client, ClientError, LiveFrame, StructuredEvent, StructuredStream, UnreadableAnswer};
use maestro_protocol::{
    ConfigValue, CreateSession, Decision, Deltas, EditQueueItem, EndReason, Frame, Nonce, ProblemCode,
    PromptBody, QueueHold, ReducedState, ReplayQuery, RowId, SessionId, SetConfig, SetMode, SetModel, Status,
    TextFrame, View, WatchQuery,
};
use serde_json::json;
use server::{DEAD, GARBAGE, LIVE, Server};
use std::{collections::BTreeMap, os::unix::net::UnixListener, time::Duration};

fn id(text: &str) -> SessionId {
    text.parse().expect("a session id")
}

async fn client(server: &Server) -> Client {
    Client::connect(server.socket(), "maestro-cli/9.9.9").await.expect("the server listens")
}

/// Waits for a condition that the server's record must reach, with a limit.
async fn eventually(mut holds: impl FnMut() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), waiting).await.expect("the condition holds in time");
}

#[tokio::test]
async fn every_request_has_its_method_path_body_and_client_name() {
    let server = Server::start();
    let client = client(&server).await;
    let live = id(LIVE);
    let nonce: Nonce = LIVE.parse().expect("a nonce");

    let wish = CreateSession {
        view: View::Structured,
        agent: Some("demo".parse().expect("an agent key")),
        cwd: Some("/tmp".into()),
        env: Some(BTreeMap::from([("A".into(), "1".into())])),
        title: None,
        mode: None,
        model: Some("m".into()),
        prompt: None,
    };
    assert_eq!(client.create_session(&wish).await.expect("created").status, Status::Starting);
    assert_eq!(client.session(live).await.expect("found").id, live);
    assert_eq!(client.sessions().await.expect("listed").sessions.len(), 2);
    client.rename(live, "new").await.expect("renamed");
    client.prompt(live, &PromptBody { text: Some("hi".into()), content: None }).await.expect("prompted");
    client.cancel(live).await.expect("cancelled");
    client.set_mode(live, &SetMode { mode_id: "plan".into() }).await.expect("set");
    client.set_model(live, &SetModel { model_id: "opus".into() }).await.expect("set");
    let config = SetConfig { config_id: "fast".into(), value: ConfigValue::Flag(true) };
    client.set_config(live, &config).await.expect("set");
    client.answer(live, nonce, Decision::Option("x".into())).await.expect("answered");
    client.answer(live, nonce, Decision::AllowForSession).await.expect("answered");
    client
        .replay(live, ReplayQuery { since: Some(3), limit: Some(2), ..ReplayQuery::default() })
        .await
        .expect("replayed");
    let row = RowId::tool("a/b c");
    let hunks = client.hunks(live, &row).await.expect("hunks");
    assert_eq!((hunks.row_id, hunks.cursor), (row, 4));
    client.restart(live).await.expect("restarted");
    client.kill(live).await.expect("killed");
    assert_eq!(client.agents().await.expect("agents").agents.len(), 1);

    let seen = server.requests();
    let expect = json!([
        ["POST /api/sessions", {"view": "Structured", "agent": "demo", "cwd": "/tmp", "env": {"A": "1"}, "model": "m"}],
        [format!("GET /api/sessions/{LIVE}"), null],
        ["GET /api/sessions", null],
        [format!("PATCH /api/sessions/{LIVE}"), {"title": "new"}],
        [format!("POST /api/sessions/{LIVE}/structured/prompt"), {"text": "hi"}],
        [format!("POST /api/sessions/{LIVE}/structured/cancel"), null],
        [format!("POST /api/sessions/{LIVE}/structured/mode"), {"mode_id": "plan"}],
        [format!("POST /api/sessions/{LIVE}/structured/model"), {"model_id": "opus"}],
        [format!("POST /api/sessions/{LIVE}/structured/config"), {"config_id": "fast", "value": true}],
        [format!("POST /api/sessions/{LIVE}/structured/approvals/{LIVE}"), {"decision": {"option": "x"}}],
        [format!("POST /api/sessions/{LIVE}/structured/approvals/{LIVE}"), {"decision": "AllowForSession"}],
        [format!("GET /api/sessions/{LIVE}/structured/replay?since=3&limit=2"), null],
        [format!("GET /api/sessions/{LIVE}/structured/rows/tool%3Aa%2Fb%20c/hunks"), null],
        [format!("POST /api/sessions/{LIVE}/restart"), null],
        [format!("DELETE /api/sessions/{LIVE}"), null],
        ["GET /api/agents", null],
    ]);
    assert_eq!(json!(seen), expect);
    assert_eq!(server.user_agents(), ["maestro-cli/9.9.9"]);
}

#[tokio::test]
async fn the_queue_has_its_requests() {
    let server = Server::start();
    let client = client(&server).await;
    let (live, item) = (id(LIVE), LIVE.parse().expect("an id"));
    let queue = client.queue(live).await.expect("read");
    assert_eq!((queue.items.len(), queue.held), (1, Some(QueueHold::Failed)));
    let edit = EditQueueItem { position: Some(0), ..EditQueueItem::default() };
    client.edit_queued(live, item, &edit).await.expect("edited");
    client.remove_queued(live, item).await.expect("removed");
    client.resume_queue(live).await.expect("resumed");
    let expect = json!([
        [format!("GET /api/sessions/{LIVE}/queue"), null],
        [format!("PATCH /api/sessions/{LIVE}/queue/{LIVE}"), {"position": 0}],
        [format!("DELETE /api/sessions/{LIVE}/queue/{LIVE}"), null],
        [format!("POST /api/sessions/{LIVE}/queue/resume"), null],
    ]);
    assert_eq!(json!(server.requests()), expect);
    assert_eq!(server.keys(), Vec::<String>::new(), "nothing of these starts something");
}

#[tokio::test]
async fn what_starts_something_is_tried_again_with_one_key() {
    let server = Server::start();
    let client = client(&server).await;
    let message = PromptBody { text: Some("hi".into()), content: None };
    client.queue_message(id(LIVE), &message).await.expect("at last");
    let sent = json!([format!("POST /api/sessions/{LIVE}/queue"), {"text": "hi"}]);
    assert_eq!(json!(server.requests()), json!([sent, sent, sent]));
    let keys = server.keys();
    assert!(keys.len() == 3 && keys.iter().all(|key| *key == keys[0] && !key.is_empty()), "{keys:?}");
    client.prompt(id(LIVE), &message).await.expect("prompted");
    client.restart(id(LIVE)).await.expect("restarted");
    let keys = server.keys();
    assert!(keys.len() == 5 && keys[2] != keys[3] && keys[3] != keys[4], "each wish has its own: {keys:?}");
}

#[tokio::test]
async fn refusals_and_unreadable_answers_are_told_apart() {
    let server = Server::start();
    let client = client(&server).await;

    let dead = client.session(id(DEAD)).await.expect("facts of a dead session are served");
    assert_eq!((dead.status, dead.end_reason), (Status::Dead, Some(EndReason::Exited)));
    let refused = client.prompt(id(DEAD), &PromptBody::default()).await.expect_err("dead");
    assert_eq!(refused.code(), Some(ProblemCode::NotStructured));
    assert_eq!(refused.to_string(), "the session is dead");

    let unreadable = client.session(id(GARBAGE)).await.expect_err("garbage");
    assert!(
        matches!(&unreadable, ClientError::Unreadable { source: UnreadableAnswer::Json(_), .. }),
        "{unreadable:?}"
    );
    let no_problem = client.cancel(id(GARBAGE)).await.expect_err("no problem document");
    assert!(
        matches!(
            &no_problem,
            ClientError::Unreadable { source: UnreadableAnswer::NoProblem { status: 500 }, .. }
        ),
        "{no_problem:?}"
    );
    let broken_off = client.kill(id(GARBAGE)).await.expect_err("the server closes the connection");
    assert!(matches!(&broken_off, ClientError::BrokenOff { .. }), "{broken_off:?}");
}

#[tokio::test]
async fn nobody_there_is_unreachable() {
    let dir = tempfile::tempdir().expect("a directory");
    let check = async |name: &str| {
        let error = Client::connect(&dir.path().join(name), "t/1").await.expect_err("nobody there");
        assert!(matches!(&error, ClientError::Unreachable { .. }), "{error:?}");
    };
    check("missing.sock").await;
    drop(UnixListener::bind(dir.path().join("stale.sock")).expect("bound"));
    check("stale.sock").await;
    std::fs::write(dir.path().join("file.sock"), "").expect("written");
    check("file.sock").await;
}

#[tokio::test]
async fn a_socket_of_another_user_is_refused_before_anything_is_sent() {
    if !rustix::process::geteuid().is_root() {
        return; // Only root can give a socket away.
    }
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("foreign.sock");
    let listener = UnixListener::bind(&socket).expect("bound");
    listener.set_nonblocking(true).expect("set");
    std::os::unix::fs::chown(&socket, Some(12345), None).expect("given away");
    let error = Client::connect(&socket, "t/1").await.expect_err("not ours");
    assert!(matches!(&error, ClientError::ForeignSocket { uid: 12345, .. }), "{error:?}");
    assert!(listener.accept().is_err(), "no connection was opened");
}

fn kind(frame: LiveFrame) -> String {
    match frame {
        LiveFrame::Plain(Frame::TranscriptSnapshot { cursor, .. }) => format!("snapshot {cursor}"),
        LiveFrame::Plain(Frame::ReducedState { .. }) => "state".into(),
        LiveFrame::Plain(Frame::ProjectionUpdate { cursor, .. }) => format!("update {cursor}"),
        LiveFrame::Text(frame) => format!("text {}", kind(LiveFrame::Plain(whole(frame)))),
    }
}

/// The frame without what only the text form can say.
fn whole(frame: TextFrame) -> Frame {
    match frame {
        TextFrame::TranscriptSnapshot { cursor, rows, times, older } => {
            Frame::TranscriptSnapshot { cursor, rows, times, older }
        }
        TextFrame::ReducedState { state } => Frame::ReducedState { state },
        TextFrame::ProjectionUpdate { cursor, transcript, times, .. } => {
            Frame::ProjectionUpdate { cursor, transcript, state: ReducedState::default(), times }
        }
    }
}

#[tokio::test]
async fn a_resync_begins_again_with_a_snapshot_and_asks_as_before() {
    let server = Server::start();
    let query = WatchQuery { deltas: Some(Deltas::Text), tail: Some(7) };
    let mut stream = client(&server).await.structured(id(LIVE), query).await.expect("opened");
    let next = async |stream: &mut StructuredStream| match stream.next().await.expect("no error") {
        StructuredEvent::Frame(frame) => kind(*frame),
        other => panic!("not a frame: {other:?}"),
    };
    assert_eq!(next(&mut stream).await, "text snapshot 1");
    stream.set_tail(None);
    stream.resync();
    assert_eq!(next(&mut stream).await, "text snapshot 2");
    assert_eq!(server.socket_queries(), ["deltas=text&tail=7", "deltas=text"]);
}

#[tokio::test]
async fn a_stream_gives_frames_then_a_new_snapshot_after_a_loss_then_the_death() {
    let server = Server::start();
    let mut stream = client(&server).await.structured(id(LIVE), WatchQuery::default()).await.expect("opened");
    let mut told = Vec::new();
    loop {
        let event = tokio::time::timeout(Duration::from_secs(20), stream.next()).await.expect("in time");
        match event.expect("no error") {
            StructuredEvent::Frame(frame) => told.push(kind(*frame)),
            StructuredEvent::Reconnecting => told.push("reconnecting".into()),
            StructuredEvent::Dead => break,
        }
    }
    // The server's sockets: the first ends with 1012, the second without a word, the third with 4410.
    let one = |n: u64| [format!("snapshot {n}"), "state".into(), format!("update {}", n + 1)];
    let lost = ["reconnecting".to_owned()];
    assert_eq!(told, [&one(1)[..], &lost, &one(2), &lost, &one(3)].concat());
    assert_eq!(stream.next().await.expect("still dead"), StructuredEvent::Dead);
}

#[tokio::test]
async fn a_dead_session_has_no_stream() {
    let server = Server::start();
    let client = client(&server).await;
    let refused = client.structured(id(DEAD), WatchQuery::default()).await.err().expect("dead");
    assert_eq!(refused.code(), Some(ProblemCode::NotStructured));
    let refused = client.snapshot(id(DEAD)).await.expect_err("dead");
    assert_eq!(refused.code(), Some(ProblemCode::NotStructured));
    let unreadable = client.snapshot(id(GARBAGE)).await.expect_err("garbage");
    assert!(matches!(unreadable, ClientError::Unreadable { .. }), "{unreadable:?}");
}

#[tokio::test]
async fn a_snapshot_reads_two_frames_and_hangs_up() {
    let server = Server::start();
    let model = client(&server).await.snapshot(id(LIVE)).await.expect("a snapshot");
    assert_eq!((model.cursor(), model.rows().len()), (1, 1));
    assert_eq!(model.state().title.as_deref(), Some("socket 1"));
    eventually(|| server.open_sockets() == 0).await;
}

#[tokio::test]
async fn deep_nesting_is_read() {
    let server = Server::start();
    let model = client(&server).await.snapshot(id(LIVE)).await.expect("a snapshot");
    let depth = maestro_protocol::json::depth(model.rows()[0].data.to_string().as_bytes());
    assert_eq!(depth, server::ROW_DEPTH);
}
