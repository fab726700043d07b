use crate::files;
use serde::{Deserialize, Serialize};
use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read as _, Seek as _, Write as _},
    os::unix::fs::MetadataExt as _,
    path::PathBuf,
};
use thiserror::Error;

/// This process's hold on a data directory, until it is dropped or the process ends in any way.
///
/// It is a `flock` on the file `lock`, which stays behind and holds the number of the process that had it last. Programs
/// that this process starts do not inherit it.
#[derive(Debug)]
#[must_use = "the directory is free again when this is dropped"]
pub struct DataLock {
    _held: File,
    directory: DirectoryId,
}

/// Which directory a lock is on: its lock file's own place on the disk. A directory that is moved keeps it; a copy has
/// another, and so have the directories of two daemons that run at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryId {
    device: u64,
    inode: u64,
}

/// Why a data directory could not be taken.
#[derive(Debug, Error)]
pub enum LockError {
    /// Another process has it. Exit code 75 (CONTRACT §12).
    #[error("{} holds {}; stop it, or choose another data directory", holder(*pid), path.display())]
    Held {
        /// The lock file.
        path: PathBuf,
        /// The holder, if it has written its number already.
        pid: Option<u32>,
    },
    /// The lock file cannot be opened or locked.
    #[error("the lock file {} cannot be taken; check its rights, and that its file system knows locks", path.display())]
    Take {
        /// The lock file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The lock is ours but this process's number cannot be written into it.
    #[error("the lock file {} cannot be written; check the free space", path.display())]
    Write {
        /// The lock file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl DataLock {
    pub(super) fn take(path: PathBuf) -> Result<Self, LockError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = match files::open_regular(&path, &mut options) {
            Ok(file) => file,
            Err(source) => return Err(LockError::Take { path, source }),
        };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(LockError::Held { pid: read_pid(&file), path }),
            Err(TryLockError::Error(source)) => return Err(LockError::Take { path, source }),
        }
        match write_pid(&file) {
            Ok(directory) => Ok(Self { _held: file, directory }),
            Err(source) => Err(LockError::Write { path, source }),
        }
    }

    /// The directory that is held. Whoever left this in one of its files held the same lock before, and is gone.
    pub fn directory(&self) -> DirectoryId {
        self.directory
    }
}

fn holder(pid: Option<u32>) -> String {
    match pid {
        Some(pid) => format!("process {pid}"),
        None => "another process".into(),
    }
}

fn write_pid(mut file: &File) -> io::Result<DirectoryId> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())?;
    let metadata = file.metadata()?;
    Ok(DirectoryId { device: metadata.dev(), inode: metadata.ino() })
}

/// The number in the lock file; `None` while the holder is writing it. A number is whole when its newline is there.
fn read_pid(file: &File) -> Option<u32> {
    let mut text = String::new();
    file.take(32).read_to_string(&mut text).ok()?;
    text.strip_suffix('\n')?.parse().ok()
}
