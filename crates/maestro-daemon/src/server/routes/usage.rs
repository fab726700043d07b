use crate::{
    registry::Registry,
    server::{caller::Caller, problem::ApiError, validate},
};
use axum::{
    Json,
    extract::{RawQuery, State},
};
use maestro_protocol::{UsageQuery, UsageReport};

/// Sum up cost and tokens by day and agent.
///
/// Everything is as the agents tell it; days are in UTC. What an agent does not tell is not in the sums.
#[utoipa::path(
    get,
    path = "/api/usage",
    tag = "usage",
    operation_id = "getUsage",
    params(UsageQuery),
    responses((status = OK, body = UsageReport, description = "The sums over the caller's sessions."))
)]
pub(in crate::server::routes) async fn get(
    State(registry): State<Registry>,
    caller: Caller,
    RawQuery(query): RawQuery,
) -> Result<Json<UsageReport>, ApiError> {
    let query = validate::usage(query.as_deref().unwrap_or_default())?;
    Ok(Json(registry.usage(&caller.account, query).await?))
}
