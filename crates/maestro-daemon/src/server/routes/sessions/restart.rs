use crate::{
    registry::Registry,
    server::{
        app::{PathId, ask},
        body::Nothing,
        caller::Caller,
        problem::ApiError,
        retry::Retriable,
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
    params(
        ("id" = SessionId, Path, description = "The session."),
        ("Idempotency-Key" = Option<String>, Header, description = "The same for every try of one request.")
    ),
    responses((status = ACCEPTED, body = Session, description = "The session, starting."))
)]
pub(in crate::server::routes) async fn restart(
    State(registry): State<Registry>,
    caller: Caller,
    PathId(id): PathId,
    Retriable(request, Nothing {}): Retriable<Nothing>,
) -> Result<(StatusCode, Json<Session>), ApiError> {
    let restarted =
        ask(&registry, &caller.account, id, async |session| session.restart(request.clone()).await);
    Ok((StatusCode::ACCEPTED, Json(restarted.await?)))
}
