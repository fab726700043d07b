//! The door to the files of sessions.

use crate::{
    committer::Committer,
    files,
    index::{IndexLine, IndexPaths},
    log::{self, OpenLogError, OpenReport, SessionLog},
};
use maestro_protocol::{Cursor, SessionId};
use std::{
    fs, io,
    path::{Path, PathBuf},
};
use thiserror::Error;

/// The directory `sessions/` of a data directory. Every path in it is made from a [`SessionId`]. The process that uses it
/// holds the [`DataLock`](crate::DataLock).
#[derive(Debug, Clone)]
pub struct LogDir {
    dir: PathBuf,
    committer: Committer,
}

/// The directory of the sessions cannot be used.
#[derive(Debug, Error)]
pub enum LogDirError {
    /// Its entries cannot be listed.
    #[error("the directory {} cannot be listed; check its owner and rights", path.display())]
    List {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A half-written file of a process that was killed cannot be removed.
    #[error("the unfinished file {} cannot be removed; remove it", path.display())]
    Clean {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A file of a removed session cannot be removed.
    #[error("the file {} of a removed session is still there; remove it", path.display())]
    Remove {
        /// The file or its directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// One of the files of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Sidecar,
    Log,
    Index,
    Checkpoints,
    Marker,
    Queue,
}

impl Part {
    fn suffix(self) -> &'static str {
        match self {
            Self::Sidecar => "json",
            Self::Log => "events.jsonl",
            Self::Index => "index",
            Self::Checkpoints => "checkpoints",
            Self::Marker => "recover",
            Self::Queue => "queue.json",
        }
    }
}

impl LogDir {
    /// Opens the directory, which exists, and removes what a killed process left half-written in it: temporary files,
    /// and the queue of a session whose sidecar was never stored.
    pub fn open(dir: &Path, committer: &Committer) -> Result<Self, LogDirError> {
        let opened = Self { dir: dir.into(), committer: committer.clone() };
        for name in opened.names()? {
            let Some(id) = session_of(&name) else { continue };
            let is_queue = name == Self::name(id, Part::Queue);
            if name.ends_with(files::TEMPORARY)
                || (is_queue && matches!(opened.path(id, Part::Sidecar).try_exists(), Ok(false)))
            {
                let path = dir.join(name);
                fs::remove_file(&path).map_err(|source| LogDirError::Clean { path, source })?;
            }
        }
        Ok(opened)
    }

    /// Makes the empty log of a new session.
    pub fn create_log(&self, id: SessionId) -> Result<SessionLog, OpenLogError> {
        log::create(self.log_paths(id), &self.dir, self.committer.clone())
    }

    /// Opens a session's log and hands all its lines to `on_line`, with their cursors and without newlines. `on_line`
    /// returns what [`SessionLog::index`] was given or would be.
    ///
    /// A torn last line is terminated and counts as a line (CONTRACT §5.4). A log has one writer: do not open it twice.
    pub fn open_log(
        &self,
        id: SessionId,
        on_line: impl FnMut(Cursor, &[u8]) -> IndexLine,
    ) -> Result<(SessionLog, OpenReport), OpenLogError> {
        log::open(self.log_paths(id), self.committer.clone(), None, on_line)
    }

    /// Opens a log that was lost, once its old [`SessionLog`] takes no more lines, as [`Self::open_log`] does. Everything
    /// from `doubtful_from` on, which is [`SessionLog::doubtful_from`], is written anew first: what can be read of it need
    /// not be on the disk, and a flush alone would not put it there (CONTRACT §5.4).
    pub fn reopen_log(
        &self,
        id: SessionId,
        doubtful_from: u64,
        on_line: impl FnMut(Cursor, &[u8]) -> IndexLine,
    ) -> Result<(SessionLog, OpenReport), OpenLogError> {
        log::open(self.log_paths(id), self.committer.clone(), Some(doubtful_from), on_line)
    }

    /// Removes everything of a session. The sidecar goes last, so that after a crash the session is still listed and can
    /// be removed again.
    pub fn remove(&self, id: SessionId) -> Result<(), LogDirError> {
        let parts = [Part::Marker, Part::Index, Part::Checkpoints, Part::Log, Part::Queue, Part::Sidecar];
        for part in parts {
            let path = self.path(id, part);
            match fs::remove_file(&path) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    return Err(LogDirError::Remove { path, source });
                }
                _ => {}
            }
        }
        files::sync_dir(&self.dir).map_err(|source| LogDirError::Remove { path: self.dir.clone(), source })
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn name(id: SessionId, part: Part) -> String {
        format!("{id}.{}", part.suffix())
    }

    pub(crate) fn path(&self, id: SessionId, part: Part) -> PathBuf {
        self.dir.join(Self::name(id, part))
    }

    /// The ids that have an entry of this kind, in their order.
    pub(crate) fn ids(&self, part: Part) -> Result<Vec<SessionId>, LogDirError> {
        let of_part = |name: String| session_of(&name).filter(|id| name == Self::name(*id, part));
        let mut ids: Vec<_> = self.names()?.into_iter().filter_map(of_part).collect();
        ids.sort_unstable();
        Ok(ids)
    }

    fn log_paths(&self, id: SessionId) -> log::Paths {
        let index =
            IndexPaths { entries: self.path(id, Part::Index), sides: self.path(id, Part::Checkpoints) };
        log::Paths { log: self.path(id, Part::Log), index }
    }

    /// The names in the directory; one that is not text is none of ours.
    fn names(&self) -> Result<Vec<String>, LogDirError> {
        let list = || -> io::Result<Vec<String>> {
            let names = fs::read_dir(&self.dir)?.map(|entry| Ok(entry?.file_name().into_string().ok()));
            Ok(names.collect::<io::Result<Vec<_>>>()?.into_iter().flatten().collect())
        };
        list().map_err(|source| LogDirError::List { path: self.dir.clone(), source })
    }
}

/// The session whose id begins the name, up to the first dot.
fn session_of(name: &str) -> Option<SessionId> {
    name.split_once('.')?.0.parse().ok()
}
