use crate::{
    registry::Registry,
    server::{
        app::{PathId, ask},
        body::{JsonBody, Nothing},
        caller::Caller,
        problem::ApiError,
    },
};
use axum::extract::State;
use http::StatusCode;
use maestro_protocol::SessionId;

/// Cancel the active turn. Without one, nothing happens.
#[utoipa::path(
    post,
    path = "/api/sessions/{id}/structured/cancel",
    tag = "structured",
    operation_id = "cancelTurn",
    params(("id" = SessionId, Path, description = "The session.")),
    responses((status = ACCEPTED, description = "The turn is over for clients; the agent is told."))
)]
pub(in crate::server::routes) async fn cancel(
    State(registry): State<Registry>,
    caller: Caller,
    PathId(id): PathId,
    JsonBody(Nothing {}): JsonBody<Nothing>,
) -> Result<StatusCode, ApiError> {
    ask(&registry, &caller.account, id, async |session| session.cancel().await).await?;
    Ok(StatusCode::ACCEPTED)
}
