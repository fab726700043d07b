use crate::{
    registry::Registry,
    server::{
        app::{PathId, ask},
        body::{JsonBody, Nothing},
        caller::Caller,
        problem::ApiError,
    },
    session::QueueCommand,
};
use axum::extract::State;
use http::StatusCode;
use maestro_protocol::SessionId;

/// Go on with messages that are held after a cancel, a failed turn or an end of the session.
///
/// Where nothing is held, nothing happens.
#[utoipa::path(
    post,
    path = "/api/sessions/{id}/queue/resume",
    tag = "queue",
    operation_id = "resumeQueue",
    params(("id" = SessionId, Path, description = "The session.")),
    responses((status = ACCEPTED, description = "The first is sent when its turn comes."))
)]
pub(in crate::server::routes) async fn resume(
    State(registry): State<Registry>,
    caller: Caller,
    PathId(id): PathId,
    JsonBody(Nothing {}): JsonBody<Nothing>,
) -> Result<StatusCode, ApiError> {
    let resumed = ask(&registry, &caller.account, id, async |session| {
        session.queue(|reply| QueueCommand::Resume { reply }).await
    });
    resumed.await?;
    Ok(StatusCode::ACCEPTED)
}
