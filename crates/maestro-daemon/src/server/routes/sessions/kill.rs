use crate::{
    registry::Registry,
    server::{
        app::{PathId, ask},
        caller::Caller,
        problem::ApiError,
    },
};
use axum::extract::State;
use http::StatusCode;
use maestro_protocol::SessionId;

/// End a session and everything below it. Its transcript is kept. A dead session stays as it is.
#[utoipa::path(
    delete,
    path = "/api/sessions/{id}",
    tag = "sessions",
    operation_id = "killSession",
    params(("id" = SessionId, Path, description = "The session.")),
    responses((status = NO_CONTENT, description = "Nothing of the session runs any more."))
)]
pub(in crate::server::routes) async fn kill(
    State(registry): State<Registry>,
    caller: Caller,
    PathId(id): PathId,
) -> Result<StatusCode, ApiError> {
    ask(&registry, &caller.account, id, async |session| session.kill().await).await?;
    Ok(StatusCode::NO_CONTENT)
}
