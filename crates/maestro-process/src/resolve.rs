use rustix::fs::{Access, AtFlags, CWD, accessat};
use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

/// Finds an agent's program (CONTRACT §2.2): the first executable regular file of that name on `path`, which
/// is the session's own `PATH` where it has one, else the daemon's. A name with a `/` is a path of its own.
///
/// Entries of `path` that are empty or relative mean the current directory, which for an agent is a place
/// that others write to; they are passed over. The answer is absolute.
pub fn resolve_program(program: &str, path: Option<&OsStr>) -> Option<PathBuf> {
    if program.is_empty() {
        return None;
    }
    if program.contains('/') {
        return std::path::absolute(program).ok().filter(|file| is_executable_file(file));
    }
    std::env::split_paths(path?)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(program))
        .find(|file| is_executable_file(file))
}

fn is_executable_file(file: &Path) -> bool {
    file.metadata().is_ok_and(|about| about.is_file())
        && accessat(CWD, file, Access::EXEC_OK, AtFlags::EACCESS).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::PermissionsExt as _};

    /// Makes `bin`, `later` and `plain` under one directory and resolves on the PATH `text`, in which `@` is
    /// that directory.
    fn check(program: &str, text: Option<&str>, expect: Option<&str>) {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        for (name, mode) in [("bin/agent", 0o755), ("later/agent", 0o755), ("plain/agent", 0o644)] {
            let file = root.join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, "").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        }
        fs::create_dir_all(root.join("folder/agent")).unwrap();
        let at = |text: &str| text.replace('@', root.to_str().unwrap());
        let path = text.map(at);
        let found = resolve_program(&at(program), path.as_deref().map(OsStr::new));
        assert_eq!(found, expect.map(|file| PathBuf::from(at(file))));
    }

    #[test]
    fn the_first_executable_file_wins() {
        check("agent", Some("@/bin:@/later"), Some("@/bin/agent"));
        check("agent", Some("@/none:@/folder:@/plain:@/later"), Some("@/later/agent"));
        check("agent", Some("@/plain"), None);
        check("other", Some("@/bin"), None);
        check("agent", Some(""), None);
        check("agent", None, None);
        check("", Some("@/bin"), None);
    }

    #[test]
    fn relative_entries_are_passed_over() {
        check("Cargo.toml", Some("::.:@/bin"), None);
        check("agent", Some(":.:@/later"), Some("@/later/agent"));
    }

    #[test]
    fn a_slash_makes_it_a_path() {
        check("@/later/agent", Some("@/bin"), Some("@/later/agent"));
        check("@/later/agent", None, Some("@/later/agent"));
        check("@/plain/agent", Some("@/bin"), None);
        check("@/folder/agent", None, None);
        check("bin/agent", Some("@"), None);
    }
}
