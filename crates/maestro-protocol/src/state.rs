use crate::{Nonce, QueueState, RowId, Timestamp, Usage};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Who began a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum Origin {
    /// A prompt sent by a person or on a person's order.
    Person,
    /// The agent, by itself.
    Agent,
}

/// One whole-session snapshot, folded over every line seen; never a delta (CONTRACT §6.1).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ReducedState {
    /// The turn and its indicators.
    pub turn: TurnState,
    /// The one approval that can be answered now; always `null` in replay.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub pending_approval: Option<PendingApproval>,
    /// The newest plan, as its row holds it.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub plan: Option<Value>,
    /// What was used so far.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub usage: Option<Usage>,
    /// How full the agent's context is.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub context: Option<ContextWindow>,
    /// The model in use and those offered.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub model: Option<ModelState>,
    /// The mode in use and those offered.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub mode: Option<ModeState>,
    /// The agent's configuration options, verbatim.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub config_options: Option<Value>,
    /// The agent's commands; at most 512 entries and 64 KiB are kept.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub commands: Option<Vec<Command>>,
    /// The session's title (CONTRACT §9).
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub title: Option<String>,
    /// The messages that wait (CONTRACT §8.7). In the live state always; absent in replay, since it is in no log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueState>,
}

/// The top-level keys of [`ReducedState`], in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StateKey {
    /// `turn`
    Turn,
    /// `pending_approval`
    PendingApproval,
    /// `plan`
    Plan,
    /// `usage`
    Usage,
    /// `context`
    Context,
    /// `model`
    Model,
    /// `mode`
    Mode,
    /// `config_options`
    ConfigOptions,
    /// `commands`
    Commands,
    /// `title`
    Title,
    /// `queue`
    Queue,
}

/// The indicators of a turn, all derived from the log.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TurnState {
    /// Whether a turn is active.
    pub active: bool,
    /// Who began the active turn.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub origin: Option<Origin>,
    /// The newest thing in the active turn is visible text.
    pub responding: bool,
    /// The newest thing in the active turn is a thought.
    pub thinking: bool,
    /// Tool calls that are open, oldest first. May outlive a turn where an agent reports late.
    pub active_tool_calls: Vec<String>,
    /// `turn:<cursor of its started line>`, of the active turn.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub turn_id: Option<String>,
    /// When the active turn began.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub started_at: Option<Timestamp>,
    /// How the last turn ended.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub last_end: Option<LastEnd>,
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LastEnd {
    /// The turn.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub turn_id: Option<String>,
    /// The agent's stop reason verbatim (`end_turn`, `max_tokens`, `refusal`, `cancelled`, …), or the daemon's:
    /// `error`, `interrupted`, `quiet`.
    pub reason: String,
    /// The agent's JSON-RPC error (`{code, message, data?}`) where `reason` is `error`.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub error: Option<Value>,
    /// When.
    pub at: Timestamp,
}

/// The approval that can be answered now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PendingApproval {
    /// Answers it, once. `null` for a reader that may not decide.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub nonce: Option<Nonce>,
    /// The row that shows the request.
    pub row_id: RowId,
    /// The agent's options, in its order.
    pub options: Vec<PermissionOption>,
    /// The decisions that this request can take: those with exactly one matching option, and `Deny` always.
    pub decisions: Vec<crate::Decision>,
}

/// One option of a permission request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PermissionOption {
    /// The agent's id of the option.
    pub option_id: String,
    /// The agent's label.
    pub name: String,
    /// What the option means.
    pub kind: PermissionOptionKind,
}

/// What an option means. A kind this version does not know is `other` and is never chosen by a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum PermissionOptionKind {
    /// Allow this one time.
    AllowOnce,
    /// Allow now and later.
    AllowAlways,
    /// Refuse this one time.
    RejectOnce,
    /// Refuse now and later.
    RejectAlways,
    /// Something else.
    Other,
}

/// How full the agent's context is, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ContextWindow {
    /// Tokens in use.
    pub used: u64,
    /// Tokens that fit.
    pub size: u64,
}

/// The model in use and those offered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ModelState {
    /// The id of the model in use.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub current: Option<String>,
    /// What the agent offers, verbatim.
    pub available: Value,
}

/// The mode in use and those offered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ModeState {
    /// The id of the mode in use.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub current: Option<String>,
    /// What the agent offers, verbatim.
    pub available: Value,
}

/// A command that the agent offers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Command {
    /// Its name, without a slash.
    pub name: String,
    /// What it does.
    pub description: String,
    /// What to type after it, if anything.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub hint: Option<String>,
}
