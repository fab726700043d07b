//! The data directory: its layout, who may touch it, and where the local socket goes (CONTRACT §12).

mod lock;
mod socket;

pub use lock::{DataLock, DirectoryId, LockError};

use std::{
    fs::{self, DirBuilder, Metadata},
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _},
    path::{Path, PathBuf},
};
use thiserror::Error;

/// The mode of every directory made here.
const DIR_MODE: u32 = 0o700;
/// Bits that let the group or the world change a directory.
const WRITABLE_BY_OTHERS: u32 = 0o022;
/// Bits that let the group or the world do anything in a directory.
const OPEN_TO_OTHERS: u32 = 0o077;
/// Set on a directory in which people cannot rename each other's files, such as `/tmp`.
const STICKY: u32 = 0o1000;
const WORLD_WRITABLE: u32 = 0o002;

/// A data directory whose layout exists and which no one else can change. It is not locked yet: see [`DataDir::lock`].
#[derive(Debug, Clone)]
pub struct DataDir {
    root: PathBuf,
}

/// Why a data directory cannot be used.
#[derive(Debug, Error)]
pub enum DataDirError {
    /// A directory of the layout could not be made.
    #[error("the directory {} cannot be made; check the rights on its parent or choose another data directory", path.display())]
    Create {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A directory could not be looked at or made durable.
    #[error("the directory {} cannot be inspected; check the rights on it and on its parents", path.display())]
    Inspect {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Something else stands where a directory must be; a symbolic link is something else.
    #[error("{} is not a directory; move it away", path.display())]
    NotADirectory {
        /// What stands there.
        path: PathBuf,
    },
    /// A directory is another user's.
    #[error("the directory {} belongs to user {owner}, not to user {user}; choose a directory of your own", path.display())]
    ForeignOwner {
        /// The directory.
        path: PathBuf,
        /// The user id that owns it.
        owner: u32,
        /// The user id that wants it.
        user: u32,
    },
    /// Others could change what is in a directory.
    #[error("others may write to the directory {} (mode {mode:04o}); take that away with chmod go-w", path.display())]
    WritableByOthers {
        /// The directory.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// Others could put another directory in the place of this one.
    #[error("anyone may rename what is in {} (mode {mode:04o}), a parent of the data directory; choose another place", path.display())]
    UnsafeParent {
        /// The parent.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// The directory of a socket must be closed to everyone else.
    #[error("the directory {} of the socket is open to others (mode {mode:04o}); remove it", path.display())]
    OpenToOthers {
        /// The directory.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
}

impl DataDir {
    /// Makes what is missing of the directory, `sessions/` and `run/` (mode 0700) and refuses a place that another user
    /// owns or could change.
    pub fn open(path: &Path) -> Result<Self, DataDirError> {
        let is_new = !path.exists();
        make_dir(path)?;
        let root = fs::canonicalize(path).map_err(|source| inspect(path, source))?;
        check_own(&root, WRITABLE_BY_OTHERS)?;
        check_parents(&root)?;
        let dir = Self { root };
        for child in [dir.sessions(), dir.run()] {
            make_dir(&child)?;
            check_own(&child, WRITABLE_BY_OTHERS)?;
        }
        for changed in [Some(dir.path()), dir.path().parent().filter(|_| is_new)].into_iter().flatten() {
            crate::files::sync_dir(changed).map_err(|source| inspect(changed, source))?;
        }
        Ok(dir)
    }

    /// Takes the directory for this process.
    pub fn lock(&self) -> Result<DataLock, LockError> {
        DataLock::take(self.root.join("lock"))
    }

    /// The directory itself, without symbolic links.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// `sessions/`: what [`LogDir`](crate::LogDir) is opened on.
    pub fn sessions(&self) -> PathBuf {
        self.root.join("sessions")
    }

    /// `run/`: what exists only while a daemon runs.
    pub fn run(&self) -> PathBuf {
        self.root.join("run")
    }

    /// Where the daemon's socket goes: `run/daemon.sock`, or, where that is over 100 bytes, a checked directory of mode
    /// 0700 below `/tmp/maestro-<uid>/`, which this makes.
    pub fn socket_path(&self) -> Result<PathBuf, DataDirError> {
        socket::path(&self.root, &self.run(), Path::new("/tmp"))
    }
}

fn inspect(path: &Path, source: io::Error) -> DataDirError {
    DataDirError::Inspect { path: path.into(), source }
}

fn make_dir(path: &Path) -> Result<(), DataDirError> {
    DirBuilder::new()
        .recursive(true)
        .mode(DIR_MODE)
        .create(path)
        .map_err(|source| DataDirError::Create { path: path.into(), source })
}

/// Holds a directory to be one, not a link to one, of this user, with none of the `forbidden` mode bits.
fn check_own(path: &Path, forbidden: u32) -> Result<(), DataDirError> {
    let meta = fs::symlink_metadata(path).map_err(|source| inspect(path, source))?;
    if !meta.is_dir() {
        return Err(DataDirError::NotADirectory { path: path.into() });
    }
    let user = rustix::process::geteuid().as_raw();
    if meta.uid() != user {
        return Err(DataDirError::ForeignOwner { path: path.into(), owner: meta.uid(), user });
    }
    let mode = mode_of(&meta);
    match mode & forbidden {
        0 => Ok(()),
        _ if forbidden == OPEN_TO_OTHERS => Err(DataDirError::OpenToOthers { path: path.into(), mode }),
        _ => Err(DataDirError::WritableByOthers { path: path.into(), mode }),
    }
}

/// A parent that anyone may write to, without the sticky bit, lets anyone exchange the directory itself.
fn check_parents(root: &Path) -> Result<(), DataDirError> {
    for parent in root.ancestors().skip(1) {
        let mode = mode_of(&fs::metadata(parent).map_err(|source| inspect(parent, source))?);
        if mode & WORLD_WRITABLE != 0 && mode & STICKY == 0 {
            return Err(DataDirError::UnsafeParent { path: parent.into(), mode });
        }
    }
    Ok(())
}

fn mode_of(meta: &Metadata) -> u32 {
    meta.mode() & 0o7777
}

#[cfg(test)]
mod tests;
