use crate::{
    registry::Registry,
    server::{body::JsonBody, peer::Caller, problem::ApiError, validate},
};
use axum::{Json, extract::State, response::IntoResponse};
use http::{StatusCode, header};
use maestro_protocol::{CreateSession, Session};

/// Create a session.
///
/// Answers at once with a session that is `Starting`, or `Dead` already where the agent's program is missing; its
/// `activity_detail` then says how to install it.
#[utoipa::path(
    post,
    path = "/api/sessions",
    tag = "sessions",
    operation_id = "createSession",
    request_body = CreateSession,
    responses((
        status = CREATED,
        body = Session,
        description = "The new session.",
        headers(("location" = String, description = "The session's path."))
    ))
)]
pub(in crate::server::routes) async fn create(
    State(registry): State<Registry>,
    caller: Caller,
    JsonBody(wish): JsonBody<CreateSession>,
) -> Result<impl IntoResponse, ApiError> {
    validate::create(&wish)?;
    let session = registry.create(&caller.scope, wish).await?;
    let location = [(header::LOCATION, format!("/api/sessions/{}", session.id))];
    Ok((StatusCode::CREATED, location, Json(session)))
}
