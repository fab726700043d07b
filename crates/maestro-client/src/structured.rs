use crate::{
    Client, ClientError, LiveFrame, TranscriptModel, UnreadableAnswer,
    transport::{drive, read_answer, within},
};
use futures_util::StreamExt as _;
use http::{HeaderValue, Method, StatusCode, header};
use hyper::{client::conn::http1, upgrade::Upgraded};
use hyper_util::rt::TokioIo;
use maestro_protocol::{Deltas, Frame, ProblemCode, SessionId, TextFrame, WatchQuery};
use std::{pin::pin, time::Duration};
use tokio::time::Instant;
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Message,
        handshake::{client::generate_key, derive_accept_key},
        protocol::{Role, WebSocketConfig},
    },
};

/// The daemon's close code for a session that died (CONTRACT §6.3).
const CLOSE_SESSION_DEAD: u16 = 4410;

/// How long a silent socket counts as alive. The daemon pings every 20 s, so two pings were missed.
const SILENCE_LIMIT: Duration = Duration::from_secs(45);

/// The wait before the first attempt to reconnect; it doubles up to [`RETRY_LONGEST`].
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_LONGEST: Duration = Duration::from_secs(2);

/// How long reconnecting goes on: enough for a daemon to be replaced by its next version.
const RECONNECT_LIMIT: Duration = Duration::from_secs(30);

/// The longest frame that is read. A snapshot is the whole transcript and has no limit of its own; this one keeps a
/// defect from filling the memory.
const FRAME_MAX_BYTES: usize = 1 << 30;

type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// What a stream tells next.
#[derive(Debug, Clone, PartialEq)]
pub enum StructuredEvent {
    /// A frame. The first after an opening, a [`StructuredEvent::Reconnecting`] or a [`StructuredStream::resync`] is a
    /// snapshot.
    Frame(Box<LiveFrame>),
    /// The connection was lost; the stream tries to get it back.
    Reconnecting,
    /// The session is dead. The stream tells this again however often it is asked.
    Dead,
}

/// The live frames of one session. A lost connection is opened again, with growing waits, and starts with a snapshot.
pub struct StructuredStream {
    client: Client,
    id: SessionId,
    query: WatchQuery,
    link: Link,
}

enum Link {
    Open { socket: Box<Socket>, heard_at: Instant },
    Lost { since: Instant, retry_at: Instant, wait: Duration },
    Dead,
}

/// What one read of an open socket gave.
enum Read {
    Frame(Box<LiveFrame>),
    Beat,
    Lost,
    Dead,
}

impl StructuredStream {
    pub(crate) async fn open(client: Client, id: SessionId, query: WatchQuery) -> Result<Self, ClientError> {
        let socket = connect(&client, id, query).await?;
        Ok(Self { client, id, query, link: Link::opened(socket) })
    }

    /// Asks for this tail at the next connection, which a loss or a resync brings.
    pub fn set_tail(&mut self, tail: Option<u64>) {
        self.query.tail = tail;
    }

    /// Gives this connection up and begins again with a snapshot: for a reader whose model found a [`crate::Gap`].
    /// Nothing is told of it but that snapshot.
    pub fn resync(&mut self) {
        if !matches!(self.link, Link::Dead) {
            self.link = Link::lost();
        }
    }

    /// The next event. Cancel safe: a dropped call loses no frame.
    ///
    /// # Errors
    /// Those of the connection, once reconnecting was given up, or a frame that this version cannot read.
    pub async fn next(&mut self) -> Result<StructuredEvent, ClientError> {
        loop {
            match &mut self.link {
                Link::Dead => return Ok(StructuredEvent::Dead),
                Link::Open { socket, heard_at } => {
                    match read(socket, *heard_at, self.id, self.query).await? {
                        Read::Beat => *heard_at = Instant::now(),
                        Read::Frame(frame) => {
                            *heard_at = Instant::now();
                            return Ok(StructuredEvent::Frame(frame));
                        }
                        Read::Dead => self.link = Link::Dead,
                        Read::Lost => {
                            self.link = Link::lost();
                            return Ok(StructuredEvent::Reconnecting);
                        }
                    }
                }
                Link::Lost { since, retry_at, wait } => {
                    tokio::time::sleep_until(*retry_at).await;
                    let given_up = since.elapsed() >= RECONNECT_LIMIT;
                    match connect(&self.client, self.id, self.query).await {
                        Ok(socket) => self.link = Link::opened(socket),
                        Err(error) if error.code() == Some(ProblemCode::NotStructured) => {
                            self.link = Link::Dead;
                        }
                        Err(error) if given_up || !may_pass(&error) => return Err(error),
                        Err(_passing) => {
                            *wait = (*wait * 2).min(RETRY_LONGEST);
                            *retry_at = Instant::now() + *wait;
                        }
                    }
                }
            }
        }
    }

    /// Reads until a model holds both the rows and the state of one cursor.
    pub(crate) async fn snapshot(mut self) -> Result<TranscriptModel, ClientError> {
        let route = route(self.id);
        within(&route, async {
            let mut model = TranscriptModel::default();
            loop {
                let frame = match self.next().await? {
                    StructuredEvent::Frame(frame) => *frame,
                    StructuredEvent::Reconnecting => continue,
                    // It died between the opening and its first frame. Opening again tells that in the daemon's words.
                    StructuredEvent::Dead => {
                        self.link = Link::opened(connect(&self.client, self.id, self.query).await?);
                        continue;
                    }
                };
                let whole = matches!(
                    frame,
                    LiveFrame::Plain(Frame::ReducedState { .. })
                        | LiveFrame::Text(TextFrame::ReducedState { .. })
                );
                model.apply(frame).map_err(|gap| unreadable(self.id, UnreadableAnswer::Gap(gap)))?;
                if whole {
                    return Ok(model);
                }
            }
        })
        .await
    }
}

