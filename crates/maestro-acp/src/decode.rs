use crate::{
    Frame, PermissionRequest, RawId, UpdateClass,
    decode::{
        keepable::{Unkeepable, is_keepable, pick},
        notice::notice,
        tolerant::{rpc_error, text_at, unreadable},
    },
};
use bytes::Bytes;
use maestro_protocol::{NoticeReason, json};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, value::RawValue};
use std::borrow::Cow;

mod keepable;
pub(crate) mod notice;
pub(crate) mod tolerant;

/// The parts of a JSON-RPC message, not interpreted. A part that is there twice makes a message that is none.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "present")]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

/// Reads `null` as a value that is there: `"result": null` is an answer.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// What a line of an agent is, without its newline. Total: whatever is in it, the answer is a frame (CONTRACT §4.5).
pub fn decode(line: &[u8]) -> Frame {
    let Ok(text) = simdutf8::basic::from_utf8(line) else {
        return notice(NoticeReason::NotUtf8, line);
    };
    if is_too_deep(line) {
        return notice(NoticeReason::TooDeep, line);
    }
    // serde reads a struct from an array too, but a message is an object.
    let is_object = text.trim_ascii_start().starts_with('{');
    let envelope = if is_object { serde_json::from_str::<Envelope<'_>>(text).ok() } else { None };
    let frame = envelope.and_then(|envelope| match &envelope.method {
        Some(method) => call(method, &envelope, line),
        None => answer(&envelope),
    });
    frame.unwrap_or_else(|| notice(NoticeReason::NotJson, line))
}

/// Most lines have too few brackets to nest so deep, which is seen sooner than how deep they nest.
fn is_too_deep(line: &[u8]) -> bool {
    let has_enough = memchr::memchr2_iter(b'{', b'[', line).nth(json::MAX_DEPTH).is_some();
    has_enough && json::depth(line) > json::MAX_DEPTH
}

/// A request or a notification; `None` if its id is neither a string nor a number nor `null`.
fn call(method: &str, envelope: &Envelope<'_>, line: &[u8]) -> Option<Frame> {
    // An id `null` could not be told from the answer to another one, so it makes no request.
    let Some(token) = envelope.id.filter(|token| token.get() != "null") else {
        return Some(notification(method, envelope.params, line));
    };
    let id = RawId::read(token)?;
    let unknown = |id| Frame::UnknownRequest { id, method: method.into() };
    Some(match (method, envelope.params) {
        ("session/request_permission", Some(params)) => match read(params) {
            Some(params @ Value::Object(_)) => Frame::PermissionRequest(permission(id, params)),
            _ => unknown(id),
        },
        _ => unknown(id),
    })
}

fn notification(method: &str, params: Option<&RawValue>, line: &[u8]) -> Frame {
    match method {
        "session/update" => update(params, line),
        "$/cancel_request" => cancelled_id(params).map_or_else(
            || Frame::OtherNotification { method: method.into() },
            |id| Frame::CancelRequest { id },
        ),
        _ => Frame::OtherNotification { method: method.into() },
    }
}

/// Admits an update to the event log, or refuses what could pass for a line of the daemon's own (CONTRACT §5.2).
fn update(params: Option<&RawValue>, line: &[u8]) -> Frame {
    let Some(raw) = params else { return notice(NoticeReason::Refused, line) };
    let Ok(kind) = update_kind(raw) else { return notice(NoticeReason::NotJson, line) };
    let Some(kind) = kind else { return notice(NoticeReason::Refused, line) };
    Frame::Update { params: Bytes::copy_from_slice(raw.get().as_bytes()), class: class_of(&kind), kind }
}

/// The tag of the update in these params, empty if it has none; `None` if there is no update, or if the params could
/// pass for a line of the daemon's own.
fn update_kind(params: &RawValue) -> Result<Option<String>, Unkeepable> {
    let [update, event] = pick(params, ["update", "maestroEvent"])?;
    let is_forged = event.map(is_keepable).transpose()?.is_some();
    let Some(update) = update else { return Ok(None) };
    let [kind] = pick(update, ["sessionUpdate"])?;
    kind.map(is_keepable).transpose()?;
    let is_update = update.get().starts_with('{') && !is_forged;
    let kind = kind.and_then(|kind| String::deserialize(kind).ok()).unwrap_or_default();
    Ok(is_update.then_some(kind))
}

fn class_of(kind: &str) -> UpdateClass {
    match kind {
        "usage_update"
        | "current_mode_update"
        | "config_option_update"
        | "available_commands_update"
        | "session_info_update" => UpdateClass::State,
        _ => UpdateClass::Content,
    }
}

fn cancelled_id(params: Option<&RawValue>) -> Option<RawId> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Params<'a> {
        #[serde(borrow)]
        request_id: &'a RawValue,
    }
    let params = params.filter(|params| params.get().starts_with('{'))?;
    RawId::read(Params::deserialize(params).ok()?.request_id)
}

fn permission(id: RawId, params: Value) -> PermissionRequest {
    PermissionRequest {
        id,
        session_id: text_at(&params, "/sessionId").unwrap_or_default(),
        tool_call_id: text_at(&params, "/toolCall/toolCallId"),
        options: tolerant::permission_options(&params),
        params,
    }
}

/// An answer; `None` if the object is no message at all.
fn answer(envelope: &Envelope<'_>) -> Option<Frame> {
    // Older JSON-RPC has both in every answer, one of them `null`.
    let error = envelope.error.filter(|error| envelope.result.is_none() || error.get() != "null");
    let result = match (error, envelope.result) {
        (Some(error), _) => Err(rpc_error(error)),
        (None, Some(result)) if is_keepable(result).is_ok() => Ok(result.to_owned()),
        (None, Some(result)) => Err(unreadable(result)),
        (None, None) => return None,
    };
    let id = envelope.id.and_then(|token| token.get().parse().ok());
    Some(id.map_or(Frame::StrayResponse, |id| Frame::Response { id, result }))
}

/// The value that `raw` holds, if it can be kept.
fn read(raw: &RawValue) -> Option<Value> {
    if is_keepable(raw).is_ok() { json::from_slice(raw.get().as_bytes()).ok() } else { None }
}

#[cfg(test)]
mod tests;
