use super::{DIR_MODE, DataDirError, OPEN_TO_OTHERS, check_own};
use std::{
    fs::DirBuilder,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io,
    os::unix::{ffi::OsStrExt as _, fs::DirBuilderExt as _},
    path::{Path, PathBuf},
};

/// The longest path that is used for a socket, in bytes. The kernel's limit is 107; the rest is room for a temporary
/// name beside it.
const LONGEST: usize = 100;
const NAME: &str = "daemon.sock";

/// `run/daemon.sock`, or a path below `short` that depends on the user and on `root` only.
pub(super) fn path(root: &Path, run: &Path, short: &Path) -> Result<PathBuf, DataDirError> {
    let usual = run.join(NAME);
    if usual.as_os_str().as_bytes().len() <= LONGEST {
        return Ok(usual);
    }
    let mut hash = DefaultHasher::new();
    root.hash(&mut hash);
    let of_user = short.join(format!("maestro-{}", rustix::process::geteuid().as_raw()));
    let of_root = of_user.join(format!("{:016x}", hash.finish()));
    make_closed(&of_user)?;
    make_closed(&of_root)?;
    Ok(of_root.join(NAME))
}

/// Makes one directory that nobody else can enter. What stands there already is used only if it is exactly that:
/// anyone may have made it in a shared place.
fn make_closed(dir: &Path) -> Result<(), DataDirError> {
    match DirBuilder::new().mode(DIR_MODE).create(dir) {
        Err(source) if source.kind() != io::ErrorKind::AlreadyExists => {
            Err(DataDirError::Create { path: dir.into(), source })
        }
        _ => check_own(dir, OPEN_TO_OTHERS),
    }
}
