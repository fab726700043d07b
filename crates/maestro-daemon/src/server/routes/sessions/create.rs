use crate::{
    registry::{NewSession, Registry},
    server::{caller::Caller, client::ClientName, problem::ApiError, retry::Retriable, validate},
};
use axum::{Json, extract::State, response::IntoResponse};
use http::{StatusCode, header};
use maestro_protocol::{CreateSession, Session};

/// Create a session.
///
/// Answers at once with a session that is `Starting`, or `Dead` already where the agent's program is missing; its
/// `activity_detail` then says how to install it. A `prompt` waits as the first message of the session's queue and is
/// sent when the agent runs, so that a start that fails loses no text. With an `Idempotency-Key` a retry gets the
/// first answer and creates nothing.
#[utoipa::path(
    post,
    path = "/api/sessions",
    tag = "sessions",
    operation_id = "createSession",
    params(("Idempotency-Key" = Option<String>, Header, description = "The same for every try of one request.")),
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
    ClientName(client): ClientName,
    Retriable(request, mut wish): Retriable<CreateSession>,
) -> Result<impl IntoResponse, ApiError> {
    validate::create(&wish)?;
    let prompt = validate::first_prompt(wish.prompt.take())?;
    let session = registry.create(&caller.account, NewSession { wish, prompt, client, request }).await?;
    let location = [(header::LOCATION, format!("/api/sessions/{}", session.id))];
    Ok((StatusCode::CREATED, location, Json(session)))
}
