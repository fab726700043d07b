use crate::{
    registry::Registry,
    server::{
        app::{PathId, PathTail, ask},
        caller::Caller,
        problem::ApiError,
    },
    session::QueueCommand,
};
use axum::extract::State;
use http::StatusCode;
use maestro_protocol::{QueueItemId, SessionId};

/// Take a message out of the queue. One that was sent already is `404`.
#[utoipa::path(
    delete,
    path = "/api/sessions/{id}/queue/{item}",
    tag = "queue",
    operation_id = "removeQueuedMessage",
    params(
        ("id" = SessionId, Path, description = "The session."),
        ("item" = QueueItemId, Path, description = "The message.")
    ),
    responses((status = NO_CONTENT, description = "It will not be sent."))
)]
pub(in crate::server::routes) async fn remove(
    State(registry): State<Registry>,
    caller: Caller,
    PathId(id): PathId,
    tail: PathTail,
) -> Result<StatusCode, ApiError> {
    let item = super::item(&tail)?;
    let removed = ask(&registry, &caller.account, id, async |session| {
        session.queue(|reply| QueueCommand::Remove { item, reply }).await
    });
    removed.await?;
    Ok(StatusCode::NO_CONTENT)
}
