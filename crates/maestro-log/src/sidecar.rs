//! Sidecars, queue files and recover markers (CONTRACT §5.7).

use crate::{
    files,
    log_dir::{LogDir, LogDirError, Part},
};
use maestro_protocol::SessionId;
use serde::{Serialize, de::DeserializeOwned};
use std::{
    fs::{self, OpenOptions},
    io::{self, Read as _},
    path::PathBuf,
};
use thiserror::Error;

/// Why a sidecar or a queue file could not be read or written.
#[derive(Debug, Error)]
pub enum SidecarError {
    /// It cannot be opened or read.
    #[error("the session file {} cannot be read; check its owner and rights", path.display())]
    Read {
        /// The sidecar.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// What is in it is not what was asked for.
    #[error("the session file {} does not hold what it should; mend it, or move it away", path.display())]
    Decode {
        /// The sidecar.
        path: PathBuf,
        /// Where it goes wrong.
        #[source]
        source: serde_json::Error,
    },
    /// The value has no JSON form. The old content is kept.
    #[error("what was to be stored in {} has no JSON form; the old content is kept", path.display())]
    Encode {
        /// The sidecar.
        path: PathBuf,
        /// What has none.
        #[source]
        source: serde_json::Error,
    },
    /// It could not be replaced for sure. It holds the old content or the new.
    #[error("the session file {} could not be replaced; check the free space", path.display())]
    Write {
        /// The sidecar.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// Why a recover marker could not be written or taken.
#[derive(Debug, Error)]
pub enum MarkerError {
    /// It may not be there after a loss of power.
    #[error("the marker {} could not be written; this session will not be resumed", path.display())]
    Write {
        /// The marker.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// It could not be deleted for sure, so it does not count as taken.
    #[error("the marker {} could not be removed; the session is not resumed", path.display())]
    Take {
        /// The marker.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// All sidecars of a directory, each list in the order of the ids.
#[derive(Debug)]
pub struct Sidecars<T> {
    /// Those that could be read.
    pub read: Vec<(SessionId, T)>,
    /// Those that could not, with the reason.
    pub unreadable: Vec<(SessionId, SidecarError)>,
}

impl LogDir {
    /// What a session's sidecar holds; `None` if it has none.
    pub fn read_sidecar<T: DeserializeOwned>(&self, id: SessionId) -> Result<Option<T>, SidecarError> {
        self.read_part(id, Part::Sidecar)
    }

    /// Replaces a session's sidecar. A crash at any moment leaves the old one whole or the new one; after `Ok` the new
    /// one survives a loss of power.
    pub fn write_sidecar<T: Serialize>(&self, id: SessionId, value: &T) -> Result<(), SidecarError> {
        self.write_part(id, Part::Sidecar, value)
    }

    /// What a session's queue file holds; `None` if it has none.
    pub fn read_queue<T: DeserializeOwned>(&self, id: SessionId) -> Result<Option<T>, SidecarError> {
        self.read_part(id, Part::Queue)
    }

    /// Replaces a session's queue file, as [`LogDir::write_sidecar`] does.
    pub fn write_queue<T: Serialize>(&self, id: SessionId, value: &T) -> Result<(), SidecarError> {
        self.write_part(id, Part::Queue, value)
    }

    fn read_part<T: DeserializeOwned>(&self, id: SessionId, part: Part) -> Result<Option<T>, SidecarError> {
        let path = self.path(id, part);
        let read = || -> io::Result<Vec<u8>> {
            let mut bytes = Vec::new();
            files::open_regular(&path, OpenOptions::new().read(true))?.read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        match read() {
            Ok(bytes) => match serde_json::from_slice(&bytes) {
                Ok(value) => Ok(Some(value)),
                Err(source) => Err(SidecarError::Decode { path, source }),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(SidecarError::Read { path, source }),
        }
    }

    fn write_part<T: Serialize>(&self, id: SessionId, part: Part, value: &T) -> Result<(), SidecarError> {
        let path = self.path(id, part);
        let bytes = match serde_json::to_vec(value) {
            Ok(bytes) => bytes,
            Err(source) => return Err(SidecarError::Encode { path, source }),
        };
        files::replace(self.dir(), &Self::name(id, part), &bytes)
            .map_err(|source| SidecarError::Write { path, source })
    }

    /// Reads all sidecars. Entries whose names are not those of sidecars are passed over; one bad sidecar does not hide
    /// the others.
    pub fn sidecars<T: DeserializeOwned>(&self) -> Result<Sidecars<T>, LogDirError> {
        let mut found = Sidecars { read: Vec::new(), unreadable: Vec::new() };
        for id in self.ids(Part::Sidecar)? {
            match self.read_sidecar(id) {
                Ok(Some(value)) => found.read.push((id, value)),
                // Removed since it was listed.
                Ok(None) => {}
                Err(error) => found.unreadable.push((id, error)),
            }
        }
        Ok(found)
    }

    /// Leaves the mark that this session ran when the daemon shut down gracefully (CONTRACT §10.2).
    pub fn write_marker(&self, id: SessionId) -> Result<(), MarkerError> {
        let path = self.path(id, Part::Marker);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        files::open_regular(&path, &mut options)
            .and_then(|_| files::sync_dir(self.dir()))
            .map_err(|source| MarkerError::Write { path, source })
    }

    /// The sessions that have the mark, in the order of their ids.
    pub fn marked(&self) -> Result<Vec<SessionId>, LogDirError> {
        self.ids(Part::Marker)
    }

    /// Deletes the mark and tells whether it was there. Only one of any number of callers gets `true`, and after it the
    /// mark does not come back by a loss of power.
    pub fn take_marker(&self, id: SessionId) -> Result<bool, MarkerError> {
        let path = self.path(id, Part::Marker);
        match fs::remove_file(&path) {
            Ok(()) => files::sync_dir(self.dir())
                .map(|()| true)
                .map_err(|source| MarkerError::Take { path, source }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(MarkerError::Take { path, source }),
        }
    }
}
