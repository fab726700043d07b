use crate::{AgentKey, Cursor, Session, View};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{collections::BTreeMap, fmt};

/// `POST /api/sessions`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CreateSession {
    /// How to run it.
    pub view: View,
    /// Which agent; the default is `claude-code-acp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentKey>,
    /// An existing absolute directory; the default is the daemon user's home.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Added to the agent's environment; `PATH` here also decides where the agent's program is looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// A name for the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The mode to start in; the default is the agent's asking mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// The model to start with; the default is the agent's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The first prompt. It waits in the session's queue and is sent when the agent runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<PromptBody>,
}

/// `GET /api/sessions`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SessionList {
    /// The caller's sessions, newest first.
    pub sessions: Vec<Session>,
}

/// `PATCH /api/sessions/{id}`: rename. An empty title removes the rename.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RenameSession {
    /// The name, at most 200 characters on one line.
    pub title: String,
}

/// `POST …/structured/prompt`: exactly one of `text` and `content`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PromptBody {
    /// Plain text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// ACP content blocks, passed to the agent as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Vec<Value>>,
}

/// `POST …/structured/mode`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SetMode {
    /// One of the ids in `state.mode.available`.
    pub mode_id: String,
}

/// `POST …/structured/model`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SetModel {
    /// One of the ids in `state.model.available`.
    pub model_id: String,
}

/// `POST …/structured/config`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SetConfig {
    /// The id of one of `state.config_options`.
    pub config_id: String,
    /// One of its values; `true` or `false` where its type is `boolean`.
    pub value: ConfigValue,
}

/// The value of a configuration option of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum ConfigValue {
    /// Of an option that is on or off.
    Flag(bool),
    /// Of an option that offers values: the id of one.
    Id(String),
}

impl fmt::Display for ConfigValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => flag.fmt(f),
            Self::Id(id) => id.fmt(f),
        }
    }
}

/// `POST …/structured/approvals/{nonce}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ApprovalAnswer {
    /// What to answer.
    pub decision: Decision,
}

/// An answer to an approval (CONTRACT §7.4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum Decision {
    /// The one option of kind `allow_once`.
    AllowOnce,
    /// The one option of kind `allow_always`.
    AllowForSession,
    /// A one-shot refusal; else a permanent one; else `cancelled`.
    Deny,
    /// Exactly this option, by its id.
    #[serde(rename = "option")]
    Option(String),
}

/// The query of `GET …/structured/replay`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
pub struct ReplayQuery {
    /// The first page after this line. `0`, the default, is the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", param(value_type = Option<u64>))]
    pub since: Option<Cursor>,
    /// The page right before this line. Not together with `since`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", param(value_type = Option<u64>))]
    pub before: Option<Cursor>,
    /// Events wanted: 100 unless given, clamped to 1-500. A page ends early at 4 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// The form of the events' deltas: `plain`, the default, or `text`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", param(inline))]
    pub deltas: Option<Deltas>,
}

/// How deltas tell that a text became longer (CONTRACT §6.5).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum Deltas {
    /// The row as a whole.
    #[default]
    Plain,
    /// What was added.
    Text,
}

/// The query of `WS /api/structured/{id}`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
pub struct WatchQuery {
    /// The form of updates: `plain`, the default, or `text`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", param(inline))]
    pub deltas: Option<Deltas>,
    /// How many rows the snapshot holds at most, the last ones; all unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail: Option<u64>,
}
