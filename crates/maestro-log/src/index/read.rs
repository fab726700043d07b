use super::{
    IndexSnapshot, StoredTouch,
    record::{self, ENTRY, Entry, Rows, SIDE_HEAD, Side, Stored},
};
use crate::log::Shared;
use maestro_protocol::Cursor;
use std::{io, path::PathBuf, sync::Arc};
use thiserror::Error;

/// Entries that are read at once.
const ENTRIES: u64 = 128;

/// How much of the log is read at once, in bytes, where a line is not longer: lines that are wanted together often stand
/// together.
const CHUNK: u64 = 16 * 1024;

/// A log with its index, as both were at one moment: any line, and what was indexed of it, is found without reading
/// others. Cursors are from 1 to [`IndexedLog::last`].
#[derive(Debug)]
pub struct IndexedLog {
    log: Arc<Shared>,
    end: u64,
    index: IndexSnapshot,
    /// The entries from `first_entry` on.
    entries: Vec<u8>,
    first_entry: Cursor,
    /// The bytes of the log from `chunk_at` on.
    chunk: Vec<u8>,
    chunk_at: u64,
    /// The side record that was read last.
    side: Option<(Cursor, Side)>,
}

/// An indexed log could not be read.
#[derive(Debug, Error)]
pub enum ReadIndexError {
    /// The log or the index could not be read.
    #[error("the event log of {} cannot be read; check the disk", path.display())]
    Read {
        /// The index.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The index is not that of the log at this line.
    #[error("the index {} does not fit its log at line {cursor}; it is rebuilt when the session is opened next", path.display())]
    Wrong {
        /// The index.
        path: PathBuf,
        /// The line.
        cursor: Cursor,
    },
}

impl IndexedLog {
    pub(crate) fn new(log: Arc<Shared>, end: u64, index: IndexSnapshot) -> Self {
        Self {
            log,
            end,
            index,
            entries: Vec::new(),
            first_entry: 1,
            chunk: Vec::new(),
            chunk_at: 0,
            side: None,
        }
    }

    /// The last line; 0 if there is none.
    pub fn last(&self) -> Cursor {
        self.index.lines
    }

    /// See [`IndexLine::is_event`](super::IndexLine::is_event).
    pub fn is_event(&mut self, cursor: Cursor) -> Result<bool, ReadIndexError> {
        Ok(self.entry(cursor)?.is_event)
    }

    /// See [`IndexLine::is_quiet`](super::IndexLine::is_quiet).
    pub fn is_quiet(&mut self, cursor: Cursor) -> Result<bool, ReadIndexError> {
        Ok(self.entry(cursor)?.is_quiet)
    }

    /// The line without its newline. It has the checksum of the line that was indexed.
    pub fn line(&mut self, cursor: Cursor) -> Result<&[u8], ReadIndexError> {
        let place = self.entry(cursor)?.place;
        let end = place.offset.checked_add(place.len).filter(|end| *end < self.end);
        let Some(end) = end else { return Err(self.wrong(cursor)) };
        if place.offset < self.chunk_at || end > self.chunk_at + self.chunk.len() as u64 {
            self.read_chunk(place.offset, place.len.max(CHUNK.min(self.end - place.offset)))?;
        }
        let at = |offset: u64| usize::try_from(offset - self.chunk_at).unwrap_or(usize::MAX);
        let (start, end) = (at(place.offset), at(end));
        if crc32c::crc32c(&self.chunk[start..end]) != place.crc {
            return Err(self.wrong(cursor));
        }
        Ok(&self.chunk[start..end])
    }

    /// What was kept of one of the line's touches; `None` if there is no such touch.
    pub fn touch(&mut self, cursor: Cursor, place: u32) -> Result<Option<StoredTouch>, ReadIndexError> {
        match self.entry(cursor)?.rows {
            Rows::None => Ok(None),
            Rows::One(touch) => Ok(Some(touch).filter(|_| place == 0)),
            Rows::Side(at) => {
                let side = self.side(cursor, at)?;
                Ok(side.touches.get(place as usize).map(|side| side.touch))
            }
        }
    }

