//! The socket file that the daemon listens on.

use std::{
    fs::{self, Permissions},
    io,
    os::unix::fs::{FileTypeExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};
use tokio::net::UnixListener;

/// Only the daemon's own user may connect.
const MODE: u32 = 0o600;

/// Why there is no socket to listen on.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Something else has the socket's name.
    #[error("`{}` is in the way and no socket: move it away", path.display())]
    InTheWay {
        /// Where.
        path: PathBuf,
    },
    /// A dead daemon's socket stays.
    #[error("the socket `{}` of an earlier daemon cannot be removed", path.display())]
    RemoveStale {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The socket could not be made.
    #[error("the socket `{}` cannot be made", path.display())]
    Make {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The socket would be open to other users.
    #[error("the socket `{}` cannot be closed to other users", path.display())]
    Protect {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Listens at `path`, whose directory nobody else can enter. The caller holds the lock of the data directory, so a
/// socket that is there already belongs to a dead daemon and is replaced.
pub(crate) fn bind(path: &Path) -> Result<UnixListener, BindError> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => remove(path)?,
        Ok(_) => return Err(BindError::InTheWay { path: path.into() }),
        // Missing, or unreadable: then making it says so.
        Err(_) => {}
    }
    let listener =
        UnixListener::bind(path).map_err(|source| BindError::Make { path: path.into(), source })?;
    fs::set_permissions(path, Permissions::from_mode(MODE))
        .map_err(|source| BindError::Protect { path: path.into(), source })?;
    Ok(listener)
}

fn remove(path: &Path) -> Result<(), BindError> {
    match fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(BindError::RemoveStale { path: path.into(), source })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{BindError, bind};
    use std::{fs, os::unix::fs::PermissionsExt as _};

    #[tokio::test]
    async fn a_stale_socket_is_replaced_and_the_new_one_is_closed_to_others() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("daemon.sock");
        drop(bind(&path).expect("the first daemon"));
        assert!(path.exists(), "a dead daemon leaves its socket");
        let _listener = bind(&path).expect("the next daemon");
        assert_eq!(fs::metadata(&path).expect("the socket").permissions().mode() & 0o777, 0o600);
        let _client = tokio::net::UnixStream::connect(&path).await.expect("the new socket accepts");
    }

    #[tokio::test]
    async fn what_is_no_socket_is_left_alone() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("daemon.sock");
        fs::write(&path, "mine").expect("written");
        assert!(matches!(bind(&path), Err(BindError::InTheWay { .. })));
        assert_eq!(fs::read_to_string(&path).expect("still there"), "mine");
    }
}
