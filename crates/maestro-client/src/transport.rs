//! One connection per request: connecting to a Unix socket costs less than keeping a pool right.

use crate::{ClientError, UnreadableAnswer};
use bytes::Bytes;
use futures_util::future::{self, Either};
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use maestro_protocol::Problem;
use std::{
    io,
    os::unix::fs::{FileTypeExt as _, MetadataExt as _},
    path::Path,
    pin::pin,
    sync::Arc,
    time::Duration,
};
use tokio::net::UnixStream;

/// The longest a request may take. Killing a session waits for its processes, and a prompt waits for a cancelled turn
/// to settle; both have limits of a few seconds in the daemon.
const REQUEST_LIMIT: Duration = Duration::from_mins(1);

/// The longest answer that is read. A replay page ends at 4 MiB but holds at least one event, whose line may have
/// 8 MiB and appear in several deltas and in the state.
const ANSWER_MAX_BYTES: usize = 128 << 20;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Where the daemon listens and as whom to speak.
#[derive(Debug, Clone)]
pub(crate) struct Door {
    pub(crate) socket: Arc<Path>,
    pub(crate) user_agent: HeaderValue,
}

/// An answer with a success status.
pub(crate) struct Answer {
    pub(crate) route: String,
    pub(crate) body: Bytes,
}

impl Door {
    /// Opens a connection after checking who is at the other end.
    pub(crate) async fn dial(&self) -> Result<UnixStream, ClientError> {
        let socket = &self.socket;
        let unreachable = |source| ClientError::Unreachable { socket: socket.to_path_buf(), source };
        let foreign = |uid| ClientError::ForeignSocket { socket: socket.to_path_buf(), uid };
        let own_uid = rustix::process::geteuid().as_raw();

        let found = std::fs::symlink_metadata(socket).map_err(unreachable)?;
        if !found.file_type().is_socket() {
            return Err(unreachable(io::Error::new(io::ErrorKind::InvalidInput, "it is not a socket")));
        }
        if found.uid() != own_uid {
            return Err(foreign(found.uid()));
        }
        let stream = UnixStream::connect(socket).await.map_err(unreachable)?;
        let peer_uid = stream.peer_cred().map_err(unreachable)?.uid();
        if peer_uid != own_uid {
            return Err(foreign(peer_uid));
        }
        Ok(stream)
    }

    /// Sends one request and reads the whole answer; a refusal becomes [`ClientError::Problem`]. `key` is what a retry
    /// has in common with its first try.
    pub(crate) async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Option<Bytes>,
        key: Option<&HeaderValue>,
    ) -> Result<Answer, ClientError> {
        let route = format!("{method} {path}");
        let mut request = self.request(method, path, body);
        if let Some(key) = key {
            request.headers_mut().insert(IDEMPOTENCY_KEY, key.clone());
        }
        let work = async {
            let stream = self.dial().await?;
            let broken = |source| ClientError::BrokenOff { route: route.clone(), source };
            let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
            let exchange = pin!(async {
                let response = sender.send_request(request).await.map_err(broken)?;
                read_answer(&route, response).await
            });
            drive(exchange, connection).await
        };
        within(&route, work).await
    }

    /// A request with the headers that every request has.
    pub(crate) fn request(&self, method: Method, path: &str, body: Option<Bytes>) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::from(body.unwrap_or_default()));
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().expect("paths are built of route words, UUIDs and numbers");
        let headers = request.headers_mut();
        headers.insert(header::HOST, HeaderValue::from_static("localhost"));
        headers.insert(header::USER_AGENT, self.user_agent.clone());
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        request
    }
}

/// Runs `work` while the connection beneath it is kept moving. The connection may end first: what it read is kept.
pub(crate) async fn drive<T>(
    work: impl Future<Output = Result<T, ClientError>> + Unpin,
    connection: impl Future<Output = hyper::Result<()>>,
) -> Result<T, ClientError> {
    match future::select(work, pin!(connection)).await {
        Either::Left((done, _)) => done,
        // A connection that failed makes the work fail with the same cause, and says more there.
        Either::Right((_, work)) => work.await,
    }
}

/// Bounds the time of a request.
pub(crate) async fn within<T>(
    route: &str,
    work: impl Future<Output = Result<T, ClientError>>,
) -> Result<T, ClientError> {
    let timed_out = ClientError::TimedOut { route: route.into(), limit_s: REQUEST_LIMIT.as_secs() };
    tokio::time::timeout(REQUEST_LIMIT, work).await.unwrap_or(Err(timed_out))
}

/// Reads an answer's body and tells success from refusal.
pub(crate) async fn read_answer(route: &str, response: Response<Incoming>) -> Result<Answer, ClientError> {
    let status = response.status();
    let body = match Limited::new(response.into_body(), ANSWER_MAX_BYTES).collect().await {
        Ok(collected) => collected.to_bytes(),
        Err(error) => return Err(body_error(route, error)),
    };
    if status.is_success() {
        Ok(Answer { route: route.into(), body })
    } else {
        Err(refusal(route, status, &body))
    }
}

fn body_error(route: &str, error: Box<dyn std::error::Error + Send + Sync>) -> ClientError {
    let route = route.to_owned();
    match error.downcast::<hyper::Error>() {
        Ok(source) => ClientError::BrokenOff { route, source: *source },
        Err(other) => {
            debug_assert!(other.is::<LengthLimitError>(), "a limited body fails by its length or its inside");
            ClientError::Unreadable {
                route,
                source: UnreadableAnswer::TooLong { max_bytes: ANSWER_MAX_BYTES },
            }
        }
    }
}

/// The daemon's refusal, read from the body of its answer.
fn refusal(route: &str, status: StatusCode, body: &[u8]) -> ClientError {
    match serde_json::from_slice::<Problem>(body) {
        Ok(problem) => ClientError::Problem(Box::new(problem)),
        Err(_not_a_problem) => ClientError::Unreadable {
            route: route.into(),
            source: UnreadableAnswer::NoProblem { status: status.as_u16() },
        },
    }
}
