//! Readers that take from an agent's JSON what is there and ask for no more.

use crate::{RpcError, decode::read};
use maestro_protocol::{PermissionOption, PermissionOptionKind};
use serde_json::{Value, value::RawValue};

/// The code of an error that has none: JSON-RPC's "internal error".
const INTERNAL_ERROR: i64 = -32603;

/// The text at `pointer`, if there is one.
pub(crate) fn text_at(value: &Value, pointer: &str) -> Option<String> {
    value.pointer(pointer)?.as_str().map(str::to_owned)
}

/// The options of a permission request that have an id.
pub(super) fn permission_options(params: &Value) -> Vec<PermissionOption> {
    let options = params.get("options").and_then(Value::as_array);
    options.into_iter().flatten().filter_map(permission_option).collect()
}

fn permission_option(option: &Value) -> Option<PermissionOption> {
    let option_id = text_at(option, "/optionId")?;
    let name = text_at(option, "/name").unwrap_or_else(|| option_id.clone());
    let kind = match option.get("kind").and_then(Value::as_str) {
        Some("allow_once") => PermissionOptionKind::AllowOnce,
        Some("allow_always") => PermissionOptionKind::AllowAlways,
        Some("reject_once") => PermissionOptionKind::RejectOnce,
        Some("reject_always") => PermissionOptionKind::RejectAlways,
        _ => PermissionOptionKind::Other,
    };
    Some(PermissionOption { option_id, name, kind })
}

/// The error of an answer. One that is no JSON-RPC error is told in its own words.
pub(super) fn rpc_error(raw: &RawValue) -> RpcError {
    let Some(value) = read(raw) else { return unreadable(raw) };
    let code = value.get("code").and_then(Value::as_i64).unwrap_or(INTERNAL_ERROR);
    let message = text_at(&value, "/message")
        .or_else(|| value.as_str().map(str::to_owned))
        .unwrap_or_else(|| raw.get().to_owned());
    RpcError { code, message, data: value.get("data").cloned() }
}

/// What stands for an answer that cannot be kept, so that whoever waits for it learns that it came.
pub(super) fn unreadable(raw: &RawValue) -> RpcError {
    RpcError { code: INTERNAL_ERROR, message: format!("unreadable answer {}", raw.get()), data: None }
}
