use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
    time::SystemTime,
};
use thiserror::Error;

const NAME: &str = "maestro-scripted-agent";

/// Why there is no scripted agent.
#[derive(Debug, Clone, Error)]
pub enum ProgramError {
    /// The test does not run from a target directory of cargo.
    #[error("{} is not below a target directory of cargo", .0.display())]
    NotCargo(PathBuf),
    /// cargo could not build it.
    #[error("the scripted agent could not be built: {0}; try `cargo build -p maestro-testkit`")]
    Build(String),
}

/// The program `maestro-scripted-agent` beside the running test, built first where it is missing or older than its
/// source: cargo builds the programs of a dev-dependency for nobody.
pub fn scripted_agent() -> Result<PathBuf, ProgramError> {
    static FOUND: OnceLock<Result<PathBuf, ProgramError>> = OnceLock::new();
    FOUND.get_or_init(find).clone()
}

fn find() -> Result<PathBuf, ProgramError> {
    let test = env::current_exe().map_err(|error| ProgramError::Build(error.to_string()))?;
    // <target>/<profile>/{deps,examples}/<test>
    let profile_dir = test
        .parent()
        .filter(|parent| parent.ends_with("deps") || parent.ends_with("examples"))
        .and_then(Path::parent)
        .ok_or_else(|| ProgramError::NotCargo(test.clone()))?;
    let program = profile_dir.join(NAME);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    if !is_fresh(&program, &source) {
        build(profile_dir)?;
    }
    Ok(program)
}

fn is_fresh(program: &Path, source: &Path) -> bool {
    let modified = |path: &Path| fs::metadata(path).and_then(|metadata| metadata.modified());
    matches!((modified(program), newest(source)), (Ok(built), Ok(written)) if built >= written)
}

fn newest(directory: &Path) -> io::Result<SystemTime> {
    let mut newest = SystemTime::UNIX_EPOCH;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        newest =
            newest.max(if metadata.is_dir() { self::newest(&entry.path())? } else { metadata.modified()? });
    }
    Ok(newest)
}

fn build(profile_dir: &Path) -> Result<(), ProgramError> {
    let failed = |text: String| ProgramError::Build(text);
    let profile = match profile_dir.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(other) => other,
    };
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--package", "maestro-testkit", "--bin", NAME, "--profile", profile]);
    command.arg("--target-dir").arg(profile_dir.parent().unwrap_or(profile_dir));
    let output = command
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if output.status.success() { Ok(()) } else { Err(failed(String::from_utf8_lossy(&output.stderr).into())) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs::File, time::Duration};

    #[test]
    fn a_program_is_fresh_while_no_source_is_newer() {
        let directory = tempfile::tempdir().unwrap();
        let (source, program) = (directory.path().join("src"), directory.path().join("program"));
        fs::create_dir_all(source.join("deep")).unwrap();
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let write = |path: &Path, seconds| File::create(path).unwrap().set_modified(at(seconds)).unwrap();
        let check = |expect: bool| assert_eq!(is_fresh(&program, &source), expect);
        write(&source.join("a.rs"), 10);
        write(&source.join("deep/b.rs"), 20);
        check(false);
        write(&program, 20);
        check(true);
        write(&source.join("deep/b.rs"), 21);
        check(false);
    }

    #[test]
    fn the_program_is_beside_the_test() {
        let program = scripted_agent().unwrap();
        let output = Command::new(program).arg("/nonexistent/script").output().unwrap();
        assert_eq!(output.status.code(), Some(98), "{output:?}");
    }
}
