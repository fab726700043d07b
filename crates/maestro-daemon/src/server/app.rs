//! What handlers share, and how they reach a session.

use super::problem::ApiError;
use crate::{
    account::AccountScope,
    audit::Audit,
    registry::Registry,
    session::{SessionError, SessionHandle},
};
use axum::{
    extract::{FromRef, FromRequestParts},
    http::request::Parts,
};
use maestro_protocol::{SessionId, Status};
use std::{convert::Infallible, sync::Arc};
use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Pages of history that may be made at the same time, each on a thread of its own. More than this would take the machine
/// away from the agents, and a page needs a few times 4 MiB while it is made.
const FOLDS_MAX: usize = 4;

/// Handed to the handlers piece by piece.
#[derive(Debug, Clone)]
pub(crate) struct App {
    pub(super) registry: Registry,
    pub(super) audit: Audit,
    pub(super) folds: Folds,
    pub(super) lifetime: Lifetime,
}

/// Places for replays.
#[derive(Debug, Clone)]
pub(super) struct Folds(pub(super) Arc<Semaphore>);

/// What a task of the server needs to end in time.
#[derive(Debug, Clone)]
pub(super) struct Lifetime {
    /// Every connection and socket.
    pub(super) tasks: TaskTracker,
    /// The daemon is shutting down: finish what is begun.
    pub(super) shutdown: CancellationToken,
    /// The time to finish is over: drop everything.
    pub(super) drop_all: CancellationToken,
}

impl App {
    pub(super) fn new(registry: Registry, audit: Audit, shutdown: CancellationToken) -> Self {
        let lifetime = Lifetime { tasks: TaskTracker::new(), shutdown, drop_all: CancellationToken::new() };
        Self { registry, audit, folds: Folds(Arc::new(Semaphore::new(FOLDS_MAX))), lifetime }
    }
}

impl FromRef<App> for Registry {
    fn from_ref(app: &App) -> Self {
        app.registry.clone()
    }
}

impl FromRef<App> for Audit {
    fn from_ref(app: &App) -> Self {
        app.audit.clone()
    }
}

impl FromRef<App> for Folds {
    fn from_ref(app: &App) -> Self {
        app.folds.clone()
    }
}

/// Asks a session something. An actor that ended while the command waited has a successor, which is asked once.
pub(super) async fn ask<T, F>(
    registry: &Registry,
    scope: &AccountScope,
    id: SessionId,
    command: impl Fn(SessionHandle) -> F,
) -> Result<T, ApiError>
where
    F: Future<Output = Result<T, SessionError>>,
{
    let handle = find(registry, scope, id).await?;
    match command(handle).await {
        Err(SessionError::Gone) => {
            let successor = find(registry, scope, id).await?;
            Ok(command(successor).await?)
        }
        answer => Ok(answer?),
    }
}

/// The session's handle; the same refusal for one that does not exist and one of somebody else.
async fn find(registry: &Registry, scope: &AccountScope, id: SessionId) -> Result<SessionHandle, ApiError> {
    registry.handle(scope, id).await?.ok_or_else(ApiError::not_found)
}

/// Refuses a dead session, as every structured route does. One that is starting counts as live.
pub(super) fn live(handle: &SessionHandle) -> Result<(), SessionError> {
    if handle.session().status == Status::Dead { Err(SessionError::NotStructured) } else { Ok(()) }
}

/// The id of the session in the path. Anything that is not one is no session.
#[derive(Debug, Clone, Copy)]
pub(super) struct PathId(pub(super) SessionId);

impl<S: Sync> FromRequestParts<S> for PathId {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        session_in(parts.uri.path()).map(Self).ok_or_else(ApiError::not_found)
    }
}

/// The session that a path names: `/api/sessions/{id}` and `/api/structured/{id}`. An id has one spelling, so nothing is
/// to be decoded.
pub(super) fn session_in(path: &str) -> Option<SessionId> {
    path.split('/').nth(3).and_then(|text| text.parse().ok())
}

/// The last piece of the path as it stands, which need not be text.
#[derive(Debug, Clone)]
pub(super) struct PathTail(pub(super) String);

impl<S: Sync> FromRequestParts<S> for PathTail {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        Ok(Self(parts.uri.path().rsplit('/').next().unwrap_or_default().into()))
    }
}
