//! What a start does with the sessions of the daemon before (CONTRACT §10.3, §10.5): those of a graceful shutdown are
//! resumed, four at a time and newest first; those of a crash are dead, and their logs are closed.

use crate::session::{SessionHandle, StoredSession, Surroundings};
use futures_util::{StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use maestro_log::MarkerError;
use maestro_protocol::{AuditEvent, EndReason, Session, SessionId, Status};
use std::collections::{BTreeSet, VecDeque};

/// Recoveries under way at once: agents take hundreds of megabytes and a core each while they start.
const AT_ONCE: usize = 4;

/// The sessions that wait to be resumed or mended, and those that are being.
pub(super) struct Recovery {
    around: Surroundings,
    waiting: VecDeque<(SessionId, Kind)>,
    running: FuturesUnordered<BoxFuture<'static, ()>>,
}

/// A session whose actor is to be started now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Attempt {
    pub(super) id: SessionId,
    pub(super) then: Then,
}

/// What its actor is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Then {
    /// Start the agent again.
    Resume,
    /// Close the log.
    Mend,
    /// Nothing more: the marker could not be consumed, and one that may still be there would resume the session a second
    /// time. The words say so.
    Bury(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Resume the agent; the marker is consumed when the attempt begins.
    Resume,
    /// Close what a killed daemon left open in the log.
    Mend,
}

/// What a stored session means to a new daemon. Pure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It was dead before.
    Rest,
    /// It ran until a graceful shutdown.
    Resume,
    /// It ran until the daemon was killed.
    Crashed,
}

fn fate(status: Status, marked: bool) -> Fate {
    match (status, marked) {
        (_, true) => Fate::Resume,
        (Status::Dead, false) => Fate::Rest,
        (Status::Starting | Status::Running, false) => Fate::Crashed,
    }
}

fn show_as_starting(session: &mut Session) {
    session.status = Status::Starting;
    session.end_reason = None;
    session.activity_detail = None;
}

/// Shows a session that a shutdown ended and that is not resumed, with the reason.
pub(super) fn show_as_left(session: &mut Session, why: &str) {
    session.status = Status::Dead;
    session.activity = None;
    session.end_reason = Some(EndReason::DaemonShutdown);
    session.activity_detail = Some(why.to_owned());
}

impl Recovery {
    /// Sorts the stored sessions by what becomes of them. Those to resume show `Starting` from now on.
    pub(super) fn plan(
        around: &Surroundings,
        mut stored: Vec<StoredSession>,
        marked: &BTreeSet<SessionId>,
    ) -> (Vec<StoredSession>, Self) {
        stored.sort_by_key(|stored| std::cmp::Reverse(stored.session.updated_at));
        let (mut resumes, mut mends) = (VecDeque::new(), VecDeque::new());
        for stored in &mut stored {
            let id = stored.id();
            match fate(stored.session.status, marked.contains(&id)) {
                Fate::Rest => {}
                Fate::Resume => {
                    show_as_starting(&mut stored.session);
                    resumes.push_back((id, Kind::Resume));
                }
                Fate::Crashed => {
                    let detail = "the daemon ended without shutting down; restart the session to go on";
                    stored.session.status = Status::Dead;
                    stored.session.activity = None;
                    stored.session.end_reason = Some(EndReason::DaemonCrash);
                    stored.session.activity_detail = Some(detail.into());
                    stored.spawn = None;
                    let ended = AuditEvent::SessionEnded { session: id, reason: EndReason::DaemonCrash };
                    around.audit.note(&stored.session.owner, ended);
                    mends.push_back((id, Kind::Mend));
                }
            }
        }
        resumes.append(&mut mends);
        let recovery = Self { around: around.clone(), waiting: resumes, running: FuturesUnordered::new() };
        (stored, recovery)
    }

    /// The next session to start an actor for, while fewer than four are under way. Its marker is gone from here on.
    pub(super) fn take_next(&mut self) -> Option<Attempt> {
        if self.running.len() >= AT_ONCE {
            return None;
        }
        let (id, kind) = self.waiting.pop_front()?;
        Some(self.begin(id, kind))
    }

