//! The version of an installed agent, without running it: a start may take seconds and write into a person's home.

use serde::Deserialize;
use std::{
    fs::{self, File},
    io::Read as _,
    path::Path,
};

/// How many directories above a program are looked at. The program of a package lies in it, or one or two below.
const LEVELS_MAX: usize = 4;

/// The longest manifest that is read.
const MANIFEST_MAX_BYTES: u64 = 1 << 20;

/// The version of the package that a program belongs to, as the package's own `package.json` has it; `None` for a program
/// of another kind.
pub fn package_version(program: &Path) -> Option<String> {
    // What stands on PATH is a link into the package.
    let program = fs::canonicalize(program).ok()?;
    program
        .ancestors()
        .skip(1)
        .take(LEVELS_MAX)
        .find_map(|directory| manifest_version(&directory.join("package.json")))
}

fn manifest_version(path: &Path) -> Option<String> {
    /// A manifest without a name is no package's: some only tell node how to read the files beside them.
    #[derive(Deserialize)]
    struct Manifest {
        #[serde(rename = "name")]
        _name: String,
        version: String,
    }
    let mut text = Vec::new();
    File::open(path).ok()?.take(MANIFEST_MAX_BYTES).read_to_end(&mut text).ok()?;
    serde_json::from_slice::<Manifest>(&text).ok().map(|manifest| manifest.version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_version_is_that_of_the_package_around_the_program() {
        let dir = tempfile::tempdir().expect("a directory");
        let package = dir.path().join("lib/node_modules/@some/agent");
        fs::create_dir_all(package.join("dist/bin")).expect("made");
        fs::create_dir(dir.path().join("bin")).expect("made");
        fs::write(package.join("dist/bin/main.js"), "").expect("written");
        symlink(package.join("dist/bin/main.js"), dir.path().join("bin/agent")).expect("linked");
        let check = |expect: Option<&str>| {
            assert_eq!(package_version(&dir.path().join("bin/agent")).as_deref(), expect);
        };
        check(None);
        fs::write(package.join("package.json"), r#"{"name": "@some/agent", "version": "1.2.3"}"#)
            .expect("written");
        check(Some("1.2.3"));
        fs::write(package.join("dist/package.json"), r#"{"type": "module"}"#).expect("written");
        check(Some("1.2.3"));
        fs::write(package.join("package.json"), "{").expect("written");
        check(None);
        assert_eq!(package_version(Path::new("/nowhere/at/all")), None);
    }
}
