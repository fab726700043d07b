use super::Api;
use crate::{
    clock::{Clock, Sources},
    server,
};
use http::{Method, StatusCode};
use maestro_protocol::{EndReason, Health, HealthStatus, Session, Timestamp, TroubleKind};
use serde_json::json;
use std::{
    fs,
    io::Write as _,
    os::{fd::OwnedFd, unix::net::UnixStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::net::UnixListener;
use tokio_util::sync::CancellationToken;

impl Api {
    async fn health(&self) -> Health {
        let answer = self.send(Method::GET, "/api/health", "").await;
        assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
        serde_json::from_slice(&answer.body).expect("a health document")
    }

    async fn look(&self, session: &Session) -> Session {
        let answer = self.send(Method::GET, &format!("/api/sessions/{}", session.id), "").await;
        serde_json::from_slice(&answer.body).expect("a session")
    }
}

#[tokio::test]
async fn a_daemon_that_is_well_says_so() {
    let api = Api::start();
    api.session().await;
    let health = api.health().await;
    assert_eq!((health.status, health.sessions.dead, health.troubles), (HealthStatus::Ok, 1, Vec::new()));
    assert_eq!(health.version, env!("CARGO_PKG_VERSION"));
    assert!(health.disk.is_some_and(|disk| disk.total_bytes > 0));
}

/// A look changes nothing of a session, and what needs the log says why it cannot be.
#[tokio::test]
async fn a_log_that_cannot_be_opened_has_a_clear_answer_and_can_be_mended() {
    let api = Api::start();
    let session = api.session().await;
    let log = api.dir.path().join(format!("{}.events.jsonl", session.id));
    fs::create_dir(&log).expect("a directory in the way");
    let path = format!("/api/sessions/{}", session.id);
    let rename = json!({"title": "new"}).to_string();

    let answer = api.send(Method::POST, &format!("{path}/structured/prompt"), r#"{"text":"x"}"#).await;
    assert_eq!(answer.refusal(), "409 not_structured");
    assert_eq!(api.look(&session).await, session, "a look changes nothing");
    for _ in 0..2 {
        let answer = api.send(Method::PATCH, &path, rename.clone()).await;
        assert_eq!(answer.refusal(), "409 log_failed");
        let answer = api.send(Method::POST, &format!("{path}/restart"), "").await;
        assert_eq!(answer.refusal(), "409 log_failed");
    }
    assert_eq!(api.look(&session).await, session);
    let health = api.health().await;
    assert_eq!(health.status, HealthStatus::Degraded);
    let kinds: Vec<TroubleKind> = health.troubles.iter().map(|trouble| trouble.kind).collect();
    assert_eq!(kinds, [TroubleKind::LogUnopened]);

    fs::remove_dir(&log).expect("out of the way");
    let answer = api.send(Method::POST, &format!("{path}/restart"), "").await;
    assert_eq!(answer.status, StatusCode::ACCEPTED, "{answer:?}");
    assert_eq!(api.look(&session).await.end_reason, Some(EndReason::AdapterMissing));
    let answer = api.send(Method::PATCH, &path, rename).await;
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
    assert_eq!(api.health().await.status, HealthStatus::Ok);
}

#[tokio::test]
async fn the_name_of_a_session_that_never_started_can_be_taken_away() {
    let api = Api::start();
    let wish = json!({"view": "Structured", "cwd": api.dir.path(), "title": "mine", "env": {"PATH": super::NOWHERE}});
    let answer = api.send(Method::POST, "/api/sessions", wish.to_string()).await;
    let session: Session = serde_json::from_slice(&answer.body).expect("a session");
    assert_eq!(session.title, "mine");
    let answer = api.send(Method::PATCH, &format!("/api/sessions/{}", session.id), r#"{"title":""}"#).await;
    assert_eq!(answer.json()["title"], "");
    assert_eq!(api.look(&session).await.title, "");
}

/// The system's clock, that breaks once when it is told to.
#[derive(Debug, Default)]
struct Fragile {
    breaks: AtomicBool,
}

impl Clock for Fragile {
    fn now(&self) -> Timestamp {
        assert!(!self.breaks.swap(false, SeqCst), "the clock breaks, as the test wants");
        Sources::system().clock.now()
    }
}

#[tokio::test]
async fn an_actor_that_breaks_off_is_one_dead_session_with_a_closed_log() {
    let clock = Arc::new(Fragile::default());
    let api = Api::start_with(Sources { clock: Arc::clone(&clock) as Arc<dyn Clock>, ..Sources::system() });
    let session = api.session().await;
    let log = api.dir.path().join(format!("{}.events.jsonl", session.id));
    let started =
        r#"{"maestroEvent":"turn","phase":"started","origin":"person","at":"2026-01-01T00:00:00Z"}"#;
    fs::write(&log, format!("{started}\n")).expect("a log with an open turn");
    let path = format!("/api/sessions/{}", session.id);
    clock.breaks.store(true, SeqCst);
    let answer = api.send(Method::PATCH, &path, r#"{"title":"new"}"#).await;
    assert_eq!(answer.status, StatusCode::OK, "the next actor does it: {answer:?}");
    assert!(!clock.breaks.load(SeqCst), "it broke");
    assert_eq!(api.look(&session).await.end_reason, Some(EndReason::DaemonCrash));
    let closed = async {
        while !fs::read_to_string(&log).expect("the log").contains(r#""reason":"interrupted""#) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), closed).await.expect("the log is closed");
}

#[tokio::test]
async fn a_listener_that_breaks_ends_the_server() {
    let api = Api::start();
    // A socket that does not listen, with something to be accepted as it seems.
    let (near, mut far) = UnixStream::pair().expect("a pair");
    near.set_nonblocking(true).expect("a setting");
    far.write_all(b"x").expect("written");
    let listener = UnixListener::from_std(OwnedFd::from(near).into()).expect("a listener");
    let running = tokio::spawn(server::run(
        listener,
        api.registry.clone(),
        api.audit.clone(),
        CancellationToken::new(),
    ));
    let ended = tokio::time::timeout(Duration::from_secs(30), running).await.expect("in time");
    let error = ended.expect("no panic").expect_err("it cannot go on");
    assert!(error.to_string().contains("restart the daemon"), "{error}");
}
