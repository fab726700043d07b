//! What a mention of a tool call says about the call's standing (CONTRACT §4.3).

use serde_json::{Map, Value};

/// Where a tool call was mentioned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mention {
    Call,
    Update,
    Approval,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    Open,
    Closed,
}

/// Whether the mention opens or closes the call; `None` if it leaves it as it was.
pub(crate) fn standing(mention: Mention, patch: &Map<String, Value>) -> Option<Standing> {
    let status = patch.get("status").filter(|status| !status.is_null());
    match (mention, status.map(|status| status.as_str().unwrap_or_default())) {
        (_, Some("completed" | "failed" | "cancelled")) => Some(Standing::Closed),
        (_, Some("pending" | "in_progress")) | (Mention::Call, None) | (Mention::Approval, _) => {
            Some(Standing::Open)
        }
        (Mention::Call, Some(_)) | (Mention::Update, _) => None,
    }
}

/// The call that `patch` is about.
pub(crate) fn call_id(patch: &Map<String, Value>) -> Option<&str> {
    patch.get("toolCallId").and_then(Value::as_str).filter(|id| !id.is_empty())
}

/// The `toolCall` of a permission request, if it names its call.
pub(crate) fn of_request(params: &Value) -> Option<(&str, &Map<String, Value>)> {
    let patch = params.get("toolCall")?.as_object()?;
    Some((call_id(patch)?, patch))
}
