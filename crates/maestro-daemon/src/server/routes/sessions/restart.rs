use crate::{
    registry::Registry,
    server::{
        app::{PathId, ask},
        body::{JsonBody, Nothing},
        peer::Caller,
        problem::ApiError,
    },
};
use axum::{Json, extract::State};
use http::StatusCode;
use maestro_protocol::{Session, SessionId};

/// Start a dead session's agent again. The conversation goes on where it stood.
#[utoipa::path(
    post,
    path = "/api/sessions/{id}/restart",
    tag = "sessions",
    operation_id = "restartSession",
    params(("id" = SessionId, Path, description = "The session.")),
    responses((status = ACCEPTED, body = Session, description = "The session, starting."))
)]
pub(in crate::server::routes) async fn restart(
    State(registry): State<Registry>,
    caller: Caller,
    PathId(id): PathId,
    JsonBody(Nothing {}): JsonBody<Nothing>,
) -> Result<(StatusCode, Json<Session>), ApiError> {
    let session = ask(&registry, &caller.scope, id, async |session| session.restart().await).await?;
    Ok((StatusCode::ACCEPTED, Json(session)))
}
