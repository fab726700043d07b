//! The plainest possible client of the daemon's socket. It knows HTTP, JSON and a few routes.

mod session;

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};
use thiserror::Error;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
    time::timeout,
};
use tokio_tungstenite::{
    WebSocketStream, client_async_with_config,
    tungstenite::{self, Message, protocol::WebSocketConfig},
};

/// How long an answer may take. Longer than any answer of the API waits for by rule.
const ANSWER_LIMIT: Duration = Duration::from_secs(90);

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum DoorError {
    /// Nobody listens at the socket.
    #[error("no connection to {}", path.display())]
    Connect {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The exchange broke off, or was no HTTP.
    #[error("the exchange with the daemon broke off")]
    Http(#[source] hyper::Error),
    /// The bytes could not be exchanged.
    #[error("the exchange of raw bytes with the daemon broke off")]
    Raw(#[source] io::Error),
    /// The WebSocket broke, or was none.
    #[error("the WebSocket broke")]
    Socket(#[source] Box<tungstenite::Error>),
    /// The daemon refused the WebSocket with an ordinary answer.
    #[error("the daemon refused the WebSocket with {} {}", .0.status, .0.text())]
    Refused(Box<Answer>),
    /// The test's own request is not well-formed.
    #[error("the request cannot be built")]
    Request(#[source] http::Error),
    /// No answer in time.
    #[error("no answer within {ANSWER_LIMIT:?}")]
    TimedOut,
}

/// An HTTP answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
}

impl Answer {
    /// The body as text, whatever it is.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON; `null` if it is none.
    pub fn json(&self) -> Value {
        maestro_protocol::json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// The body as `T`. Panics with the whole answer if it is something else.
    #[track_caller]
    pub fn read<T: DeserializeOwned>(&self) -> T {
        match maestro_protocol::json::from_slice(&self.body) {
            Ok(value) => value,
            Err(error) => panic!("{error} in the answer {} {}", self.status, self.text()),
        }
    }

    /// The same answer, if it has this status. Panics with the whole answer if it has another.
    #[track_caller]
    #[expect(clippy::return_self_not_must_use, reason = "most tests want the assertion and not the answer")]
    pub fn expect(self, status: u16) -> Self {
        assert!(self.status == status, "not {status}, but {} {}", self.status, self.text());
        self
    }
}

/// The daemon's socket. Every request has a connection of its own.
#[derive(Debug, Clone)]
pub struct Door {
    socket: PathBuf,
}

impl Door {
    /// The door at this socket.
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        Self { socket: socket.into() }
    }

    /// Where the socket is.
    pub fn path(&self) -> &Path {
        &self.socket
    }

    async fn connect(&self) -> Result<UnixStream, DoorError> {
        let connected = UnixStream::connect(&self.socket).await;
        connected.map_err(|source| DoorError::Connect { path: self.socket.clone(), source })
    }

    /// `GET`.
    pub async fn get(&self, path: &str) -> Result<Answer, DoorError> {
        self.request(Method::GET, path, None).await
    }

    /// `POST` of JSON.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Answer, DoorError> {
        self.request(Method::POST, path, Some(body)).await
    }

    /// `POST` of JSON with an `Idempotency-Key`.
    pub async fn post_with_key(&self, path: &str, body: &Value, key: &str) -> Result<Answer, DoorError> {
        let request = Request::builder().method(Method::POST).uri(path).header(header::HOST, "localhost");
        let request = request.header(header::CONTENT_TYPE, "application/json").header("idempotency-key", key);
        self.send(request.body(Full::from(body.to_string())).map_err(DoorError::Request)?).await
    }

    /// `PATCH` of JSON.
    pub async fn patch(&self, path: &str, body: &Value) -> Result<Answer, DoorError> {
        self.request(Method::PATCH, path, Some(body)).await
    }

    /// `DELETE`.
    pub async fn delete(&self, path: &str) -> Result<Answer, DoorError> {
        self.request(Method::DELETE, path, None).await
    }

    /// Any method, with a JSON body or without one.
    pub async fn request(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answer, DoorError> {
        let mut request = Request::builder().method(method).uri(path).header(header::HOST, "localhost");
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let body = body.map(Value::to_string).unwrap_or_default();
        self.send(request.body(Full::from(body)).map_err(DoorError::Request)?).await
    }

    /// A request with headers and body of the caller's.
    pub async fn send(&self, request: Request<Full<Bytes>>) -> Result<Answer, DoorError> {
        timeout(ANSWER_LIMIT, self.exchange(request)).await.unwrap_or(Err(DoorError::TimedOut))
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Answer, DoorError> {
        let stream = TokioIo::new(self.connect().await?);
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(stream).await.map_err(DoorError::Http)?;
        let answered = async {
            let (head, body) = sender.send_request(request).await.map_err(DoorError::Http)?.into_parts();
            let body = body.collect().await.map_err(DoorError::Http)?.to_bytes();
            Ok(Answer { status: head.status, headers: head.headers, body })
        };
        // The connection works only while it is polled, and has nothing to say once the answer is here.
        tokio::pin!(answered);
        tokio::select! {
            answer = &mut answered => answer,
            ended = connection => match ended {
                Ok(()) => answered.await,
                Err(error) => Err(DoorError::Http(error)),
            },
        }
    }

    /// Writes raw bytes, closes the writing side, and reads until the daemon closes.
    pub async fn raw(&self, bytes: &[u8]) -> Result<Vec<u8>, DoorError> {
        let mut stream = self.connect().await?;
        let exchange = async {
            stream.write_all(bytes).await?;
            stream.shutdown().await?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await.map(|_| answer)
        };
        timeout(ANSWER_LIMIT, exchange)
            .await
            .map_or(Err(DoorError::TimedOut), |done| done.map_err(DoorError::Raw))
    }

    /// Opens a WebSocket. A refusal by an HTTP answer is [`DoorError::Refused`].
    pub async fn socket(&self, path: &str) -> Result<WebSocket, DoorError> {
        let stream = self.connect().await?;
        let config = WebSocketConfig::default().max_message_size(None).max_frame_size(None);
        let opening = client_async_with_config(format!("ws://localhost{path}"), stream, Some(config));
        match timeout(ANSWER_LIMIT, opening).await {
            Err(_elapsed) => Err(DoorError::TimedOut),
            Ok(Ok((stream, _))) => Ok(WebSocket { stream }),
            Ok(Err(tungstenite::Error::Http(answer))) => {
                let (head, body) = answer.into_parts();
                let body = Bytes::from(body.unwrap_or_default());
                Err(DoorError::Refused(Box::new(Answer { status: head.status, headers: head.headers, body })))
            }
            Ok(Err(error)) => Err(DoorError::Socket(Box::new(error))),
        }
    }
}

/// An open WebSocket.
#[derive(Debug)]
pub struct WebSocket {
    stream: WebSocketStream<UnixStream>,
}

impl WebSocket {
    /// The next data message. `Ok(None)`: the daemon closed without a close code; [`DoorError::TimedOut`]: nothing
    /// came within `limit`. Pings are answered on the way.
    pub async fn next(&mut self, limit: Duration) -> Result<Incoming, DoorError> {
        timeout(limit, self.next_data()).await.unwrap_or(Err(DoorError::TimedOut))
    }

    async fn next_data(&mut self) -> Result<Incoming, DoorError> {
        loop {
            match self.stream.next().await {
                None => return Ok(Incoming::Closed(None)),
                Some(Ok(Message::Text(text))) => return Ok(Incoming::Data(text.into())),
                Some(Ok(Message::Binary(bytes))) => return Ok(Incoming::Data(bytes)),
                Some(Ok(Message::Close(frame))) => {
                    return Ok(Incoming::Closed(frame.map(|frame| frame.code.into())));
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                Some(Err(error)) => return Err(DoorError::Socket(Box::new(error))),
            }
        }
    }

    /// Sends text, which no client of the API should do.
    pub async fn send(&mut self, text: &str) -> Result<(), DoorError> {
        let sent = self.stream.send(Message::text(text)).await;
        sent.map_err(|error| DoorError::Socket(Box::new(error)))
    }

    /// Closes.
    pub async fn close(mut self) -> Result<(), DoorError> {
        self.stream.close(None).await.map_err(|error| DoorError::Socket(Box::new(error)))
    }
}

/// What a WebSocket brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Incoming {
    /// The bytes of a text or binary message.
    Data(Bytes),
    /// The daemon closed, with this code if it gave one.
    Closed(Option<u16>),
}

#[cfg(test)]
mod tests;
