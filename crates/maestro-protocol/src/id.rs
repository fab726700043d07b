use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};
use uuid::Uuid;

/// A position in a session's event log: the 1-based number of a line. `0` means "before the first line".
/// Agent traffic and the daemon's own lines share one sequence (CONTRACT §6.2).
pub type Cursor = u64;

/// Text that is not an id of the wanted kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidId {
    /// The kind of id that was wanted, as a person would call it.
    pub wanted: &'static str,
}

impl fmt::Display for InvalidId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no valid {}", self.wanted)
    }
}

impl std::error::Error for InvalidId {}

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident, $wanted:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(value_type = String, format = Uuid))]
        pub struct $name(Uuid);

        impl $name {
            /// Takes a UUID made by the caller; this crate makes none.
            pub const fn from_uuid(uuid: Uuid) -> Self {
                Self(uuid)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.as_hyphenated().fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;
            /// Accepts the lower-case hyphenated form only, so that every id has one spelling.
            fn from_str(text: &str) -> Result<Self, InvalidId> {
                let uuid = Uuid::try_parse(text).ok().filter(|uuid| uuid.as_hyphenated().to_string() == text);
                uuid.map(Self).ok_or(InvalidId { wanted: $wanted })
            }
        }
    };
}

uuid_id!(
    /// maestro's own id of a session: a UUID, never the agent's id (`acp_session_id`).
    SessionId,
    "session id"
);
uuid_id!(
    /// The secret that answers one live approval (CONTRACT §7.2). On no disk and in no row.
    Nonce,
    "nonce"
);
uuid_id!(
    /// A message that waits in a session's queue (CONTRACT §8.7).
    QueueItemId,
    "queue item id"
);

/// The id of a transcript row: `user:…`, `agent:…`, `thought:…`, `tool:…`, `approval:…`, `notice:…` or `plan`
/// (CONTRACT §4.1). Unique in its session and stable for ever.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(value_type = String))]
pub struct RowId(String);

impl RowId {
    /// The one plan row of a session.
    pub fn plan() -> Self {
        Self("plan".into())
    }
    /// The row of a tool call, for the call's whole life.
    pub fn tool(tool_call_id: &str) -> Self {
        Self(format!("tool:{tool_call_id}"))
    }
    /// The row of a permission request; `key` is a UUID minted for this row.
    pub fn approval(key: Uuid) -> Self {
        Self(format!("approval:{key}"))
    }
    /// `<prefix>:<key>`, for rows named after a message id or a cursor.
    pub fn keyed(prefix: &str, key: impl fmt::Display) -> Self {
        Self(format!("{prefix}:{key}"))
    }
    /// The id as it stands on the wire.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for RowId {
    fn from(id: String) -> Self {
        Self(id)
    }
}

impl fmt::Display for RowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The key of an agent in the agent table, such as `claude-code-acp`: 1 to 64 of `a-z 0-9 - _ .`, not starting with
/// a sign.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(value_type = String))]
pub struct AgentKey(String);

impl AgentKey {
    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for AgentKey {
    type Err = InvalidId;
    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_' | '.');
        let well_formed = (1..=64).contains(&text.len())
            && text.chars().all(allowed)
            && text.starts_with(|c: char| c.is_ascii_alphanumeric());
        if well_formed { Ok(Self(text.into())) } else { Err(InvalidId { wanted: "agent key" }) }
    }
}

impl TryFrom<String> for AgentKey {
    type Error = InvalidId;
    fn try_from(text: String) -> Result<Self, InvalidId> {
        text.parse()
    }
}

impl From<AgentKey> for String {
    fn from(key: AgentKey) -> Self {
        key.0
    }
}

impl fmt::Display for AgentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_id_has_one_spelling() {
        let check = |text: &str, ok: bool| assert_eq!(text.parse::<SessionId>().is_ok(), ok, "{text:?}");
        check("8f14e45f-ceea-467f-a8f3-1d6d0e3b2c11", true);
        check("8F14E45F-CEEA-467F-A8F3-1D6D0E3B2C11", false);
        check("8f14e45fceea467fa8f31d6d0e3b2c11", false);
        check("{8f14e45f-ceea-467f-a8f3-1d6d0e3b2c11}", false);
        check("../8f14e45f-ceea-467f-a8f3-1d6d0e3b2c1", false);
        check("", false);
    }

    #[test]
    fn an_agent_key_is_a_plain_word() {
        let check = |text: &str, ok: bool| assert_eq!(text.parse::<AgentKey>().is_ok(), ok, "{text:?}");
        check("claude-code-acp", true);
        check("demo", true);
        check("", false);
        check("-x", false);
        check("a/b", false);
        check("A", false);
        check(&"a".repeat(65), false);
    }
}
