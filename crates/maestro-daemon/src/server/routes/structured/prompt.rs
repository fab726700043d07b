use crate::{
    registry::Registry,
    server::{
        app::{PathId, ask},
        body::JsonBody,
        peer::Caller,
        problem::ApiError,
        validate,
    },
};
use axum::extract::State;
use http::StatusCode;
use maestro_protocol::{PromptBody, SessionId};

/// Send a prompt, which starts a turn.
///
/// There is one turn at a time and no queue. While a cancelled turn settles, the request waits for it.
#[utoipa::path(
    post,
    path = "/api/sessions/{id}/structured/prompt",
    tag = "structured",
    operation_id = "sendPrompt",
    params(("id" = SessionId, Path, description = "The session.")),
    request_body = PromptBody,
    responses((status = ACCEPTED, description = "The prompt is in the log and on its way to the agent."))
)]
pub(in crate::server::routes) async fn prompt(
    State(registry): State<Registry>,
    caller: Caller,
    PathId(id): PathId,
    JsonBody(body): JsonBody<PromptBody>,
) -> Result<StatusCode, ApiError> {
    let content = validate::prompt(body)?;
    ask(&registry, &caller.scope, id, async |session| session.prompt(content.clone()).await).await?;
    Ok(StatusCode::ACCEPTED)
}
