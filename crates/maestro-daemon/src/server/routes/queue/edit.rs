use crate::{
    registry::Registry,
    server::{
        app::{PathId, PathTail, ask},
        body::JsonBody,
        caller::Caller,
        problem::ApiError,
        validate,
    },
    session::QueueCommand,
};
use axum::{Json, extract::State};
use maestro_protocol::{EditQueueItem, QueueItem, QueueItemId, SessionId};

/// Change a message that waits: its text or content, its place, or both.
#[utoipa::path(
    patch,
    path = "/api/sessions/{id}/queue/{item}",
    tag = "queue",
    operation_id = "editQueuedMessage",
    params(
        ("id" = SessionId, Path, description = "The session."),
        ("item" = QueueItemId, Path, description = "The message.")
    ),
    request_body = EditQueueItem,
    responses((status = OK, body = QueueItem, description = "The message as it is now."))
)]
pub(in crate::server::routes) async fn edit(
    State(registry): State<Registry>,
    caller: Caller,
    PathId(id): PathId,
    tail: PathTail,
    JsonBody(body): JsonBody<EditQueueItem>,
) -> Result<Json<QueueItem>, ApiError> {
    let item = super::item(&tail)?;
    let (content, position) = validate::edit(body)?;
    let edited = ask(&registry, &caller.account, id, async |session| {
        let content = content.clone();
        session.queue(|reply| QueueCommand::Edit { item, content, position, reply }).await
    });
    Ok(Json(edited.await?))
}
