use crate::{
    registry::Registry,
    server::{caller::Caller, problem::ApiError},
};
use axum::{Json, extract::State};
use maestro_protocol::SessionList;

/// List the caller's sessions, newest first.
#[utoipa::path(
    get,
    path = "/api/sessions",
    tag = "sessions",
    operation_id = "listSessions",
    responses((status = OK, body = SessionList, description = "All sessions of the caller; for an agent its own."))
)]
pub(in crate::server::routes) async fn list(
    State(registry): State<Registry>,
    caller: Caller,
) -> Result<Json<SessionList>, ApiError> {
    let mut sessions = registry.list(&caller.account).await?;
    sessions.retain(|session| caller.may_see(session.id));
    Ok(Json(SessionList { sessions }))
}