impl Link {
    fn opened(socket: Socket) -> Self {
        Self::Open { socket: Box::new(socket), heard_at: Instant::now() }
    }

    fn lost() -> Self {
        let now = Instant::now();
        Self::Lost { since: now, retry_at: now + RETRY_FIRST, wait: RETRY_FIRST }
    }
}

fn route(id: SessionId) -> String {
    format!("GET /api/structured/{id}")
}

fn unreadable(id: SessionId, source: UnreadableAnswer) -> ClientError {
    ClientError::Unreadable { route: route(id), source }
}

/// Whether trying again can help.
fn may_pass(error: &ClientError) -> bool {
    match error {
        ClientError::Unreachable { .. } | ClientError::BrokenOff { .. } | ClientError::TimedOut { .. } => {
            true
        }
        ClientError::Problem(problem) => problem.code == ProblemCode::Busy,
        ClientError::ForeignSocket { .. } | ClientError::Unreadable { .. } => false,
    }
}

/// Opens the socket. Done over the same HTTP client as everything else, so that a refusal is read whole.
async fn connect(client: &Client, id: SessionId, query: WatchQuery) -> Result<Socket, ClientError> {
    let route = route(id);
    let key = generate_key();
    let path = format!("/api/structured/{id}{}", watch_query(query));
    let mut request = client.door.request(Method::GET, &path, None);
    let headers = request.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
    headers.insert(header::SEC_WEBSOCKET_KEY, HeaderValue::from_str(&key).expect("base64 is visible ASCII"));

    let work = async {
        let broken = |source| ClientError::BrokenOff { route: route.clone(), source };
        let stream = client.door.dial().await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
        let upgrade = pin!(async {
            let mut response = sender.send_request(request).await.map_err(broken)?;
            if response.status() == StatusCode::SWITCHING_PROTOCOLS {
                let accepted = response.headers().get(header::SEC_WEBSOCKET_ACCEPT).cloned();
                if accepted.is_none_or(|accepted| accepted != derive_accept_key(key.as_bytes())) {
                    return Err(unreadable(id, UnreadableAnswer::NoWebSocket));
                }
                return hyper::upgrade::on(&mut response).await.map_err(broken);
            }
            read_answer(&route, response).await?;
            Err(unreadable(id, UnreadableAnswer::NoWebSocket))
        });
        drive(upgrade, connection.with_upgrades()).await
    };
    let upgraded = within(&route, work).await?;
    let config = WebSocketConfig::default()
        .max_message_size(Some(FRAME_MAX_BYTES))
        .max_frame_size(Some(FRAME_MAX_BYTES));
    Ok(WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Client, Some(config)).await)
}

/// Names what differs from the default.
fn watch_query(query: WatchQuery) -> String {
    let deltas = (query.deltas == Some(Deltas::Text)).then(|| "deltas=text".to_owned());
    let tail = query.tail.map(|n| format!("tail={n}"));
    let given = [deltas, tail].into_iter().flatten().collect::<Vec<_>>().join("&");
    if given.is_empty() { given } else { format!("?{given}") }
}

async fn read(
    socket: &mut Socket,
    heard_at: Instant,
    id: SessionId,
    query: WatchQuery,
) -> Result<Read, ClientError> {
    let Ok(message) = tokio::time::timeout_at(heard_at + SILENCE_LIMIT, socket.next()).await else {
        return Ok(Read::Lost);
    };
    match message {
        Some(Ok(Message::Text(text))) => {
            let frame = match query.deltas.unwrap_or_default() {
                Deltas::Plain => maestro_protocol::json::from_slice(text.as_bytes()).map(LiveFrame::Plain),
                Deltas::Text => maestro_protocol::json::from_slice(text.as_bytes()).map(LiveFrame::Text),
            };
            let frame = frame.map_err(|source| unreadable(id, UnreadableAnswer::Json(source)))?;
            Ok(Read::Frame(Box::new(frame)))
        }
        Some(Ok(Message::Binary(_))) => Err(unreadable(id, UnreadableAnswer::NotText)),
        Some(Ok(Message::Close(Some(close)))) if u16::from(close.code) == CLOSE_SESSION_DEAD => {
            Ok(Read::Dead)
        }
        Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => Ok(Read::Beat),
        // Why a connection ended makes no difference: all that helps is to open another.
        Some(Ok(Message::Close(_)) | Err(_)) | None => Ok(Read::Lost),
    }
}

#[cfg(test)]
mod tests {
    use super::watch_query;
    use maestro_protocol::{Deltas, WatchQuery};

    #[test]
    fn a_query_names_only_what_is_not_the_default() {
        let check = |deltas: Option<Deltas>, tail: Option<u64>, expect: &str| {
            assert_eq!(watch_query(WatchQuery { deltas, tail }), expect);
        };
        check(None, None, "");
        check(Some(Deltas::Plain), None, "");
        check(Some(Deltas::Text), None, "?deltas=text");
        check(None, Some(0), "?tail=0");
        check(Some(Deltas::Text), Some(40), "?deltas=text&tail=40");
    }
}
