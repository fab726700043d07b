use crate::{AgentKey, Cursor, Decision, EndReason, ProblemCode, RowId, SessionId, Timestamp};
use serde::{Deserialize, Serialize};

/// One line of the audit log: what the daemon did for an account, or refused it (CONTRACT §12.1).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct AuditEntry {
    /// Counts from 1, over all accounts.
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    pub number: Cursor,
    /// When.
    pub at: Timestamp,
    /// The e-mail of the account that it is about.
    pub account: String,
    /// What.
    #[serde(flatten)]
    pub event: AuditEvent,
}

/// What the audit log tells of. It holds no prompt, no output, no environment and no nonce.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum AuditEvent {
    /// A daemon has begun.
    DaemonStarted {
        /// Its version.
        version: String,
    },
    /// It has shut down. Without this before the next start it was killed.
    DaemonEnded,
    /// A person made a session.
    SessionCreated {
        /// The session.
        session: SessionId,
        /// Its agent.
        agent: AgentKey,
        /// Where it works.
        cwd: String,
        /// The client that asked, as it calls itself.
        client: String,
    },
    /// The session's agent runs: for the first time, again, or resumed.
    AgentStarted {
        /// The session.
        session: SessionId,
        /// The agent.
        agent: AgentKey,
    },
    /// A session has ended, and nothing of its agent runs any more.
    SessionEnded {
        /// The session.
        session: SessionId,
        /// Why.
        reason: EndReason,
    },
    /// A person answered an approval.
    Decided {
        /// The session.
        session: SessionId,
        /// The approval's row, which holds the request.
        row_id: RowId,
        /// What was decided.
        decision: Decision,
        /// The agent's option that this chose; absent where the request was refused without one.
        #[serde(skip_serializing_if = "Option::is_none")]
        option_id: Option<String>,
        /// The client that asked, as it calls itself.
        client: String,
    },
    /// A request was refused because of who made it.
    Refused {
        /// With this code.
        code: ProblemCode,
        /// The request's method.
        method: String,
        /// Its path, without what could be a secret.
        path: String,
        /// The session whose agent asked, if it was one and its session is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        session: Option<SessionId>,
    },
    /// Lines are missing here: the disk took none, or there were too many refusals at once.
    LeftOut {
        /// How many.
        count: u64,
    },
}

/// Which part of the audit log is wanted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::IntoParams))]
pub struct AuditQuery {
    /// Entries before this number; without it the newest.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", param(value_type = Option<u64>))]
    pub before: Option<Cursor>,
    /// How many at most, 1 to 500; 100 without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

/// A page of the audit log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct AuditPage {
    /// The caller's entries, oldest first.
    pub entries: Vec<AuditEntry>,
    /// What to ask for as `before` for the page before this one; absent on the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<u64>))]
    pub before: Option<Cursor>,
    /// The line from which on the log cannot be trusted: it was changed, cut short, or does not follow from the one
    /// before it. Looked for from the log's beginning to the page's end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broken_line: Option<u64>,
}