    /// The checkpoint of one of the line's touches.
    pub fn touch_checkpoint(
        &mut self,
        cursor: Cursor,
        place: u32,
    ) -> Result<Option<Vec<u8>>, ReadIndexError> {
        let Rows::Side(at) = self.entry(cursor)?.rows else { return Ok(None) };
        let side = self.side(cursor, at)?;
        let stored = side.touches.get(place as usize).and_then(|side| side.checkpoint.clone());
        stored.map(|stored| self.stored(cursor, &stored)).transpose()
    }

    /// The checkpoint of the line.
    pub fn checkpoint(&mut self, cursor: Cursor) -> Result<Option<Vec<u8>>, ReadIndexError> {
        let Rows::Side(at) = self.entry(cursor)?.rows else { return Ok(None) };
        let stored = self.side(cursor, at)?.checkpoint.clone();
        stored.map(|stored| self.stored(cursor, &stored)).transpose()
    }

    fn entry(&mut self, cursor: Cursor) -> Result<Entry, ReadIndexError> {
        if cursor == 0 || cursor > self.index.lines {
            return Err(self.wrong(cursor));
        }
        let held = self.entries.len() / ENTRY;
        if cursor < self.first_entry || cursor - self.first_entry >= held as u64 {
            let first = (cursor - 1) / ENTRIES * ENTRIES + 1;
            let count = ENTRIES.min(self.index.lines + 1 - first);
            self.entries.resize(usize::try_from(count).unwrap_or_default() * ENTRY, 0);
            self.first_entry = first;
            let read = self.index.entries.read_exact_at(&mut self.entries, record::entry_at(first));
            if let Err(source) = read {
                self.entries.clear();
                return Err(self.unreadable(source));
            }
        }
        let at = usize::try_from(cursor - self.first_entry).unwrap_or(usize::MAX) * ENTRY;
        record::decode(cursor, &self.entries[at..at + ENTRY]).ok_or_else(|| self.wrong(cursor))
    }

    fn side(&mut self, cursor: Cursor, at: u64) -> Result<&Side, ReadIndexError> {
        if self.side.as_ref().is_none_or(|(held, _)| *held != cursor) {
            let mut bytes = vec![0; SIDE_HEAD];
            self.index.sides.read_exact_at(&mut bytes, at).map_err(|source| self.unreadable(source))?;
            let len = record::side_len(&bytes).filter(|len| self.index.sides.holds(at, *len as u64));
            let Some(len) = len else { return Err(self.wrong(cursor)) };
            bytes.resize(len, 0);
            self.index.sides.read_exact_at(&mut bytes, at).map_err(|source| self.unreadable(source))?;
            let Some(side) = record::decode_side(cursor, at, &bytes) else { return Err(self.wrong(cursor)) };
            self.side = Some((cursor, side));
        }
        match &self.side {
            Some((_, side)) => Ok(side),
            None => Err(self.wrong(cursor)),
        }
    }

    fn stored(&self, cursor: Cursor, stored: &Stored) -> Result<Vec<u8>, ReadIndexError> {
        let len = stored.range.end - stored.range.start;
        if !self.index.sides.holds(stored.range.start, len) {
            return Err(self.wrong(cursor));
        }
        let mut bytes = vec![0; usize::try_from(len).unwrap_or_default()];
        let read = self.index.sides.read_exact_at(&mut bytes, stored.range.start);
        read.map_err(|source| self.unreadable(source))?;
        Some(bytes).filter(|bytes| crc32c::crc32c(bytes) == stored.crc).ok_or_else(|| self.wrong(cursor))
    }

    fn read_chunk(&mut self, offset: u64, len: u64) -> Result<(), ReadIndexError> {
        self.chunk.resize(usize::try_from(len).unwrap_or_default(), 0);
        self.chunk_at = offset;
        let mut filled = 0;
        while filled < self.chunk.len() {
            match self.log.read_at(&mut self.chunk[filled..], offset + filled as u64) {
                Ok(0) => {
                    self.chunk.clear();
                    return Err(self.unreadable(io::ErrorKind::UnexpectedEof.into()));
                }
                Ok(taken) => filled += taken,
                Err(again) if again.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => {
                    self.chunk.clear();
                    return Err(self.unreadable(source));
                }
            }
        }
        Ok(())
    }

    fn wrong(&self, cursor: Cursor) -> ReadIndexError {
        ReadIndexError::Wrong { path: self.index.path().into(), cursor }
    }

    fn unreadable(&self, source: io::Error) -> ReadIndexError {
        ReadIndexError::Read { path: self.index.path().into(), source }
    }
}
