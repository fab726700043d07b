use crate::{
    registry::Registry,
    server::{
        app::{PathId, ask},
        body::JsonBody,
        caller::Caller,
        problem::ApiError,
        validate,
    },
};
use axum::{Json, extract::State};
use maestro_protocol::{RenameSession, Session, SessionId};

/// Rename a session.
///
/// An empty title removes the name, and the session is called after its conversation again.
#[utoipa::path(
    patch,
    path = "/api/sessions/{id}",
    tag = "sessions",
    operation_id = "renameSession",
    params(("id" = SessionId, Path, description = "The session.")),
    request_body = RenameSession,
    responses((status = OK, body = Session, description = "The session with its new title."))
)]
pub(in crate::server::routes) async fn rename(
    State(registry): State<Registry>,
    caller: Caller,
    PathId(id): PathId,
    JsonBody(RenameSession { title }): JsonBody<RenameSession>,
) -> Result<Json<Session>, ApiError> {
    validate::title(&title)?;
    let renamed = ask(&registry, &caller.account, id, async |session| session.rename(title.clone()).await);
    Ok(Json(renamed.await?))
}
