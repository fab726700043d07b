use crate::{
    registry::Registry,
    server::{caller::Caller, problem::ApiError},
};
use axum::{Json, extract::State};
use maestro_protocol::AgentList;

/// List the agents that a session can have, and what is missing for each.
#[utoipa::path(
    get,
    path = "/api/agents",
    tag = "agents",
    operation_id = "listAgents",
    responses((status = OK, body = AgentList, description = "The agent table."))
)]
pub(super) async fn list(
    State(registry): State<Registry>,
    _caller: Caller,
) -> Result<Json<AgentList>, ApiError> {
    Ok(Json(registry.agents().await))
}
