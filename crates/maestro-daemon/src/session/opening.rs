//! Opening a session's log, whole, and folding it.

use crate::{
    history::index_line,
    session::{actor::Surroundings, journal::Journal, stored::StoredSession},
};
use maestro_log::{OpenLogError, OpenReport};
use maestro_projection::Projection;
use maestro_protocol::SessionId;
use std::io;

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

impl JournalError {
    /// Whether only space is missing.
    pub(super) fn is_full(&self) -> bool {
        use OpenLogError as E;
        let Self::Open { source: E::Open { source, .. } | E::Rewrite { source, .. }, .. } = self else {
            return false;
        };
        matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }
}

/// Opens the log and folds it, off the runtime's threads: a long log takes a while. What a failed flush left in doubt is
/// settled, and `stored` says so.
pub(super) async fn open_journal(
    around: &Surroundings,
    stored: &mut StoredSession,
) -> Result<Journal, JournalError> {
    let (id, doubtful_from) = (stored.id(), stored.doubtful_from);
    let (logs, sources) = (around.logs.clone(), around.sources.clone());
    let opening = tokio::task::spawn_blocking(move || {
        let mut projection = Projection::new();
        let on_line = |cursor, line: &[u8]| {
            let applied = projection.apply(cursor, line);
            projection.pack();
            index_line(&mut projection, &applied, line)
        };
        let opened = match doubtful_from {
            Some(from) => logs.reopen_log(id, from, on_line),
            None => logs.open_log(id, on_line),
        };
        let (log, damaged) = match opened {
            Ok((log, report)) => {
                tell(id, &report, projection.malformed());
                (log, report.damaged.iter().map(|lines| lines.end() - lines.start() + 1).sum())
            }
            Err(OpenLogError::Missing { .. }) => (logs.create_log(id)?, 0),
            Err(error) => return Err(error),
        };
        Ok(Journal::new(log, projection, damaged, sources))
    });
    match opening.await {
        Ok(Ok(journal)) => {
            stored.doubtful_from = None;
            Ok(journal)
        }
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
