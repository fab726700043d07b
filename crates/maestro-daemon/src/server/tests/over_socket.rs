//! The server on a real Unix socket.

use super::Api;
use crate::server::{bind, run};
use std::{
    io::{ErrorKind, Read as _, Write as _},
    os::unix::net::UnixStream as StdStream,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
    task::JoinHandle,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

/// Above everything that a healthy server takes here.
const LIMIT: Duration = Duration::from_secs(30);

struct Served {
    api: Api,
    path: PathBuf,
    shutdown: CancellationToken,
    server: JoinHandle<()>,
}

impl Served {
    fn start() -> Self {
        let api = Api::start();
        let path = api.dir.path().join("daemon.sock");
        let listener = bind(&path).expect("a socket");
        let shutdown = CancellationToken::new();
        let running = run(listener, api.registry.clone(), api.audit.clone(), shutdown.clone());
        let server = tokio::spawn(async move { running.await.expect("the server ends well") });
        Self { api, path, shutdown, server }
    }

    async fn connect(&self) -> UnixStream {
        UnixStream::connect(&self.path).await.expect("a connection")
    }

    async fn ended(self) {
        self.shutdown.cancel();
        timeout(LIMIT, self.server).await.expect("in time").expect("no panic");
    }
}

/// Sends `text` and reads until the server closes, which it may do before it has read everything.
async fn talk(mut stream: UnixStream, text: &[u8]) -> String {
    let mut seen = Vec::new();
    let talking = async {
        if let Err(error) = stream.write_all(text).await {
            assert_eq!(error.kind(), ErrorKind::BrokenPipe);
        }
        if let Err(error) = stream.read_to_end(&mut seen).await {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        }
    };
    timeout(LIMIT, talking).await.expect("in time");
    String::from_utf8(seen).expect("text")
}

fn head(method: &str, path: &str, more: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{more}\r\n")
}

#[tokio::test]
async fn the_daemons_own_user_is_the_owner() {
    let served = Served::start();
    let answer = talk(served.connect().await, head("GET", "/api/sessions", "").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with(r#"{"sessions":[]}"#), "{answer}");
    served.ended().await;
}

#[tokio::test]
async fn a_body_that_is_too_long_gets_its_answer() {
    let served = Served::start();
    let length = 24 * 1024 * 1024;
    let more = format!("content-type: application/json\r\ncontent-length: {length}\r\n");
    let mut request = head("POST", "/api/sessions", &more).into_bytes();
    request.resize(request.len() + length, b'x');
    let answer = talk(served.connect().await, &request).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    assert_eq!(served.api.count().await, 0);
    served.ended().await;
}

#[tokio::test]
async fn heads_are_bounded() {
    let served = Served::start();
    let many = "x: y\r\n".repeat(100);
    let answer = talk(served.connect().await, head("GET", "/api/sessions", &many).as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    let long = format!("x: {}\r\n", "y".repeat(100_000));
    let answer = talk(served.connect().await, head("GET", "/api/sessions", &long).as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    served.ended().await;
}

#[tokio::test(start_paused = true)]
async fn half_a_head_and_half_a_body_do_not_hold_a_connection() {
    let served = Served::start();
    let start = tokio::time::Instant::now();
    assert_eq!(talk_slowly(served.connect().await, b"GET /api/sess").await, "");
    assert_eq!(start.elapsed().as_secs(), 10);

    let start = tokio::time::Instant::now();
    let more = "content-type: application/json\r\ncontent-length: 100\r\n";
    let half = head("POST", "/api/sessions", more) + "{\"view\":";
    let answer = talk_slowly(served.connect().await, half.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("did not arrive"), "{answer}");
    assert_eq!(start.elapsed().as_secs(), 30);
}

/// As [`talk`], under paused time: as long as the server takes.
async fn talk_slowly(mut stream: UnixStream, text: &[u8]) -> String {
    let mut seen = String::new();
    stream.write_all(text).await.expect("written");
    stream.read_to_string(&mut seen).await.expect("an answer");
    seen
}

#[tokio::test(start_paused = true)]
async fn answers_that_nobody_reads_end_the_connection() {
    const REQUESTS: usize = 64;
    let served = Served::start();
    let request = "GET /api/openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let check = async |unread: Duration| {
        let mut stream = served.connect().await;
        stream.write_all(request.repeat(REQUESTS).as_bytes()).await.expect("written");
        tokio::time::sleep(unread).await;
        let mut seen = Vec::new();
        if let Err(error) = stream.read_to_end(&mut seen).await {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        }
        String::from_utf8_lossy(&seen).matches("HTTP/1.1 200").count()
    };
    assert_eq!(check(Duration::from_secs(20)).await, REQUESTS, "slow is not gone");
    let answered = check(Duration::from_secs(40)).await;
    assert!(answered < REQUESTS / 2, "{answered} answers");
    served.ended().await;
}

#[tokio::test]
async fn a_shutdown_ends_idle_connections_and_accepts_no_more() {
    let served = Served::start();
    let mut idle = served.connect().await;
    idle.write_all(b"GET /api/agents HTTP/1.1\r\nhost: localhost\r\n\r\n").await.expect("written");
    let mut some = [0; 16];
    idle.read_exact(&mut some).await.expect("an answer");
    let path = served.path.clone();
    served.ended().await;
    let mut rest = Vec::new();
    idle.read_to_end(&mut rest).await.expect("the connection ends");
    assert!(UnixStream::connect(path).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_five_seconds_for_a_request_and_no_longer() {
    let served = Served::start();
    let mut slow = served.connect().await;
    let more = "content-type: application/json\r\ncontent-length: 100\r\n";
    slow.write_all((head("POST", "/api/sessions", more) + "{").as_bytes()).await.expect("written");
    // Long enough for the request to be under way: paused time goes on only when nothing else can.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let start = tokio::time::Instant::now();
    served.ended().await;
    assert_eq!(start.elapsed().as_secs(), 5);
    assert_eq!(slow.read(&mut [0; 16]).await.expect("the connection ends"), 0);
}

/// A process whose environment has an agent's marker may read and not act.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_with_an_agents_marker_is_an_agent() {
    let served = Served::start();
    let socket = served.path.clone();
    let play = |role: Option<&'static str>| {
        let socket = socket.clone();
        tokio::task::spawn_blocking(move || play_child(&socket, role))
    };
    assert_eq!(play(Some("agent")).await.expect("played"), "GET 200 POST 403");
    assert_eq!(play(None).await.expect("played"), "GET 200 POST 400");
    served.ended().await;
}

/// Runs [`child`] as a process of its own and gives what it saw.
fn play_child(socket: &Path, role: Option<&str>) -> String {
    let mut command = Command::new(std::env::current_exe().expect("the test's own program"));
    command.args(["--exact", "server::tests::over_socket::child", "--ignored", "--nocapture"]);
    command.env("TEST_SOCKET", socket);
    if role.is_some() {
        command.env(maestro_process::SESSION_VARIABLE, uuid::Uuid::nil().to_string());
        command.env(maestro_process::SPAWN_VARIABLE, uuid::Uuid::nil().to_string());
    }
    let output = command.output().expect("a child");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let seen = text.lines().find_map(|line| line.split("saw: ").nth(1)).map(str::to_owned);
    seen.unwrap_or_else(|| panic!("the child says nothing: {text}"))
}

#[test]
#[ignore = "the other process of a_process_with_an_agents_marker_is_an_agent"]
fn child() {
    let Some(socket) = std::env::var_os("TEST_SOCKET") else { return };
    let status = |method: &str, more: &str, body: &str| {
        let mut stream = StdStream::connect(&socket).expect("a connection");
        let request = head(method, "/api/sessions", more) + body;
        stream.write_all(request.as_bytes()).expect("written");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer.split(' ').nth(1).unwrap_or_default().to_owned()
    };
    let get = status("GET", "", "");
    let post = status("POST", "content-type: application/json\r\ncontent-length: 2\r\n", "{}");
    println!("saw: GET {get} POST {post}");
}
