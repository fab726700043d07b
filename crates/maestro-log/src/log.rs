//! The event log of one session and its one writer.

mod open;
mod scan;
mod shared;

pub use open::{OpenLogError, OpenReport};
pub(crate) use open::{Paths, create, open};
pub(crate) use scan::Scanner;
pub(crate) use shared::{Shared, Storage};

use crate::{
    committer::{Committer, Fault, Poisoned, Ticket},
    index::{Index, IndexError, IndexLine, Place},
    reader::LogReader,
};
use maestro_protocol::Cursor;
use std::{
    collections::VecDeque,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};
use thiserror::Error;

/// What the writer keeps of the memory that a long line needed, in bytes.
const KEPT_BUFFER: usize = 64 * 1024;

/// The writer of one session's event log. There is one per log, owned by one task.
#[derive(Debug)]
pub struct SessionLog {
    shared: Arc<Shared>,
    committer: Committer,
    /// The number of lines.
    cursor: Cursor,
    /// Where the next byte goes. Greater than the good length only while a torn last line still lacks its newline.
    tail: u64,
    buffer: Vec<u8>,
    index: Index,
    /// The lines of the newest write that are not indexed yet, in order.
    unindexed: VecDeque<(Cursor, Place)>,
}

/// Why a line was not appended. Except for [`AppendError::Lost`] the log is as it was and may be tried again.
#[derive(Debug, Error)]
pub enum AppendError {
    /// The disk or the person's quota is full; what was written of the line is undone. It works again once there is
    /// space.
    #[error("there is no space left for the event log {}; free some and it goes on by itself", path.display())]
    Full {
        /// The log.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The write failed in another way; what was written of the line is undone.
    #[error("a line could not be written to the event log {}; check the disk", path.display())]
    Io {
        /// The log.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The log takes no more lines: a failed write could not be undone, or a flush failed.
    #[error(transparent)]
    Lost(Poisoned),
    /// The bytes hold a newline, so they are not one line. Nothing was written.
    #[error("a line for the event log {} holds a newline; it is not stored", path.display())]
    NotOneLine {
        /// The log.
        path: PathBuf,
    },
}

impl SessionLog {
    /// Appends a line, given without its newline, and returns its cursor. When this returns `Ok` readers see the line;
    /// it survives a loss of power only after a [`flush`](Self::flush) (CONTRACT §5.3).
    pub fn append(&mut self, line: &[u8]) -> Result<Cursor, AppendError> {
        self.append_all(&[line])
    }

    /// Appends lines that belong together, each given without its newline, in one write, and returns the cursor of the
    /// last: after an error none of them is there, and no reader ever sees some without the others. A process that is
    /// killed inside the write may leave the first of them. Without lines nothing happens.
    pub fn append_all(&mut self, lines: &[&[u8]]) -> Result<Cursor, AppendError> {
        if lines.iter().any(|line| line.contains(&b'\n')) {
            return Err(AppendError::NotOneLine { path: self.path().into() });
        }
        if let Some(poisoned) = self.shared.poisoned() {
            return Err(AppendError::Lost(poisoned));
        }
        if lines.is_empty() {
            return Ok(self.cursor);
        }
        let places = self.lay_out(lines);
        let written = self.shared.write_all_at(&self.buffer, self.tail);
        let end = self.tail + self.buffer.len() as u64;
        self.buffer.clear();
        self.buffer.shrink_to(KEPT_BUFFER);
        written.map_err(|source| self.roll_back(source))?;
        self.tail = end;
        self.shared.publish(end);
        if let Some((wanted, _)) = self.unindexed.pop_front() {
            self.index.stop(IndexError::OutOfOrder { wanted, given: self.cursor + 1 });
            self.unindexed.clear();
        }
        for place in places {
            self.cursor += 1;
            self.unindexed.push_back((self.cursor, place));
        }
        Ok(self.cursor)
    }

    /// Puts the lines into the buffer as they go into the file, and says where each will be.
    fn lay_out(&mut self, lines: &[&[u8]]) -> Vec<Place> {
        self.buffer.clear();
        if self.tail > self.shared.good_len() {
            self.buffer.push(b'\n');
        }
        let mut places = Vec::with_capacity(lines.len());
        for line in lines {
            places.push(Place::of(self.tail + self.buffer.len() as u64, line));
            self.buffer.extend_from_slice(line);
            self.buffer.push(b'\n');
        }
        places
    }

    /// Records what a line did. All lines of a write are indexed, in order, before the next write; otherwise the index
    /// stops, and is rebuilt when the log is opened next. The log goes on in any case.
    pub fn index(&mut self, cursor: Cursor, line: &IndexLine) -> Result<(), IndexError> {
        match self.unindexed.pop_front() {
            Some((next, place)) if next == cursor => self.index.push(&place, line),
            _ => {
                self.index.stop(IndexError::OutOfOrder { wanted: self.cursor, given: cursor });
                Err(self.index.reason())
            }
        }
    }

    /// Asks for everything appended so far to be put on disk.
    pub fn flush(&self) -> Ticket {
        self.committer.flush(&self.shared)
    }

    /// A handle that reads this log from any thread, now or later. What it has of the index is of now.
    pub fn reader(&self) -> LogReader {
        LogReader::new(Arc::clone(&self.shared), self.index.snapshot(self.cursor))
    }

    /// The cursor of the last line; 0 if there is none.
    pub fn cursor(&self) -> Cursor {
        self.cursor
    }

    /// From which byte on nobody knows what is on the disk, for a log that takes no more lines: after a failed sync the
    /// kernel may show what the disk does not have. See [`LogDir::reopen_log`](crate::LogDir::reopen_log).
    pub fn doubtful_from(&self) -> Option<u64> {
        self.shared.poisoned().map(|_poisoned| self.shared.synced_len())
    }

    /// Why the log takes no more lines, if it does not.
    pub fn poisoned(&self) -> Option<Poisoned> {
        self.shared.poisoned()
    }

    fn path(&self) -> &Path {
        self.shared.path()
    }

    /// Cuts off what a failed write left, so that nothing is fused with it.
    fn roll_back(&self, cause: io::Error) -> AppendError {
        if let Err(failed) = self.shared.set_len(self.tail) {
            return AppendError::Lost(self.shared.poison(Fault::RollBack, failed));
        }
        let path = self.path().into();
        match cause.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                AppendError::Full { path, source: cause }
            }
            _ => AppendError::Io { path, source: cause },
        }
    }
}

#[cfg(test)]
mod faulty;
#[cfg(test)]
mod lossy;
#[cfg(test)]
mod tests;
