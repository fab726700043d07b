use crate::{
    registry::Registry,
    server::{
        app::{PathId, ask},
        caller::Caller,
        problem::ApiError,
        retry::Retriable,
        validate,
    },
};
use axum::extract::State;
use http::StatusCode;
use maestro_protocol::{PromptBody, SessionId};

/// Send a prompt, which starts a turn.
///
/// There is one turn at a time: during a turn this is refused, and `POST …/queue` lets a message wait for its end.
/// While a cancelled turn settles, the request waits for it. With an `Idempotency-Key` a retry gets the first answer
/// and sends nothing.
#[utoipa::path(
    post,
    path = "/api/sessions/{id}/structured/prompt",
    tag = "structured",
    operation_id = "sendPrompt",
    params(
        ("id" = SessionId, Path, description = "The session."),
        ("Idempotency-Key" = Option<String>, Header, description = "The same for every try of one request.")
    ),
    request_body = PromptBody,
    responses((status = ACCEPTED, description = "The prompt is in the log and on its way to the agent."))
)]
pub(in crate::server::routes) async fn prompt(
    State(registry): State<Registry>,
    caller: Caller,
    PathId(id): PathId,
    Retriable(request, body): Retriable<PromptBody>,
) -> Result<StatusCode, ApiError> {
    let content = validate::prompt(body)?;
    let prompted = ask(&registry, &caller.account, id, async |session| {
        session.prompt(content.clone(), request.clone()).await
    });
    prompted.await?;
    Ok(StatusCode::ACCEPTED)
}
