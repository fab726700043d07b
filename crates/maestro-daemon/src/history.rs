//! Where the fold and the index of a log meet: what is indexed of a line, and pages made of an index (CONTRACT §5.5,
//! §6.4).

use maestro_log::{IndexLine, IndexedLog, LogReader, ReadIndexError, ReadLogError, StoredTouch, Touch};
use maestro_projection::{
    Action, Applied, History, Link, Mark, PageError, Projection, Window, page as page_of, replay as fold,
};
use maestro_protocol::{Cursor, SessionId};

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] ReadLogError),
    /// The page cannot be told as JSON.
    #[error("a page of history could not be written as JSON")]
    Json(#[from] serde_json::Error),
}

/// What the index keeps of the line that `projection` applied last.
pub fn index_line(projection: &mut Projection, applied: &Applied, line: &[u8]) -> IndexLine {
    let marks = projection.marks(applied, line.len());
    let touch = |mark: Mark| Touch {
        prev: mark.prev,
        prev_place: mark.prev_place,
        tag: mark.action.to_byte(),
        checkpoint: mark.checkpoint,
    };
    IndexLine {
        is_event: marks.is_event,
        is_quiet: marks.is_quiet,
        touches: marks.touches.into_iter().map(touch).collect(),
        checkpoint: marks.checkpoint,
    }
}

/// A page of a log as JSON. It is made of the index; where that is off or wrong, the whole log is folded anew, which
/// gives the same. Blocks on the disk.
pub fn page(id: SessionId, log: &LogReader, window: Window) -> Result<Vec<u8>, ReplayError> {
    let Some(indexed) = log.indexed() else { return folded(log, window) };
    match page_of(&mut Indexed(indexed), window) {
        Ok(page) => Ok(page),
        Err(error) => {
            let told = match &error {
                PageError::History(error) => crate::report::chain(error),
                PageError::Contradiction(cursor) => {
                    format!("the index is not that of the log at line {cursor}")
                }
            };
            tracing::warn!(session.id = %id, "A page of session `{id}` is folded from the whole log: {told}");
            folded(log, window)
        }
    }
}

/// The page of a full fold. A log that cannot be read to the page's end makes no page: half of one would look whole.
fn folded(log: &LogReader, window: Window) -> Result<Vec<u8>, ReplayError> {
    let mut failed: Option<ReadLogError> = None;
    let lines = log.lines().map_while(|line| line.map_err(|error| failed = Some(error)).ok());
    let page = fold(lines, window);
    match failed {
        Some(error) => Err(error.into()),
        None => Ok(serde_json::to_vec(&page)?),
    }
}

struct Indexed(IndexedLog);

impl History for Indexed {
    type Error = ReadIndexError;

    fn last(&self) -> Cursor {
        self.0.last()
    }

    fn is_event(&mut self, cursor: Cursor) -> Result<bool, ReadIndexError> {
        self.0.is_event(cursor)
    }

    fn is_quiet(&mut self, cursor: Cursor) -> Result<bool, ReadIndexError> {
        self.0.is_quiet(cursor)
    }

    fn line(&mut self, cursor: Cursor) -> Result<&[u8], ReadIndexError> {
        self.0.line(cursor)
    }

    fn link(&mut self, cursor: Cursor, place: u32) -> Result<Option<Link>, ReadIndexError> {
        let link = |StoredTouch { prev, prev_place, tag, is_stored }| Link {
            prev,
            prev_place,
            action: Action::from_byte(tag),
            is_stored,
        };
        Ok(self.0.touch(cursor, place)?.map(link))
    }

    fn row_checkpoint(&mut self, cursor: Cursor, place: u32) -> Result<Option<Vec<u8>>, ReadIndexError> {
        self.0.touch_checkpoint(cursor, place)
    }

    fn checkpoint(&mut self, cursor: Cursor) -> Result<Option<Vec<u8>>, ReadIndexError> {
        self.0.checkpoint(cursor)
    }
}

#[cfg(test)]
mod tests;
