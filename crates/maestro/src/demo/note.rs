use super::identity;
use std::{
    fs::{self, OpenOptions},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

/// What each edit adds.
pub(super) const LINE: &str = "Written by maestro's demo agent, because it was allowed to.\n";
/// The most of an earlier note that is read: a thousand edits, and no bound on what somebody put in its place.
const READ_BYTES_MAX: u64 = 64 * 1024;

/// What an edit did.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Written {
    /// The text before; `None` if there was no note.
    pub(super) old: Option<String>,
    /// The text now.
    pub(super) new: String,
}

/// Where a session's note is: in a directory named after the session, which only that session's edits make.
pub(super) fn path(cwd: &Path, session: &str) -> PathBuf {
    cwd.join(format!("maestro-demo-{}", identity::short(session))).join("maestro-demo.txt")
}

/// Adds [`LINE`] to the note. The directory is made first, and is used only if it is a directory and no link; links
/// in the note's place are replaced, never followed.
pub(super) fn write(path: &Path) -> io::Result<Written> {
    let directory = path.parent().unwrap_or(path);
    match fs::create_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            if !fs::symlink_metadata(directory)?.is_dir() {
                return Err(io::Error::other(format!("{} is no directory", directory.display())));
            }
        }
        made => made?,
    }
    let old = read(path)?;
    let new = old.clone().unwrap_or_default() + LINE;
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(new.as_bytes())?;
    Ok(Written { old, new })
}

fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_file() => {}
        Ok(_) => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    }
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(READ_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn place() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = path(directory.path(), "demo-1-1-abcd");
        (directory, path)
    }

    #[test]
    fn a_note_grows_in_a_directory_of_its_own() {
        let (directory, path) = place();
        assert_eq!(path, directory.path().join("maestro-demo-abcd/maestro-demo.txt"));
        assert_eq!(write(&path).unwrap(), Written { old: None, new: LINE.into() });
        assert_eq!(write(&path).unwrap(), Written { old: Some(LINE.into()), new: LINE.repeat(2) });
        assert_eq!(fs::read_to_string(&path).unwrap(), LINE.repeat(2));
    }

    #[test]
    fn nothing_is_written_through_a_link() {
        let (directory, path) = place();
        let other = directory.path().join("other");
        fs::create_dir(&other).unwrap();
        symlink(&other, path.parent().unwrap()).unwrap();
        assert!(write(&path).is_err());
        assert_eq!(fs::read_dir(&other).unwrap().count(), 0);

        fs::remove_file(path.parent().unwrap()).unwrap();
        fs::create_dir(path.parent().unwrap()).unwrap();
        let target = directory.path().join("target");
        fs::write(&target, "mine").unwrap();
        symlink(&target, &path).unwrap();
        assert_eq!(write(&path).unwrap().old, None);
        assert_eq!(fs::read_to_string(&target).unwrap(), "mine");
    }

    #[test]
    fn a_missing_cwd_is_an_error() {
        assert!(write(Path::new("/nonexistent/maestro-demo-x/maestro-demo.txt")).is_err());
    }
}
