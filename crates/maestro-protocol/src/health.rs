use crate::{SessionId, Timestamp};
use serde::{Deserialize, Serialize};

/// What a daemon can say of itself (CONTRACT §11.4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Health {
    /// `degraded` while something is wrong that a person should look at.
    pub status: HealthStatus,
    /// The daemon's version.
    pub version: String,
    /// When the daemon started.
    pub started_at: Timestamp,
    /// The file system that holds the sessions; `null` if the system does not tell, which is then among the troubles.
    #[serde(deserialize_with = "Option::deserialize")]
    pub disk: Option<DiskSpace>,
    /// How many sessions the caller has.
    pub sessions: SessionCounts,
    /// What is wrong, and what to do about it.
    pub troubles: Vec<Trouble>,
}

/// Whether all is well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum HealthStatus {
    /// Nothing but malformed lines is among the troubles: those are history.
    Ok,
    /// See the troubles.
    Degraded,
}

/// A file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct DiskSpace {
    /// What the daemon's user may still write, in bytes.
    pub free_bytes: u64,
    /// Its size in bytes.
    pub total_bytes: u64,
}

/// Sessions by status.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SessionCounts {
    /// Sessions whose agent is being started.
    pub starting: u64,
    /// Sessions whose agent answers.
    pub running: u64,
    /// Sessions without an agent.
    pub dead: u64,
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Trouble {
    /// For programs.
    pub kind: TroubleKind,
    /// The session that has it; `null` if it is the daemon's own.
    #[serde(deserialize_with = "Option::deserialize")]
    pub session: Option<SessionId>,
    /// What is wrong and what to do, safe to show.
    pub detail: String,
    /// How many, where the kind counts something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

/// The kinds of trouble: a closed list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum TroubleKind {
    /// The session's log takes no lines for now, usually for want of space. It goes on by itself; `count` lines wait
    /// besides what the agent was not asked for yet.
    LogStalled,
    /// The session's log takes no lines any more; a restart of the session opens it anew.
    LogLost,
    /// The session's log cannot be opened.
    LogUnopened,
    /// Writes to the session's log took over 100 ms within the last minute; `count` of them.
    SlowDisk,
    /// Lines of the session's log are not those that were written; `count` of them.
    DamagedLines,
    /// Lines of the session's log that mean nothing, such as one that a crash cut off; `count` of them. Harmless.
    MalformedLines,
    /// The session's sidecar is older than the session. It is stored again by itself.
    SidecarUnsaved,
    /// A sidecar could not be read when the daemon started: its session is left out.
    SidecarUnreadable,
    /// Less than 64 MiB are free on the file system that holds the sessions.
    DiskLow,
    /// The system does not tell how much is free.
    DiskUnknown,
}

impl TroubleKind {
    /// Whether a daemon that has it is degraded.
    pub fn degrades(self) -> bool {
        self != Self::MalformedLines
    }
}
