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
use axum::extract::State;
use http::StatusCode;
use maestro_acp::Setting;
use maestro_protocol::{ConfigValue, SessionId, SetConfig, SetMode, SetModel};

/// Change the mode.
///
/// Works during a turn too, if the agent allows it.
#[utoipa::path(
    post,
    path = "/api/sessions/{id}/structured/mode",
    tag = "structured",
    operation_id = "setMode",
    params(("id" = SessionId, Path, description = "The session.")),
    request_body = SetMode,
    responses((status = NO_CONTENT, description = "The agent accepted the mode, and the log has it."))
)]
pub(in crate::server::routes) async fn mode(
    State(registry): State<Registry>,
    caller: Caller,
    PathId(id): PathId,
    JsonBody(SetMode { mode_id }): JsonBody<SetMode>,
) -> Result<StatusCode, ApiError> {
    validate::choice("mode_id", &mode_id)?;
    set(&registry, &caller, id, Setting::Mode(mode_id)).await
}

/// Change the model.
///
/// Works during a turn too, if the agent allows it.
#[utoipa::path(
    post,
    path = "/api/sessions/{id}/structured/model",
    tag = "structured",
    operation_id = "setModel",
    params(("id" = SessionId, Path, description = "The session.")),
    request_body = SetModel,
    responses((status = NO_CONTENT, description = "The agent accepted the model, and the log has it."))
)]
pub(in crate::server::routes) async fn model(
    State(registry): State<Registry>,
    caller: Caller,
    PathId(id): PathId,
    JsonBody(SetModel { model_id }): JsonBody<SetModel>,
) -> Result<StatusCode, ApiError> {
    validate::choice("model_id", &model_id)?;
    set(&registry, &caller, id, Setting::Model(model_id)).await
}

/// Change a configuration option.
///
/// Works during a turn too, if the agent allows it.
#[utoipa::path(
    post,
    path = "/api/sessions/{id}/structured/config",
    tag = "structured",
    operation_id = "setConfig",
    params(("id" = SessionId, Path, description = "The session.")),
    request_body = SetConfig,
    responses((status = NO_CONTENT, description = "The agent accepted the value, and the log has it."))
)]
pub(in crate::server::routes) async fn config(
    State(registry): State<Registry>,
    caller: Caller,
    PathId(id): PathId,
    JsonBody(SetConfig { config_id, value }): JsonBody<SetConfig>,
) -> Result<StatusCode, ApiError> {
    validate::choice("config_id", &config_id)?;
    if let ConfigValue::Id(value) = &value {
        validate::choice("value", value)?;
    }
    set(&registry, &caller, id, Setting::Option { id: config_id, value }).await
}

async fn set(
    registry: &Registry,
    caller: &Caller,
    id: SessionId,
    setting: Setting,
) -> Result<StatusCode, ApiError> {
    ask(registry, &caller.account, id, async |session| session.set(setting.clone()).await).await?;
    Ok(StatusCode::NO_CONTENT)
}
