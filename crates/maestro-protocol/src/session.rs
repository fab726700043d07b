use crate::{AgentKey, SessionId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How a session's agent is run and seen (CONTRACT §1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum View {
    /// The agent speaks ACP over stdio as a child of the daemon.
    Structured,
}

/// Where a session is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum Status {
    /// The agent is being started or its session loaded.
    Starting,
    /// The agent answers.
    Running,
    /// No agent; the transcript is kept.
    Dead,
}

/// What a running session is doing now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum Activity {
    /// A turn is active.
    Working,
    /// An approval waits for a person.
    Waiting,
    /// Nothing is active: the agent waits for a prompt.
    Active,
}

/// Why a session is dead. Typed, never guessed (CONTRACT §10.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum EndReason {
    /// The agent's process ended by itself.
    Exited,
    /// A person killed the session.
    Killed,
    /// A cancelled turn did not settle within the agent's cancel grace.
    CancelUnsettled,
    /// The event log could not be written and not be rolled back.
    LogFailed,
    /// The agent started but no session could be opened with it.
    HandshakeFailed,
    /// The agent's program was not found.
    AdapterMissing,
    /// The daemon shut down gracefully; the next one tries to resume the session.
    DaemonShutdown,
    /// The daemon ended without shutting down, or failed internally in this session.
    DaemonCrash,
}

/// A session as the API shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Session {
    /// maestro's id.
    pub id: SessionId,
    /// The e-mail of the account that started it.
    pub owner: String,
    /// How it is run and seen.
    pub view: View,
    /// The agent's key.
    pub agent: AgentKey,
    /// The last rename; else the agent's own title; else the start of the first prompt; else empty (CONTRACT §9).
    pub title: String,
    /// The absolute directory the agent works in.
    pub cwd: String,
    /// Where it is in its life.
    pub status: Status,
    /// What it is doing; `null` unless `status` is `Running`.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub activity: Option<Activity>,
    /// A sentence for the person: why it is dead and what mends it, or what is unusual about it.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub activity_detail: Option<String>,
    /// Why it is dead; `null` unless `status` is `Dead`.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub end_reason: Option<EndReason>,
    /// The agent's id of the session, given at `session/new`; kept over restarts.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub acp_session_id: Option<String>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When its log or status last changed.
    pub updated_at: Timestamp,
    /// Cost and tokens as the agent reports them.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub usage: Option<Usage>,
}

/// What a session has used, as its agent reports it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Usage {
    /// Cumulative cost, from the newest `usage_update` that named one.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub cost: Option<Cost>,
    /// The `usage` and `_meta.quota` of the newest prompt result that had any, verbatim.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub last_turn: Option<Value>,
}

/// An amount of money.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Cost {
    /// The amount, in units of `currency`.
    pub amount: f64,
    /// An ISO 4217 code as the agent spelt it.
    pub currency: String,
}
