//! The index of a log: where each line is, its checksum, which rows it touched, and what was stored at it. Derived:
//! deleting it costs a rebuild (CONTRACT §5.5). It is two files, which [`record`] describes.

mod append;
mod build;
mod read;
mod record;

pub(crate) use build::Builder;
pub use read::{IndexedLog, ReadIndexError};
pub(crate) use record::Place;

use append::{Appender, Grown};
use maestro_protocol::Cursor;
use std::{
    io,
    path::{Path, PathBuf},
};
use thiserror::Error;

/// What the index keeps of a line. What it means is the caller's business.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IndexLine {
    /// Whether the line is an event of the replay.
    pub is_event: bool,
    /// Whether the fold of the state may pass over it.
    pub is_quiet: bool,
    /// The rows that it touched.
    pub touches: Vec<Touch>,
    /// What is stored with the line.
    pub checkpoint: Option<Vec<u8>>,
}

/// That a line touched a row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Touch {
    /// The line that touched the same row before; 0 if the row was born here.
    pub prev: Cursor,
    /// Which of that line's touches was this row's, from 0.
    pub prev_place: u32,
    /// How.
    pub tag: u8,
    /// What is stored of the row with the line.
    pub checkpoint: Option<Vec<u8>>,
}

/// A [`Touch`], read back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredTouch {
    /// As in the touch.
    pub prev: Cursor,
    /// As in the touch.
    pub prev_place: u32,
    /// As in the touch.
    pub tag: u8,
    /// Whether it has a checkpoint.
    pub is_stored: bool,
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
    /// The files could not be read or written. The index is off until the log is opened again.
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

/// The names of the two files.
#[derive(Debug, Clone)]
pub(crate) struct IndexPaths {
    pub(crate) entries: PathBuf,
    pub(crate) sides: PathBuf,
}

/// The writer of an index.
#[derive(Debug)]
pub(crate) struct Index {
    path: PathBuf,
    /// `None` while it is off.
    files: Option<Files>,
    /// Why it is off, until someone was told.
    untold: Option<IndexError>,
}

#[derive(Debug)]
struct Files {
    /// The number of entries.
    lines: Cursor,
    entries: Appender,
    sides: Appender,
}

/// An index as it was at some moment.
#[derive(Debug, Clone)]
pub(crate) struct IndexSnapshot {
    lines: Cursor,
    entries: Grown,
    sides: Grown,
    path: PathBuf,
}

impl Index {
    fn new(path: PathBuf, files: Option<Files>) -> Self {
        Self { path, files, untold: None }
    }

    pub(crate) fn push(&mut self, place: &Place, line: &IndexLine) -> Result<(), IndexError> {
        let Some(files) = &mut self.files else { return Err(self.reason()) };
        if let Err(source) = files.push(place, false, line) {
            self.stop(IndexError::File { path: self.path.clone(), source });
            return Err(self.reason());
        }
        Ok(())
    }

    /// Turns the index off. What is gathered is not written.
    pub(crate) fn stop(&mut self, reason: IndexError) {
        if let Some(files) = self.files.take() {
            files.entries.abandon();
            files.sides.abandon();
        }
        self.untold = Some(reason);
    }

    /// Why it is off; the whole story is told once.
    pub(crate) fn reason(&mut self) -> IndexError {
        self.untold.take().unwrap_or(IndexError::Off)
    }

    /// What it holds now, if it has so many lines.
    pub(crate) fn snapshot(&self, lines: Cursor) -> Option<IndexSnapshot> {
        let files = self.files.as_ref().filter(|files| files.lines == lines)?;
        let (entries, sides) = (files.entries.grown(), files.sides.grown());
        Some(IndexSnapshot { lines, entries, sides, path: self.path.clone() })
    }
}

impl Files {
    fn push(&mut self, place: &Place, is_damaged: bool, line: &IndexLine) -> io::Result<()> {
        let cursor = self.lines + 1;
        let encoded = record::encode(cursor, place, is_damaged, line, self.sides.len());
        let (entry, side) = encoded.ok_or_else(too_long)?;
        // An entry never names what is not there.
        self.sides.push(&side)?;
        self.entries.push(&entry)?;
        self.lines = cursor;
        Ok(())
    }
}

fn too_long() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a line of the log is longer than 4 GiB")
}

impl IndexSnapshot {
    fn path(&self) -> &Path {
        &self.path
    }
}
