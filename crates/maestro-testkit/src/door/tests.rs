use super::*;
use serde_json::json;
use tokio::net::UnixListener;

const LIMIT: Duration = Duration::from_secs(10);

/// A door to a listener that serves one connection with `serve`.
async fn with_server<S, F, R>(serve: S, visit: impl AsyncFnOnce(Door) -> R) -> R
where
    S: FnOnce(UnixStream) -> F,
    F: Future<Output = ()>,
{
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    let serving = async { serve(listener.accept().await.unwrap().0).await };
    let (result, ()) = tokio::join!(visit(Door::new(path)), serving);
    result
}

/// Reads until `end` stands at the end, then writes `answer`.
async fn say(mut stream: UnixStream, end: &str, answer: &str) -> String {
    let mut read = Vec::new();
    while !read.ends_with(end.as_bytes()) {
        assert!(stream.read_buf(&mut read).await.unwrap() > 0, "closed after {read:?}");
    }
    stream.write_all(answer.as_bytes()).await.unwrap();
    String::from_utf8(read).unwrap()
}

#[tokio::test]
async fn a_request_is_answered() {
    let serve = async |stream| {
        let asked = say(
            stream,
            r#"{"a":1}"#,
            "HTTP/1.1 409 Conflict\r\ncontent-length: 15\r\nx-y: z\r\n\r\n{\"code\":\"busy\"}",
        )
        .await;
        assert!(asked.starts_with("POST /api/x HTTP/1.1\r\nhost: localhost\r\n"), "{asked}");
        assert!(asked.contains("content-type: application/json\r\n"), "{asked}");
    };
    let answer = with_server(serve, async |door| door.post("/api/x", &json!({"a": 1})).await).await.unwrap();
    let answer = answer.expect(409);
    assert_eq!(answer.headers["x-y"], "z");
    assert_eq!(answer.json(), json!({"code": "busy"}));
}

#[tokio::test]
async fn raw_bytes_go_as_they_are() {
    let serve = async |stream| drop(say(stream, "BAD\n", "HTTP/1.1 400 Bad Request\r\n\r\n").await);
    let answer = with_server(serve, async |door| door.raw(b"BAD\n").await).await.unwrap();
    assert_eq!(answer, b"HTTP/1.1 400 Bad Request\r\n\r\n");
}

#[tokio::test]
async fn a_refused_socket_is_its_answer() {
    let serve = async |stream| {
        drop(say(stream, "\r\n\r\n", "HTTP/1.1 409 Conflict\r\ncontent-length: 2\r\n\r\n{}").await);
    };
    let refused = with_server(serve, async |door| door.socket("/api/s").await).await.unwrap_err();
    assert!(matches!(refused, DoorError::Refused(answer) if answer.status == 409));
}

#[tokio::test]
async fn a_socket_brings_data_and_its_close_code() {
    let serve = async |stream| {
        let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
        socket.send(Message::Ping(Bytes::new())).await.unwrap();
        socket.send(Message::text("hello")).await.unwrap();
        assert!(matches!(socket.next().await, Some(Ok(Message::Pong(_)))));
        let frame = tungstenite::protocol::CloseFrame { code: 4410.into(), reason: "dead".into() };
        socket.close(Some(frame)).await.unwrap();
        while let Some(Ok(_)) = socket.next().await {}
    };
    with_server(serve, async |door| {
        let mut socket = door.socket("/api/s").await.unwrap();
        assert_eq!(socket.next(LIMIT).await.unwrap(), Incoming::Data(Bytes::from_static(b"hello")));
        assert_eq!(socket.next(LIMIT).await.unwrap(), Incoming::Closed(Some(4410)));
    })
    .await;
}

#[tokio::test]
async fn nobody_at_home_is_an_error() {
    let error = Door::new("/nonexistent/socket").get("/").await.unwrap_err();
    assert!(matches!(error, DoorError::Connect { .. }));
}

#[tokio::test]
async fn an_approval_is_decided_at_its_route() {
    let serve = async |stream| {
        let asked = say(stream, r#"{"decision":{"option":"a"}}"#, "HTTP/1.1 204 No Content\r\n\r\n").await;
        assert!(asked.starts_with("POST /api/sessions/s/structured/approvals/n HTTP/1.1\r\n"), "{asked}");
    };
    let answer =
        with_server(serve, async |door| door.decide("s", "n", json!({"option": "a"})).await).await.unwrap();
    assert_eq!(answer.expect(204).text(), "");
}
