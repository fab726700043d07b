//! Opening a session's log, whole: fold it, and bury a session whose log cannot be opened.

use crate::{
    history::index_line,
    session::{actor::Surroundings, handle::Pulse, journal::Journal, stored::StoredSession},
};
use maestro_log::{OpenLogError, OpenReport};
use maestro_projection::Projection;
use maestro_protocol::{EndReason, Session, SessionId, Status};
use tokio::sync::watch;

/// Why a session has no journal.
#[derive(Debug, thiserror::Error)]
pub(super) enum JournalError {
    #[error("the event log of session {id} could not be opened")]
    Open {
        id: SessionId,
        #[source]
        source: OpenLogError,
    },
    #[error("opening the event log of session {id} was interrupted")]
    Interrupted { id: SessionId },
}

/// Opens the log and folds it, off the runtime's threads: a long log takes a while.
pub(super) async fn open_journal(around: &Surroundings, id: SessionId) -> Result<Journal, JournalError> {
    let (logs, sources) = (around.logs.clone(), around.sources.clone());
    let opening = tokio::task::spawn_blocking(move || {
        let mut projection = Projection::new();
        let mut on_line = |cursor, line: &[u8]| {
            let applied = projection.apply(cursor, line);
            index_line(&mut projection, &applied, line)
        };
        let log = match logs.open_log(id, &mut on_line) {
            Ok((log, report)) => {
                tell(id, &report, projection.malformed());
                log
            }
            Err(OpenLogError::Missing { .. }) => logs.create_log(id)?,
            Err(error) => return Err(error),
        };
        Ok(Journal::new(log, projection, sources))
    });
    match opening.await {
        Ok(Ok(journal)) => Ok(journal),
        Ok(Err(source)) => Err(JournalError::Open { id, source }),
        Err(_panicked_or_cancelled) => Err(JournalError::Interrupted { id }),
    }
}

fn tell(id: SessionId, report: &OpenReport, malformed: u64) {
    if malformed > 0 {
        tracing::warn!(session.id = %id, "The event log of session `{id}` holds {malformed} malformed lines");
    }
    if report.torn {
        tracing::warn!(session.id = %id, "The event log of session `{id}` ended in a torn line; it is kept as it is");
    }
    for lines in &report.damaged {
        tracing::warn!(session.id = %id, "Lines {lines:?} of the event log of session `{id}` are damaged");
    }
}

/// Makes a session dead whose log cannot be opened, and says so.
pub(super) async fn bury(
    around: &Surroundings,
    mut stored: StoredSession,
    error: &JournalError,
    session: &watch::Sender<Session>,
    pulse: &watch::Sender<Pulse>,
) -> Box<StoredSession> {
    let id = stored.id();
    let told = crate::report::chain(error);
    tracing::error!(session.id = %id, "Session `{id}` is dead: {told}");
    stored.session.status = Status::Dead;
    stored.session.activity = None;
    stored.session.end_reason = Some(EndReason::LogFailed);
    stored.session.activity_detail = Some(told);
    super::publish::save(around, &stored).await;
    session.send_replace(stored.session.clone());
    pulse.send_modify(|pulse| pulse.ended = Some(EndReason::LogFailed));
    Box::new(stored)
}
