use crate::{QueueItemId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A message that waits for its turn (CONTRACT §8.7).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct QueueItem {
    /// Names it for as long as it waits, and in the `started` line of its turn.
    pub id: QueueItemId,
    /// ACP content blocks, passed to the agent as they are.
    pub content: Vec<Value>,
    /// When it was added.
    pub created_at: Timestamp,
    /// Who added it.
    pub by: Author,
}

/// Who did something, and with what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Author {
    /// The account.
    pub account: String,
    /// The client, such as `cli`, as it calls itself.
    pub client: String,
}

/// Why the messages that wait are not sent although no turn is active.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum QueueHold {
    /// An approval waits for its answer. They go on by themselves when it has one.
    Approval,
    /// A turn was cancelled. They wait for `resume`.
    Cancelled,
    /// A turn ended in an error. They wait for `resume`.
    Failed,
    /// The session ended, or the daemon did. They wait for a restart, if it is dead, and for `resume`.
    Ended,
}

/// `GET /api/sessions/{id}/queue`: what waits, the next first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Queue {
    /// The messages, whole.
    pub items: Vec<QueueItem>,
    /// Why the first is held; `null` where it is not, and where nothing waits.
    pub held: Option<QueueHold>,
}

/// The queue as the live state shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct QueueState {
    /// The messages, the next first, each cut short.
    pub items: Vec<QueuePreview>,
    /// Why the first is held; `null` where it is not, and where nothing waits.
    pub held: Option<QueueHold>,
}

/// A message that waits, cut short: the state is sent often, and a message may have megabytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct QueuePreview {
    /// Its id.
    pub id: QueueItemId,
    /// The beginning of its first text: at most 500 characters.
    pub text: String,
    /// Whether there is more of it than `text`: more text or further blocks.
    pub cut: bool,
    /// When it was added.
    pub created_at: Timestamp,
    /// Who added it.
    pub by: Author,
}

/// `PATCH /api/sessions/{id}/queue/{item}`: a new text or content, a new place, or both.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct EditQueueItem {
    /// Plain text in place of what there was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// ACP content blocks in place of what there was. Not together with `text`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Vec<Value>>,
    /// The place to move it to: 0 is the next. Past the end is the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
}

/// What makes a request the same as an earlier one (CONTRACT §11.5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestMark {
    /// Its `Idempotency-Key`.
    pub key: String,
    /// A hash of its body, 16 hexadecimal digits.
    pub body: String,
}
