use serde::{Deserialize, Serialize};

/// Why a request failed: a closed list, for programs to switch on. docs/API.md says for each what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum ProblemCode {
    /// 400: the body or query cannot be read, or a field has a value that is not allowed.
    InvalidRequest,
    /// 400: the approval's request has no single option for this decision.
    DecisionNotOffered,
    /// 400: the agent offers no such mode, model or option.
    NotOffered,
    /// 400: no agent has this key.
    UnknownAgent,
    /// 400: the directory is missing or no directory.
    InvalidCwd,
    /// 403: the caller runs below an agent and may only read.
    AgentPeer,
    /// 403: the caller's Unix user has no account here.
    UnknownPeer,
    /// 404: no such thing, or not the caller's.
    NotFound,
    /// 405: the path has no such method.
    MethodNotAllowed,
    /// 409: the session is dead.
    NotStructured,
    /// 409: a turn is active.
    TurnInFlight,
    /// 409: the agent is still starting.
    Starting,
    /// 409: the session is running and needs no restart.
    AlreadyRunning,
    /// 409: the session's directory is gone.
    CwdMissing,
    /// 409: the agent cannot load a session.
    CannotResume,
    /// 409: the agent refused what was asked of it.
    AgentRefused,
    /// 409: the session's event log cannot be opened, or takes no more lines after a failure of the disk.
    LogFailed,
    /// 409: as many messages wait in the session's queue, or as many bytes, as may.
    QueueFull,
    /// 413: the body is too long.
    BodyTooLarge,
    /// 415: the body is not `application/json`.
    UnsupportedMediaType,
    /// 422: the `Idempotency-Key` belongs to an earlier request with another body.
    IdempotencyKeyReused,
    /// 503: the session's mailbox is full, or the daemon shuts down; try again after `Retry-After`.
    Busy,
    /// 504: the agent did not answer in time; it may still do what was asked.
    AgentSilent,
    /// 507: the event log cannot be written.
    LogUnwritable,
    /// 500: a defect; the log has more under `request_id`.
    Internal,
}

/// An error as `application/problem+json` (RFC 9457).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Problem {
    /// The HTTP status.
    pub status: u16,
    /// The status in words.
    pub title: String,
    /// For programs.
    pub code: ProblemCode,
    /// What happened and what to do, safe to show.
    pub detail: String,
    /// The offending field of the request, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// Names this request in the daemon's log.
    pub request_id: String,
}
