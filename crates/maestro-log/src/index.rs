//! The index of a log: where each line is, its checksum, and which rows it touched. Derived: deleting it costs a rebuild
//! (CONTRACT §5.5).

mod build;
mod record;

pub(crate) use build::Builder;
pub(crate) use record::Place;

use maestro_protocol::Cursor;
use std::{
    fs::File,
    io::{self, BufWriter, Write as _},
    path::PathBuf,
};
use thiserror::Error;

/// How much is gathered before it is written, in bytes: about a hundred lines. What a crash takes of it is rebuilt.
const BUFFER: usize = 4096;

/// That a line touched a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Touch {
    /// The line that touched the same row before; 0 if the row was born here.
    pub prev: Cursor,
}

/// What became of the index when its log was opened.
#[derive(Debug)]
pub enum IndexState {
    /// It fitted the log.
    Kept,
    /// It was missing, foreign, or did not fit, and was written anew from the first difference on.
    Rebuilt,
    /// It could not be written. The log works without it; the next opening tries again.
    Off(IndexError),
}

/// Why a line was not indexed. The log is not affected.
#[derive(Debug, Error)]
pub enum IndexError {
    /// The file could not be read or written. The index is off until the log is opened again.
    #[error("the index {} cannot be written; check the free space", path.display())]
    File {
        /// The index.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A line was passed over or indexed twice. The index is off until the log is opened again.
    #[error(
        "line {wanted} was to be indexed once and next, but line {given} came; this is a fault of the program"
    )]
    OutOfOrder {
        /// The line whose turn it was.
        wanted: Cursor,
        /// The line that came.
        given: Cursor,
    },
    /// The index is off, for a reason that was told before.
    #[error("the index is off until the session is opened again")]
    Off,
}

/// The writer of an index.
#[derive(Debug)]
pub(crate) struct Index {
    path: PathBuf,
    /// `None` while it is off.
    file: Option<BufWriter<File>>,
    /// Why it is off, until someone was told.
    untold: Option<IndexError>,
    scratch: Vec<u8>,
}

impl Index {
    fn new(path: PathBuf, file: Option<BufWriter<File>>) -> Self {
        Self { path, file, untold: None, scratch: Vec::new() }
    }

    pub(crate) fn push(&mut self, place: &Place, touches: &[Touch]) -> Result<(), IndexError> {
        let Some(file) = &mut self.file else { return Err(self.reason()) };
        self.scratch.clear();
        record::encode_line(&mut self.scratch, place, touches);
        if let Err(source) = file.write_all(&self.scratch) {
            self.stop(IndexError::File { path: self.path.clone(), source });
            return Err(self.reason());
        }
        Ok(())
    }

    /// Turns the index off. What is gathered is not written.
    pub(crate) fn stop(&mut self, reason: IndexError) {
        if let Some(file) = self.file.take() {
            drop(file.into_parts());
        }
        self.untold = Some(reason);
    }

    /// Why it is off; the whole story is told once.
    pub(crate) fn reason(&mut self) -> IndexError {
        self.untold.take().unwrap_or(IndexError::Off)
    }
}
