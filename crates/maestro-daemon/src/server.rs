//! The API over the Unix socket: HTTP and WebSockets, for the daemon's own user.
//!
//! *Is*: the accept loop, the judgement of peers, callers and what they may, the routes, problem documents, sockets that follow a session.
//!
//! *Invariants*: every request passes one gate, unknown routes included; nothing is created by a request that fails;
//! no route is without a permission; a peer below an agent changes nothing, and sees its own session without nonces; every connection, body, replay and socket is bounded.
//!
//! *Not here*: what a session does with a request, and which sessions there are.

mod app;
mod body;
mod caller;
mod client;
mod connection;
mod gate;
mod hunks;
mod listener;
mod pace;
mod peer;
mod permission;
pub(crate) mod problem;
mod retry;
pub(crate) mod routes;
mod socket;
#[cfg(test)]
mod tests;
mod validate;

use crate::{audit::Audit, clock::Sources, registry::Registry};
use app::App;
use connection::Connections;
use std::{io, sync::Arc, time::Duration};
use tokio::{
    net::{UnixListener, UnixStream},
    sync::Semaphore,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

pub(crate) use listener::{BindError, bind};
pub(crate) use routes::all_guarded;

/// Connections at one time. Half of the usual soft limit of 1024 open files: sessions need some of them too. More
/// clients wait in the kernel's queue.
const CONNECTIONS_MAX: usize = 512;

/// How long connections may take to end at a shutdown.
const SHUTDOWN_TIME: Duration = Duration::from_secs(5);

/// The pause after an accept that failed for want of memory or open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// No more connections can be accepted.
#[derive(Debug, thiserror::Error)]
#[error("no more connections can be accepted: restart the daemon")]
pub(crate) struct ServerError {
    #[source]
    source: io::Error,
}

/// Serves the API until `shutdown`. Returns when all connections have ended, at the latest five seconds after it.
pub(crate) async fn run(
    listener: UnixListener,
    registry: Registry,
    audit: Audit,
    shutdown: CancellationToken,
) -> Result<(), ServerError> {
    let app = App::new(registry, audit, shutdown.clone());
    let entropy = Sources::system().entropy;
    let connections = Connections::new(routes::router(app.clone()), &app, entropy);
    let accepted = shutdown.run_until_cancelled(accept(&listener, &app, &connections)).await;
    drop(listener);
    // Also after a failed accept: what is connected is asked to end.
    shutdown.cancel();
    let lifetime = app.lifetime;
    lifetime.tasks.close();
    if timeout(SHUTDOWN_TIME, lifetime.tasks.wait()).await.is_err() {
        tracing::warn!("{} connections did not end in time and are dropped", lifetime.tasks.len());
        lifetime.drop_all.cancel();
    }
    accepted.map_or(Ok(()), |source| Err(ServerError { source }))
}

/// Accepts connections. Returns only when that is not possible any more.
async fn accept(listener: &UnixListener, app: &App, connections: &Connections) -> io::Error {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let place = Arc::clone(&places).acquire_owned().await.expect("the places are never closed");
        match next(listener).await {
            Ok(stream) => drop(app.lifetime.tasks.spawn(connections.clone().serve(stream, place))),
            Err(error) => return error,
        }
    }
}

/// The next connection, after however many that came to nothing.
async fn next(listener: &UnixListener) -> io::Result<UnixStream> {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return Ok(stream),
            Err(error) if passes(&error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Whether accepting may work again by itself.
fn passes(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let passing = [
        Errno::CONNABORTED,
        Errno::INTR,
        Errno::AGAIN,
        Errno::PROTO,
        Errno::PERM,
        Errno::MFILE,
        Errno::NFILE,
        Errno::NOBUFS,
        Errno::NOMEM,
    ];
    Errno::from_io_error(error).is_some_and(|errno| passing.contains(&errno))
}
