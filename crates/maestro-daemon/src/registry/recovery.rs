//! What a start does with the sessions of the daemon before (CONTRACT §10.3, §10.5): those of a graceful shutdown are
//! resumed, four at a time and newest first; those of a crash are dead, and their logs are closed.

use crate::session::{SessionHandle, StoredSession, Surroundings, Wish};
use futures_util::{StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use maestro_protocol::{EndReason, Session, SessionId, Status};
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Attempt {
    pub(super) id: SessionId,
    /// Why its agent is to be started; not at all where only the log is to be closed.
    pub(super) wish: Option<Wish>,
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
        if kind == Kind::Mend {
            return Attempt { id, wish: None };
        }
        self.consume_marker(id);
        Attempt { id, wish: Some(Wish::Recover) }
    }

    /// Says in the sidecar that the session starts, and only then takes its marker. A daemon that is killed from here on
    /// leaves a session that had crashed; without the order, one that a shutdown ended and that nobody resumes.
    fn consume_marker(&self, id: SessionId) {
        let logs = &self.around.logs;
        let told = match logs.read_sidecar::<StoredSession>(id) {
            Ok(Some(mut stored)) => {
                show_as_starting(&mut stored.session);
                logs.write_sidecar(id, &stored).err()
            }
            Ok(None) => None,
            Err(error) => Some(error),
        };
        if let Some(error) = told {
            let told = crate::report::chain(&error);
            tracing::error!(session.id = %id, "The sidecar of session `{id}` could not say that it starts: {told}");
        }
        if let Err(error) = logs.take_marker(id) {
            let told = crate::report::chain(&error);
            tracing::error!(session.id = %id, "The marker of session `{id}` could not be consumed: {told}");
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

#[cfg(test)]
mod tests {
    use super::*;

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
