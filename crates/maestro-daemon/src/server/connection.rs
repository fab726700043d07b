//! One accepted connection: judged once, then HTTP/1.1 within limits.

use super::{
    app::{App, Lifetime},
    caller::Caller,
    gate,
    peer::{self, Peer, Places},
};
use crate::{audit::Audit, clock::Entropy, tally::Tally};
use axum::{Router, body::Body};
use http::Request;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use maestro_protocol::Scope;
use std::{
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};
use tokio::{
    net::UnixStream,
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tokio_io_timeout::TimeoutStream;

/// How long a client may take to send a request's head, and to stay idle between two requests.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// The most header lines of a request. Our clients send five.
const HEADERS_MAX: usize = 64;

/// The longest head of a request, and the largest piece that is read or written at once.
const BUFFER_BYTES: usize = 32 * 1024;

/// How long a client may leave what it asked for unread. Its answer is in memory for as long.
const UNREAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Connections that processes below agents may hold together. They only read, and must not keep the person out.
const AGENT_CONNECTIONS_MAX: usize = 64;

/// Makes connections' tasks.
#[derive(Debug, Clone)]
pub(super) struct Connections {
    router: Router,
    audit: Audit,
    lifetime: Lifetime,
    agents: Arc<Semaphore>,
    /// Connections of agents that found no place.
    refused: Arc<Tally>,
    entropy: Arc<dyn Entropy>,
}

/// A stream that fails once what is written to it was left unread for too long.
fn bounded(stream: UnixStream) -> Pin<Box<TimeoutStream<UnixStream>>> {
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(UNREAD_TIMEOUT));
    Box::pin(stream)
}

impl Connections {
    pub(super) fn new(router: Router, app: &App, entropy: Arc<dyn Entropy>) -> Self {
        let agents = Arc::new(Semaphore::new(AGENT_CONNECTIONS_MAX));
        let (audit, lifetime) = (app.audit.clone(), app.lifetime.clone());
        Self { router, audit, lifetime, agents, refused: Arc::default(), entropy }
    }

    /// Serves a connection to its end. `place` is its place among all connections.
    pub(super) async fn serve(self, stream: UnixStream, place: OwnedSemaphorePermit) {
        let Some((stream, peer, places)) = self.admit(stream, place).await else { return };
        let lifetime = self.lifetime.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let request_id = self.entropy.uuid();
            gate::answer(
                self.router.clone(),
                self.audit.clone(),
                peer.clone(),
                places.clone(),
                request_id,
                request.map(Body::new),
            )
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .max_headers(HEADERS_MAX)
            .max_buf_size(BUFFER_BYTES)
            .serve_connection(TokioIo::new(bounded(stream)), service)
            .with_upgrades();
        let mut connection = pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = lifetime.shutdown.cancelled() => {
                connection.as_mut().graceful_shutdown();
                tokio::select! {
                    ended = connection.as_mut() => ended,
                    () = lifetime.drop_all.cancelled() => Ok(()),
                }
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection broke off");
        }
    }

    /// Judges the peer and gives it its places. `None` when there are no more for its kind.
    async fn admit(
        &self,
        stream: UnixStream,
        place: OwnedSemaphorePermit,
    ) -> Option<(UnixStream, Peer, Places)> {
        let inspected = tokio::task::spawn_blocking(move || (peer::inspect(&stream), stream)).await;
        let (peer, stream) =
            inspected.inspect_err(|error| tracing::error!(%error, "a peer was not judged")).ok()?;
        let mut places = vec![place];
        if peer.caller().map(Caller::scope) == Some(Scope::Agent) {
            let Ok(place) = Arc::clone(&self.agents).try_acquire_owned() else {
                if let Some(n) = self.refused.add() {
                    tracing::warn!(
                        "agents hold {AGENT_CONNECTIONS_MAX} connections: another one was closed, {n} so far"
                    );
                }
                return None;
            };
            places.push(place);
        }
        Some((stream, peer, Places::new(places)))
    }
}
