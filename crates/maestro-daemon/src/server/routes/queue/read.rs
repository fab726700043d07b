use crate::{
    registry::Registry,
    server::{
        app::{PathId, ask},
        caller::Caller,
        problem::ApiError,
    },
    session::QueueCommand,
};
use axum::{Json, extract::State};
use maestro_protocol::{Queue, SessionId};

/// Show the messages that wait, of a dead session too.
#[utoipa::path(
    get,
    path = "/api/sessions/{id}/queue",
    tag = "queue",
    operation_id = "readQueue",
    params(("id" = SessionId, Path, description = "The session.")),
    responses((status = OK, body = Queue, description = "What waits, the next first."))
)]
pub(in crate::server::routes) async fn read(
    State(registry): State<Registry>,
    caller: Caller,
    PathId(id): PathId,
) -> Result<Json<Queue>, ApiError> {
    let read = ask(&registry, &caller.account, id, async |session| {
        session.queue(|reply| QueueCommand::Read { reply }).await
    });
    Ok(Json(read.await?))
}
