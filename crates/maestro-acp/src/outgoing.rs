//! The messages that a client sends, each one line without its newline.

use crate::RawId;
use agent_client_protocol_schema::{ProtocolVersion, v1};
use maestro_protocol::ConfigValue;
use serde::Serialize;
use serde_json::{Value, value::RawValue};

/// `initialize`: protocol version 1, and none of the three capabilities that would bring files or terminals to the
/// client (CONTRACT §3.1).
pub fn initialize(id: u64) -> Vec<u8> {
    let client = v1::Implementation::new("maestro", env!("CARGO_PKG_VERSION")).title("maestro".to_owned());
    let capabilities = v1::ClientCapabilities::new()
        .fs(v1::FileSystemCapabilities::new().read_text_file(false).write_text_file(false))
        .terminal(false);
    let params =
        v1::InitializeRequest::new(ProtocolVersion::V1).client_capabilities(capabilities).client_info(client);
    request(id, "initialize", &params)
}

/// `session/new` in the absolute directory `cwd`.
pub fn session_new(id: u64, cwd: &str) -> Vec<u8> {
    request(id, "session/new", &v1::NewSessionRequest::new(cwd))
}

/// `session/load` of a session that the agent made before.
pub fn session_load(id: u64, session: &str, cwd: &str) -> Vec<u8> {
    request(id, "session/load", &v1::LoadSessionRequest::new(v1::SessionId::new(session), cwd))
}

/// `session/prompt` with content blocks that go out as they are.
pub fn session_prompt(id: u64, session: &str, prompt: &[Value]) -> Vec<u8> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Params<'a> {
        session_id: &'a str,
        prompt: &'a [Value],
    }
    request(id, "session/prompt", &Params { session_id: session, prompt })
}

/// `session/set_mode`.
pub fn set_mode(id: u64, session: &str, mode: &str) -> Vec<u8> {
    let (session, mode) = (v1::SessionId::new(session), v1::SessionModeId::new(mode));
    request(id, "session/set_mode", &v1::SetSessionModeRequest::new(session, mode))
}

/// `session/set_model`, which agents speak that tell `models` at the opening; the protocol has it no more.
pub fn set_model(id: u64, session: &str, model: &str) -> Vec<u8> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Params<'a> {
        session_id: &'a str,
        model_id: &'a str,
    }
    request(id, "session/set_model", &Params { session_id: session, model_id: model })
}

/// `session/set_config_option`.
pub fn set_config_option(id: u64, session: &str, option: &str, value: &ConfigValue) -> Vec<u8> {
    let (session, option) = (v1::SessionId::new(session), v1::SessionConfigId::new(option));
    let value = match value {
        ConfigValue::Id(value) => v1::SessionConfigOptionValue::value_id(value.clone()),
        ConfigValue::Flag(flag) => v1::SessionConfigOptionValue::boolean(*flag),
    };
    request(id, "session/set_config_option", &v1::SetSessionConfigOptionRequest::new(session, option, value))
}

/// `session/cancel`: the agent is to end the open prompt.
pub fn session_cancel(session: &str) -> Vec<u8> {
    let params = v1::CancelNotification::new(v1::SessionId::new(session));
    line(&Notification { jsonrpc: "2.0", method: "session/cancel", params: &params })
}

/// Answers a permission request with one of its options.
pub fn permission_selected(id: &RawId, option_id: &str) -> Vec<u8> {
    let selected = v1::SelectedPermissionOutcome::new(v1::PermissionOptionId::new(option_id));
    permission(id, v1::RequestPermissionOutcome::Selected(selected))
}

/// Answers a permission request: it is withdrawn, which is not a refusal (CONTRACT §7.5).
pub fn permission_cancelled(id: &RawId) -> Vec<u8> {
    permission(id, v1::RequestPermissionOutcome::Cancelled)
}

fn permission(id: &RawId, outcome: v1::RequestPermissionOutcome) -> Vec<u8> {
    let result = v1::RequestPermissionResponse::new(outcome);
    line(&Success { jsonrpc: "2.0", id: id.as_raw(), result: &result })
}

/// Answers a request that is not implemented.
pub fn method_not_found(id: &RawId) -> Vec<u8> {
    let error = v1::Error::method_not_found();
    line(&Failure { jsonrpc: "2.0", id: id.as_raw(), error: &error })
}

fn request(id: u64, method: &str, params: &impl Serialize) -> Vec<u8> {
    line(&Request { jsonrpc: "2.0", id, method, params })
}

#[derive(Serialize)]
struct Request<'a, P> {
    jsonrpc: &'static str,
    id: u64,
    method: &'a str,
    params: &'a P,
}

#[derive(Serialize)]
struct Notification<'a, P> {
    jsonrpc: &'static str,
    method: &'a str,
    params: &'a P,
}

#[derive(Serialize)]
struct Success<'a, R> {
    jsonrpc: &'static str,
    id: &'a RawValue,
    result: &'a R,
}

#[derive(Serialize)]
struct Failure<'a, E> {
    jsonrpc: &'static str,
    id: &'a RawValue,
    error: &'a E,
}

fn line(message: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(message).expect("messages are made of strings, numbers and JSON, which JSON can hold")
}

#[cfg(test)]
mod tests;
