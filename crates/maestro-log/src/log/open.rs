use super::{Scanner, SessionLog, Shared, Storage};
use crate::{
    committer::Committer,
    files,
    index::{Builder, IndexLine, IndexPaths, IndexState, Place},
};
use maestro_protocol::Cursor;
use std::{
    collections::VecDeque,
    fs::{File, OpenOptions},
    io,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    sync::Arc,
};
use thiserror::Error;

/// Why a log could not be made or opened.
#[derive(Debug, Error)]
pub enum OpenLogError {
    /// There is no such log, so the session has no transcript.
    #[error("there is no event log {}", path.display())]
    Missing {
        /// Where it would be.
        path: PathBuf,
    },
    /// A log that was to be made exists already.
    #[error("the event log {} exists already; it is kept", path.display())]
    Exists {
        /// The log.
        path: PathBuf,
    },
    /// The file could not be made or opened.
    #[error("the event log {} cannot be opened; check its owner, its rights and the free space", path.display())]
    Open {
        /// The log.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// What a failed flush left in doubt could not be written anew.
    #[error("what is in doubt of the event log {} cannot be written anew; check the disk", path.display())]
    Rewrite {
        /// The log.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The lines could not be read.
    #[error("the event log {} cannot be read; check the disk", path.display())]
    Read {
        /// The log.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// What was found when a log was opened.
#[derive(Debug)]
pub struct OpenReport {
    /// The number of lines, a torn one included: the cursor of the last line.
    pub lines: u64,
    /// The last line had no newline: its writer was killed inside it. It keeps its position; the callback got what is
    /// there of it.
    pub torn: bool,
    /// Lines whose bytes are not those that were appended, as far as the index knew them, in order. They went to the
    /// callback as they are, like the lines after them. Where a newline was made or lost, the lines after it are no
    /// longer at the positions they had.
    pub damaged: Vec<RangeInclusive<Cursor>>,
    /// What became of the index.
    pub index: IndexState,
}

/// The files of a log.
pub(crate) struct Paths {
    pub(crate) log: PathBuf,
    pub(crate) index: IndexPaths,
}

/// Makes an empty log whose name survives a loss of power.
pub(crate) fn create(paths: Paths, dir: &Path, committer: Committer) -> Result<SessionLog, OpenLogError> {
    let made = files::open_regular(&paths.log, OpenOptions::new().read(true).write(true).create_new(true))
        .and_then(|file| files::sync_dir(dir).map(|()| file));
    let file = match made {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(OpenLogError::Exists { path: paths.log });
        }
        Err(source) => return Err(OpenLogError::Open { path: paths.log, source }),
    };
    let (mut index, state) = Builder::new(paths.index).finish();
    if let IndexState::Off(error) = state {
        // There is no report here: whoever indexes the first line learns it.
        index.stop(error);
    }
    let shared = Arc::new(Shared::new(Box::new(file), paths.log, 0));
    Ok(SessionLog {
        shared,
        committer,
        cursor: 0,
        tail: 0,
        buffer: Vec::new(),
        index,
        unindexed: VecDeque::new(),
    })
}

/// Opens a log and hands every line of it, in order, to `on_line`, which returns what to index of it. What is in doubt
/// from a byte on is written anew first.
pub(crate) fn open(
    paths: Paths,
    committer: Committer,
    doubtful_from: Option<u64>,
    on_line: impl FnMut(Cursor, &[u8]) -> IndexLine,
) -> Result<(SessionLog, OpenReport), OpenLogError> {
    let opened = files::open_regular(&paths.log, OpenOptions::new().read(true).write(true))
        .and_then(|file| Ok((file.metadata()?.len(), file)));
    match opened {
        Ok((len, file)) => {
            let file = Box::<File>::new(file);
            match doubtful_from {
                Some(from) => settle_doubt(file, from, len, &paths.log)
                    .and_then(|file| load(file, len, paths, committer, on_line)),
                None => load(file, len, paths, committer, on_line),
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(OpenLogError::Missing { path: paths.log })
        }
        Err(source) => Err(OpenLogError::Open { path: paths.log, source }),
    }
}

/// Writes anew what is in doubt, before anything of it is trusted.
pub(super) fn settle_doubt(
    file: Box<dyn Storage>,
    from: u64,
    len: u64,
    path: &Path,
) -> Result<Box<dyn Storage>, OpenLogError> {
    let shared = Shared::new(file, path.into(), len);
    shared.write_anew(from, len).map_err(|source| OpenLogError::Rewrite { path: path.into(), source })?;
    Ok(shared.into_file())
}

/// [`open`] after the file is open and `len` bytes long.
pub(super) fn load(
    file: Box<dyn Storage>,
    len: u64,
    paths: Paths,
    committer: Committer,
    mut on_line: impl FnMut(Cursor, &[u8]) -> IndexLine,
) -> Result<(SessionLog, OpenReport), OpenLogError> {
    let shared = Arc::new(Shared::new(file, paths.log, 0));
    let mut builder = Builder::new(paths.index);
    let mut damaged = Vec::new();
    let (mut cursor, mut good_len) = (0, 0);
    let mut scanner = Scanner::new(Arc::clone(&shared), len);
    while let Some(found) =
        scanner.next_line().map_err(|source| OpenLogError::Read { path: shared.path().into(), source })?
    {
        cursor += 1;
        let place = Place::of(found.offset, found.line);
        let is_damaged = !found.torn && builder.contradicts(&place);
        if is_damaged {
            extend(&mut damaged, cursor);
        }
        builder.push(&place, &on_line(cursor, found.line), is_damaged);
        if !found.torn {
            good_len = found.offset + place.len + 1;
        }
    }
    let torn = good_len < len;
    let mut tail = len;
    if torn && shared.write_all_at(b"\n", len).is_ok() {
        tail += 1;
        good_len = tail;
    }
    // Where that newline could not be written, as on a full disk, the first append brings it along.
    shared.publish(good_len);
    let (index, state) = builder.finish();
    let report = OpenReport { lines: cursor, torn, damaged, index: state };
    let log =
        SessionLog { shared, committer, cursor, tail, buffer: Vec::new(), index, unindexed: VecDeque::new() };
    Ok((log, report))
}

fn extend(ranges: &mut Vec<RangeInclusive<Cursor>>, cursor: Cursor) {
    match ranges.last_mut() {
        Some(last) if last.end() + 1 == cursor => *last = *last.start()..=cursor,
        _ => ranges.push(cursor..=cursor),
    }
}
