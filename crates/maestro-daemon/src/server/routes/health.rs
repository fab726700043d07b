use crate::{
    registry::Registry,
    server::{caller::Caller, problem::ApiError},
};
use axum::{Json, extract::State};
use maestro_protocol::Health;

/// Tell how the daemon is: its version, the space on its disk, and what is wrong.
///
/// It is `200` whenever the daemon answers; `status` says whether all is well.
#[utoipa::path(
    get,
    path = "/api/health",
    tag = "health",
    operation_id = "getHealth",
    responses((status = OK, body = Health, description = "The daemon's health and that of the caller's sessions."))
)]
pub(in crate::server::routes) async fn get(
    State(registry): State<Registry>,
    caller: Caller,
) -> Result<Json<Health>, ApiError> {
    Ok(Json(registry.health(&caller.account).await?))
}
