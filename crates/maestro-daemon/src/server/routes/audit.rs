use crate::{
    audit::Audit,
    server::{caller::Caller, problem::ApiError, validate},
};
use axum::{
    Json,
    extract::{RawQuery, State},
};
use maestro_protocol::{AuditPage, AuditQuery};

/// Read the audit log: what was done for the caller's account, by whom, and what was refused.
#[utoipa::path(
    get,
    path = "/api/audit",
    tag = "audit",
    operation_id = "readAudit",
    params(AuditQuery),
    responses((status = OK, body = AuditPage, description = "The newest entries, or those before a number."))
)]
pub(in crate::server::routes) async fn read(
    State(audit): State<Audit>,
    caller: Caller,
    RawQuery(query): RawQuery,
) -> Result<Json<AuditPage>, ApiError> {
    let query = validate::audit(query.as_deref().unwrap_or_default())?;
    audit.written().await;
    let page = tokio::task::spawn_blocking(move || audit.page(caller.account.email(), query)).await;
    Ok(Json(page.map_err(ApiError::internal)?.map_err(ApiError::internal)?))
}
