//! The daemon's own lines in the event log. Everything else in a log is the `params` of an agent's notification,
//! byte for byte (CONTRACT §5).

use crate::{ConfigValue, Decision, Origin, QueueItemId, RequestMark, RowId, Timestamp, TranscriptRow};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A line that the daemon wrote of itself: `{"maestroEvent": kind, …}`. The kinds are closed; a reader keeps a line of
/// a kind it does not know and makes no row of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "maestroEvent", rename_all = "snake_case")]
pub enum Envelope {
    /// A permission request went live.
    Approval(ApprovalLine),
    /// It settled.
    ApprovalResolved(ApprovalResolvedLine),
    /// A turn began or ended.
    Turn(TurnLine),
    /// A person renamed the session.
    Summary(SummaryLine),
    /// What the agent offered or took at a handshake or a change of a setting.
    Session(SessionLine),
    /// Something the agent sent that could not be kept as it came, or that a person must see.
    Notice(NoticeLine),
    /// The time.
    Clock(ClockLine),
}

/// `approval`: the row is the request's params verbatim, without the nonce.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalLine {
    /// Of kind `Approval`.
    pub row: TranscriptRow,
    /// When it went live.
    pub at: Timestamp,
}

/// `approval_resolved`: what became of an approval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalResolvedLine {
    /// The approval's row.
    pub row_id: RowId,
    /// What, when, who; the row shows it under `data._meta.maestro.outcome`.
    pub outcome: ApprovalOutcome,
}

/// What became of an approval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ApprovalOutcome {
    /// What the agent was answered.
    pub what: OutcomeKind,
    /// The option that was chosen, for `selected`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub option_id: Option<String>,
    /// The decision as the person gave it, if a person decided by kind and not by option.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    /// Why it was withdrawn, for `cancelled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<OutcomeCause>,
    /// When.
    pub when: Timestamp,
    /// The account that decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// The client it decided with, such as `cli`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
}

/// What the agent was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum OutcomeKind {
    /// One of its options.
    Selected,
    /// That the request is withdrawn.
    Cancelled,
}

/// Why an approval was answered `cancelled`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum OutcomeCause {
    /// A person denied it and the agent offered no way to refuse.
    Denied,
    /// Its turn was cancelled.
    TurnCancelled,
    /// A newer request took its place.
    Superseded,
    /// The agent withdrew it.
    Withdrawn,
    /// The session ended.
    SessionEnded,
    /// The daemon ended without answering it.
    Interrupted,
}

/// `turn`: a turn began or ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "snake_case")]
pub enum TurnLine {
    /// It began. For a person's turn the next agent-form line with `message_id` is the prompt, written by the daemon.
    Started {
        /// Who began it.
        origin: Origin,
        /// The minted id of the prompt's `user_message_chunk` line.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message_id: Option<String>,
        /// The message of the queue that is its prompt. Once that prompt's line follows, the message waits no more.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        queue_item: Option<QueueItemId>,
        /// The request that was its prompt, where it had an `Idempotency-Key`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<RequestMark>,
        /// When.
        at: Timestamp,
    },
    /// It ended.
    Ended {
        /// Who had begun it.
        origin: Origin,
        /// The agent's stop reason verbatim, or `error`, `interrupted`, or `quiet`.
        reason: String,
        /// The JSON-RPC error, where `reason` is `error`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Value>,
        /// `{usage?, quota?}`: the prompt result's `usage` and `_meta.quota`, verbatim.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Value>,
        /// When.
        at: Timestamp,
    },
}

/// `summary`: a rename. An empty name removes the rename.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SummaryLine {
    /// The name.
    pub summary: String,
    /// When.
    pub at: Timestamp,
}

/// `session`: what the handshake or a change of mode, model or option said, so that the fold knows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionLine {
    /// What happened.
    pub event: SessionLineEvent,
    /// The agent's session id.
    pub acp_session_id: String,
    /// `modes` of the result, verbatim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modes: Option<Value>,
    /// `models` of the result, verbatim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub models: Option<Value>,
    /// `configOptions` of the result, verbatim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_options: Option<Value>,
    /// The mode that the agent accepted, for `mode_set`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode_id: Option<String>,
    /// The model that the agent accepted, for `model_set`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_id: Option<String>,
    /// The configuration option whose value the agent accepted, for `config_set`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_id: Option<String>,
    /// That value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<ConfigValue>,
    /// When.
    pub at: Timestamp,
}

impl SessionLine {
    /// A line that tells nothing but its event.
    pub fn new(event: SessionLineEvent, acp_session_id: String, at: Timestamp) -> Self {
        Self {
            event,
            acp_session_id,
            modes: None,
            models: None,
            config_options: None,
            mode_id: None,
            model_id: None,
            config_id: None,
            value: None,
            at,
        }
    }
}

/// What a `session` line tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionLineEvent {
    /// `session/new` answered.
    Opened,
    /// `session/load` answered.
    Loaded,
    /// The agent accepted a mode.
    ModeSet,
    /// The agent accepted a model.
    ModelSet,
    /// The agent accepted a value for a configuration option.
    ConfigSet,
}

/// `notice`: shown as a `Notice` row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NoticeLine {
    /// What kind of thing it was.
    pub reason: NoticeReason,
    /// What a person reads; for agent input its text, lossily decoded and cut to 4 KiB.
    pub text: String,
    /// The length of the input before it was cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// Why a `notice` line was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum NoticeReason {
    /// A line over 8 MiB was dropped to its newline.
    TooLong,
    /// A line is not UTF-8.
    NotUtf8,
    /// A line is not a JSON-RPC message.
    NotJson,
    /// A message nests deeper than 128.
    TooDeep,
    /// A notification could have passed for a line of the daemon, or has no `update` object.
    Refused,
    /// The output ended inside a line.
    Partial,
    /// The agent refused the mode that was asked for.
    ModeRefused,
    /// The agent refused the model, or the value of an option, that was asked for at its start.
    SettingRefused,
}

/// `clock`: the time, written before a line when the last time in the log is 200 ms or more old.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockLine {
    /// Now.
    pub at: Timestamp,
}

impl Envelope {
    /// The line's bytes, without the newline.
    #[expect(
        clippy::missing_panics_doc,
        reason = "these types have no map keys or values that JSON cannot hold"
    )]
    pub fn to_line(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("an envelope is always representable as JSON")
    }
}
