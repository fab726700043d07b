//! What a session's sidecar holds: the session as last known and what a later daemon needs to start it again.

use crate::session::{handle::SessionError, queue};
use maestro_log::DirectoryId;
use maestro_process::SpawnRecord;
use maestro_protocol::{Day, RequestMark, Session, SessionId, Spending, Timestamp};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc};

/// The content of `sessions/<id>.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct StoredSession {
    /// The session as the API last showed it.
    pub(crate) session: Session,
    /// The environment of the request that created it. Never on the wire: it may hold secrets.
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    /// The mode that the person asked for, if any.
    #[serde(default)]
    pub(crate) mode: Option<String>,
    /// The model that the person asked for, if any.
    #[serde(default)]
    pub(crate) model: Option<String>,
    /// Whether the agent said that it can load a session; unknown before its first handshake.
    #[serde(default)]
    pub(crate) load_supported: Option<bool>,
    /// From which byte on nobody knows what of its log is on the disk, after a failed flush (CONTRACT §5.4).
    #[serde(default)]
    pub(crate) doubtful_from: Option<u64>,
    /// The newest process tree, for the sweep after a crash.
    #[serde(default)]
    pub(crate) spawn: Option<SpawnRecord>,
    /// The data directory of the daemon that made it. In a copy the processes belong to the original, whose daemon may
    /// well be alive.
    #[serde(default)]
    pub(crate) spawned_in: Option<DirectoryId>,
    /// What was spent by day, a copy of what the log tells; `None` until the log was first read for it.
    #[serde(default)]
    pub(crate) ledger: Option<Arc<Ledger>>,
    /// The request that created it, if that had an `Idempotency-Key` that is still remembered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) created: Option<Box<Made>>,
    /// The newest restart that had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) restarted: Option<Box<Made>>,
}

/// A request that can be retried, and what it was answered (CONTRACT §11.5).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Made {
    pub(crate) request: RequestMark,
    pub(crate) at: Timestamp,
    pub(crate) session: Session,
}

impl Made {
    /// The first answer, if `retry` has the same key and that is still remembered.
    pub(crate) fn answer_to(
        &self,
        retry: &RequestMark,
        now: Timestamp,
    ) -> Option<Result<Session, SessionError>> {
        let is_it = self.request.key == retry.key && queue::is_kept(self.at, now);
        is_it.then(|| queue::same(&self.request, retry).map(|()| self.session.clone()))
    }
}

/// What was spent by day.
pub(crate) type Ledger = BTreeMap<Day, Spending>;

impl StoredSession {
    pub(crate) fn id(&self) -> SessionId {
        self.session.id
    }

    /// What is to be swept, for a daemon that holds this directory.
    pub(crate) fn left_by(&self, directory: DirectoryId) -> Option<&SpawnRecord> {
        self.spawn.as_ref().filter(|_| self.spawned_in == Some(directory))
    }

    /// Without the keys that need not be remembered any more.
    pub(crate) fn without_old_keys(mut self, now: Timestamp) -> Self {
        self.created = self.created.filter(|made| queue::is_kept(made.at, now));
        self.restarted = self.restarted.filter(|made| queue::is_kept(made.at, now));
        self
    }
}