    /// Takes a session out of its turn, because somebody asks for it now; `None` if it does not wait.
    pub(super) fn take(&mut self, id: SessionId) -> Option<Attempt> {
        let place = self.waiting.iter().position(|(waiting, _)| *waiting == id)?;
        let (_, kind) = self.waiting.remove(place)?;
        Some(self.begin(id, kind))
    }

    fn begin(&self, id: SessionId, kind: Kind) -> Attempt {
        let then = match kind {
            Kind::Mend => Then::Mend,
            Kind::Resume => after_marker(self.consume_marker(id)),
        };
        if let Then::Bury(detail) = &then {
            tracing::error!(session.id = %id, "Session `{id}` is not resumed: {detail}");
            self.keep(id, |session| show_as_left(session, detail));
        }
        Attempt { id, then }
    }

    /// Says in the sidecar that the session starts, and only then takes its marker. A daemon that is killed from here on
    /// leaves a session that had crashed; without the order, one that a shutdown ended and that nobody resumes.
    fn consume_marker(&self, id: SessionId) -> Result<bool, MarkerError> {
        self.keep(id, show_as_starting);
        self.around.logs.take_marker(id)
    }

    /// Changes what the sidecar says of a session.
    fn keep(&self, id: SessionId, change: impl FnOnce(&mut Session)) {
        let logs = &self.around.logs;
        let told = match logs.read_sidecar::<StoredSession>(id) {
            Ok(Some(mut stored)) => {
                change(&mut stored.session);
                logs.write_sidecar(id, &stored).err()
            }
            Ok(None) => None,
            Err(error) => Some(error),
        };
        if let Some(error) = told {
            let told = crate::report::chain(&error);
            tracing::error!(session.id = %id, "The sidecar of session `{id}` could not follow its recovery: {told}");
        }
    }

    /// Counts the attempt as under way until the session is no longer starting.
    pub(super) fn watch(&mut self, handle: SessionHandle) {
        self.running.push(Box::pin(async move {
            if handle.session().status == Status::Dead {
                // A failed mend is told by the actor; the session is dead either way.
                drop(handle.mend().await);
            } else {
                handle.started().await;
            }
        }));
    }

    /// Waits for the next attempt that is over.
    pub(super) async fn next_settled(&mut self) {
        if self.running.next().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

/// What follows from consuming a marker. Pure.
fn after_marker(taken: Result<bool, MarkerError>) -> Then {
    match taken {
        Ok(true) => Then::Resume,
        Ok(false) => Then::Bury("its recovery marker was taken away; restart the session to go on".into()),
        Err(error) => Then::Bury(format!("{}; restart it to go on", crate::report::chain(&error))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use maestro_log::{Committer, LogDir};

    #[test]
    fn a_session_is_resumed_only_after_its_marker_is_gone() {
        let dir = tempfile::tempdir().expect("a directory");
        let logs = LogDir::open(dir.path(), &Committer::start().expect("a committer")).expect("a directory");
        let id = SessionId::from_uuid(uuid::Uuid::nil());
        logs.write_marker(id).expect("a marker");
        assert_eq!(after_marker(logs.take_marker(id)), Then::Resume);
        assert!(matches!(after_marker(logs.take_marker(id)), Then::Bury(_)), "there is none any more");
        // Something that no removal of a file removes.
        std::fs::create_dir(dir.path().join(format!("{id}.recover"))).expect("a directory in the way");
        let Then::Bury(detail) = after_marker(logs.take_marker(id)) else {
            panic!("it would be resumed again")
        };
        assert!(detail.contains("could not be removed"), "{detail}");
    }

    #[test]
    fn only_a_marker_brings_a_session_back() {
        let check = |status, marked, expect| assert_eq!(fate(status, marked), expect);
        check(Status::Dead, true, Fate::Resume);
        check(Status::Dead, false, Fate::Rest);
        check(Status::Running, false, Fate::Crashed);
        check(Status::Starting, false, Fate::Crashed);
        check(Status::Running, true, Fate::Resume);
    }
}
