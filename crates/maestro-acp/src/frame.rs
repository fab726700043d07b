use bytes::Bytes;
use maestro_protocol::{NoticeLine, PermissionOption};
use serde::{Deserialize as _, Serialize};
use serde_json::{Value, value::RawValue};
use std::fmt;

/// The JSON-RPC error code with which an agent says that a person must sign in first (CONTRACT §8.4).
pub const AUTH_REQUIRED: i64 = -32000;

/// One line of an agent, as far as a client must tell lines apart. What is in it is kept as it came.
#[derive(Debug, Clone)]
pub enum Frame {
    /// A `session/update` notification.
    Update {
        /// Its `params`, byte for byte: what the event log keeps. Always readable as a [`Value`], at most 128 deep,
        /// an object whose `update` is an object, and without a key `maestroEvent`.
        params: Bytes,
        /// The `sessionUpdate` of the update; empty if it has none.
        kind: String,
        /// What the update is about.
        class: UpdateClass,
    },
    /// A line that cannot be kept as it came (CONTRACT §4.5).
    Notice(NoticeLine),
    /// A `session/request_permission` request. It waits for an answer.
    PermissionRequest(PermissionRequest),
    /// A `$/cancel_request` notification: the agent withdraws a request (CONTRACT §7.7).
    CancelRequest {
        /// The request.
        id: RawId,
    },
    /// An answer to the request of this id.
    Response {
        /// The id as the client gave it.
        id: u64,
        /// The result, `null` included and always readable as a [`Value`], or the error. A result that is not
        /// readable so is an error.
        result: Result<Box<RawValue>, RpcError>,
    },
    /// A request that no client of this kind implements, or whose params cannot be read. It waits for an answer.
    UnknownRequest {
        /// Its id.
        id: RawId,
        /// Its method.
        method: String,
    },
    /// A notification that is not for a session's log.
    OtherNotification {
        /// Its method.
        method: String,
    },
    /// An answer to no request that a client could have sent, such as a parse error with the id `null`.
    StrayResponse,
}

/// What an update is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdateClass {
    /// The session's present state: usage, mode, options, commands, title (CONTRACT §4.6).
    State,
    /// Everything else: messages, tool calls, plans, and kinds that nobody knows.
    Content,
}

/// The id of an agent's request: the token as the agent spelt it, since some are strings and some no 64-bit integers.
/// Two ids are equal if they are the same string, however escaped, or the same token.
#[derive(Clone)]
pub struct RawId {
    token: Box<RawValue>,
    /// The decoded text of a string id.
    text: Option<String>,
}

impl RawId {
    /// The id that `token` spells; `None` unless it is a string or a number.
    pub(crate) fn read(token: &RawValue) -> Option<Self> {
        let text = match token.get().as_bytes().first()? {
            b'"' => Some(String::deserialize(token).ok()?),
            b'-' | b'0'..=b'9' => None,
            _ => return None,
        };
        Some(Self { token: token.to_owned(), text })
    }

    /// The token.
    pub fn as_raw(&self) -> &RawValue {
        &self.token
    }
}

impl PartialEq for RawId {
    fn eq(&self, other: &Self) -> bool {
        match (&self.text, &other.text) {
            (Some(left), Some(right)) => left == right,
            (None, None) => self.token.get() == other.token.get(),
            _ => false,
        }
    }
}

impl Eq for RawId {}

impl fmt::Debug for RawId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.token.get())
    }
}

/// A request of the agent for a person's permission.
#[derive(Debug, Clone, PartialEq)]
pub struct PermissionRequest {
    /// Its id, for the answer.
    pub id: RawId,
    /// The agent's session; empty if the request names none.
    pub session_id: String,
    /// The tool call it is about, if it names one.
    pub tool_call_id: Option<String>,
    /// The options in the agent's order. Entries without an id are left out: nobody could choose them.
    pub options: Vec<PermissionOption>,
    /// The params as they came.
    pub params: Value,
}

/// A JSON-RPC error as the agent sent it.
#[derive(Debug, Clone, PartialEq, Serialize, thiserror::Error)]
#[error("error {code}: {}", describe(.message, .data.as_ref()))]
pub struct RpcError {
    /// Its code.
    pub code: i64,
    /// Its message.
    pub message: String,
    /// Further data, verbatim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl RpcError {
    /// Whether a person must sign in first.
    pub fn needs_sign_in(&self) -> bool {
        self.code == AUTH_REQUIRED
    }
}

/// The most bytes of an agent's message, and of its data, that a sentence for a person quotes.
const QUOTED_MAX: usize = 400;

/// The message, and the data where it is short: agents say "Internal error" and put the cause into the data.
fn describe(message: &str, data: Option<&Value>) -> String {
    let mut text = message[..message.floor_char_boundary(QUOTED_MAX)].to_owned();
    if let Some(data) = data.map(Value::to_string).filter(|data| data.len() <= QUOTED_MAX) {
        text = format!("{text} {data}");
    }
    text
}
