//! What is wrong with the daemon and with an account's sessions (CONTRACT §11.4).

use super::{Registry, Request};
use crate::{
    account::AccountScope,
    session::{SessionError, SessionHealth},
};
use maestro_protocol::{
    DiskSpace, Health, HealthStatus, SessionCounts, SessionId, Status, Timestamp, Trouble, TroubleKind,
};
use std::path::{Path, PathBuf};
use tokio::time::Instant;

/// Less free space than this is a trouble: a few long sessions fill it within a day.
const LOW_BYTES: u64 = 64 * 1024 * 1024;

/// What a daemon knows of itself from its start on.
#[derive(Debug, Clone)]
pub(crate) struct DaemonFacts {
    /// When it started.
    pub(crate) started_at: Timestamp,
    /// The directory of its sessions.
    pub(crate) sessions: PathBuf,
    /// Sessions that were left out because their sidecars could not be read, and why.
    pub(crate) unreadable: Vec<(SessionId, String)>,
}

/// One session of the account.
pub(super) struct SessionStanding {
    pub(super) id: SessionId,
    pub(super) status: Status,
    pub(super) health: SessionHealth,
}

impl Registry {
    /// How the daemon is.
    pub(crate) async fn health(&self, scope: &AccountScope) -> Result<Health, SessionError> {
        let scope = scope.clone();
        let sessions = self.ask(|reply| Request::Standings { scope, reply }).await?;
        let path = self.around.daemon.sessions.clone();
        let disk = tokio::task::spawn_blocking(move || space(&path)).await.ok().flatten();
        Ok(sum_up(&self.around.daemon, disk, &sessions, Instant::now()))
    }
}

fn space(path: &Path) -> Option<DiskSpace> {
    let found = rustix::fs::statvfs(path).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
    Some(DiskSpace { free_bytes: bytes(found.f_bavail), total_bytes: bytes(found.f_blocks) })
}

fn sum_up(
    daemon: &DaemonFacts,
    disk: Option<DiskSpace>,
    sessions: &[SessionStanding],
    now: Instant,
) -> Health {
    let mut counts = SessionCounts::default();
    let mut troubles = Vec::new();
    let mut add = |kind, session, detail| troubles.push(Trouble { kind, session, detail, count: None });
    match disk {
        Some(DiskSpace { free_bytes, .. }) if free_bytes < LOW_BYTES => {
            let detail =
                format!("the disk of the data directory has {} MiB left; free some", free_bytes >> 20);
            add(TroubleKind::DiskLow, None, detail);
        }
        Some(_) => {}
        None => {
            let detail = "the system does not tell how much space the data directory has; check its disk";
            add(TroubleKind::DiskUnknown, None, detail.to_owned());
        }
    }
    for (id, why) in &daemon.unreadable {
        add(TroubleKind::SidecarUnreadable, Some(*id), why.clone());
    }
    for SessionStanding { id, status, health } in sessions {
        match status {
            Status::Starting => counts.starting += 1,
            Status::Running => counts.running += 1,
            Status::Dead => counts.dead += 1,
        }
        troubles.extend(health.troubles(*id, now));
    }
    let degraded = troubles.iter().any(|trouble| trouble.kind.degrades());
    Health {
        status: if degraded { HealthStatus::Degraded } else { HealthStatus::Ok },
        version: env!("CARGO_PKG_VERSION").into(),
        started_at: daemon.started_at,
        disk,
        sessions: counts,
        troubles,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    const PLENTY: Option<DiskSpace> = Some(DiskSpace { free_bytes: 1 << 40, total_bytes: 1 << 41 });

    #[track_caller]
    fn check(disk: Option<DiskSpace>, unreadable: bool, expect: HealthStatus, kinds: &[TroubleKind]) {
        let id = SessionId::from_uuid(Uuid::nil());
        let daemon = DaemonFacts {
            started_at: Timestamp::from_millisecond(1),
            sessions: "/".into(),
            unreadable: if unreadable { vec![(id, "why".into())] } else { Vec::new() },
        };
        let health = sum_up(&daemon, disk, &[], Instant::now());
        let seen: Vec<TroubleKind> = health.troubles.iter().map(|trouble| trouble.kind).collect();
        assert_eq!((health.status, seen.as_slice()), (expect, kinds));
    }

    #[test]
    fn a_daemon_is_degraded_while_something_is_wrong() {
        use HealthStatus::{Degraded, Ok};
        check(PLENTY, false, Ok, &[]);
        check(PLENTY, true, Degraded, &[TroubleKind::SidecarUnreadable]);
        check(None, false, Degraded, &[TroubleKind::DiskUnknown]);
        let low = DiskSpace { free_bytes: LOW_BYTES - 1, total_bytes: 1 << 41 };
        check(Some(low), false, Degraded, &[TroubleKind::DiskLow]);
        check(Some(DiskSpace { free_bytes: LOW_BYTES, ..low }), false, Ok, &[]);
    }

    #[test]
    fn the_space_of_a_directory_is_known_and_that_of_none_is_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let known = space(dir.path()).expect("its space");
        assert!(known.total_bytes > 0 && known.free_bytes <= known.total_bytes, "{known:?}");
        assert_eq!(space(&dir.path().join("missing")), None);
    }
}
