//! Where things are.

use anyhow::{Context as _, Result};
use std::{
    env,
    path::{Path, PathBuf},
};

/// The root of the repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this crate lies in a folder of the repository")
}

/// The directory of all caches: `MAESTRO_CACHE`, else `maestro-dev` in the XDG cache directory. May be deleted at any
/// time.
pub(crate) fn cache() -> Result<PathBuf> {
    if let Some(given) = env::var_os("MAESTRO_CACHE").filter(|given| !given.is_empty()) {
        return Ok(PathBuf::from(given));
    }
    let base = match env::var_os("XDG_CACHE_HOME").filter(|given| !given.is_empty()) {
        Some(given) => PathBuf::from(given),
        None => home()?.join(".cache"),
    };
    Ok(base.join("maestro-dev"))
}

/// The person's home directory.
pub(crate) fn home() -> Result<PathBuf> {
    env::var_os("HOME").map(PathBuf::from).context("HOME is not set: set it to your home directory")
}

/// The directory that cargo builds into.
pub(crate) fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// The cargo that runs this command.
pub(crate) fn cargo() -> PathBuf {
    env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from)
}

/// Whether an incomplete run must fail instead of being reported as skipped.
pub(crate) fn is_ci() -> bool {
    env::var_os("CI").is_some_and(|value| value == "true")
}

/// The first executable file of this name on `PATH`.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|dir| dir.join(name)).find(|file| {
        file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    })
}
