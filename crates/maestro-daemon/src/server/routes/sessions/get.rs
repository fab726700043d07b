use crate::{
    registry::Registry,
    server::{app::PathId, caller::Caller, problem::ApiError},
};
use axum::{Json, extract::State};
use maestro_protocol::{Session, SessionId};

/// Show one session.
#[utoipa::path(
    get,
    path = "/api/sessions/{id}",
    tag = "sessions",
    operation_id = "getSession",
    params(("id" = SessionId, Path, description = "The session.")),
    responses((status = OK, body = Session, description = "The session."))
)]
pub(in crate::server::routes) async fn get(
    State(registry): State<Registry>,
    caller: Caller,
    PathId(id): PathId,
) -> Result<Json<Session>, ApiError> {
    let session = registry.get(&caller.account, id).await?;
    session.map(Json).ok_or_else(ApiError::not_found)
}
