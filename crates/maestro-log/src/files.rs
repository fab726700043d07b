//! The few ways in which this crate opens, replaces and makes durable a file.

use rustix::fs::OFlags;
use std::{
    ffi::OsStr,
    fs::{File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

/// The mode of every file made here.
pub(crate) const FILE_MODE: u32 = 0o600;

/// Ends the name of a file that is still being written; [`replace`] renames it when it is whole.
pub(crate) const TEMPORARY: &str = ".tmp";

/// Opens a regular file, made with [`FILE_MODE`] where `options` create it. A symbolic link is refused, and neither a
/// pipe nor a device can hold the caller up.
pub(crate) fn open_regular(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = options.mode(FILE_MODE).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"))
    }
}

/// Makes the entries of a directory durable: a name made, replaced or removed in it survives a loss of power.
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Replaces `dir/name` by `bytes`: after a crash or a loss of power it holds all of the old content or all of the new,
/// and after `Ok` the new.
pub(crate) fn replace(dir: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let prefix = format!("{name}.");
    let mut builder = tempfile::Builder::new();
    let mut file = builder.prefix(OsStr::new(&prefix)).suffix(TEMPORARY).tempfile_in(dir)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(dir.join(name)).map_err(|refused| refused.error)?;
    sync_dir(dir)
}
