use crate::{
    index::{IndexSnapshot, IndexedLog},
    log::{Scanner, Shared},
};
use std::{io, path::PathBuf, sync::Arc};
use thiserror::Error;

/// Reads a log while its writer goes on, from any thread. It holds the file open and has no part in the writer's state.
#[derive(Debug, Clone)]
pub struct LogReader {
    log: Arc<Shared>,
    index: Option<IndexSnapshot>,
}

/// A log could not be read.
#[derive(Debug, Error)]
#[error("the event log {} cannot be read; check the disk", path.display())]
pub struct ReadLogError {
    path: PathBuf,
    #[source]
    source: io::Error,
}

impl LogReader {
    pub(crate) fn new(log: Arc<Shared>, index: Option<IndexSnapshot>) -> Self {
        Self { log, index }
    }

    /// The log up to where it was when this reader was made, with its index; `None` if that was off.
    pub fn indexed(&self) -> Option<IndexedLog> {
        let index = self.index.clone()?;
        Some(IndexedLog::new(Arc::clone(&self.log), self.log.good_len(), index))
    }

    /// The lines that are in the log at this moment, from cursor 1 on, each whole and without its newline. Lines that
    /// are appended later are not among them.
    pub fn lines(&self) -> Lines {
        let end = self.log.good_len();
        Lines { scanner: Some(Scanner::new(Arc::clone(&self.log), end)) }
    }
}

/// See [`LogReader::lines`]. Ends after its first error.
#[derive(Debug)]
pub struct Lines {
    scanner: Option<Scanner>,
}

impl Iterator for Lines {
    type Item = Result<Vec<u8>, ReadLogError>;

    fn next(&mut self) -> Option<Self::Item> {
        let scanner = self.scanner.as_mut()?;
        let item = match scanner.next_line() {
            Ok(Some(found)) => return Some(Ok(found.line.to_vec())),
            Ok(None) => None,
            Err(source) => Some(Err(ReadLogError { path: scanner.path().into(), source })),
        };
        self.scanner = None;
        item
    }
}
