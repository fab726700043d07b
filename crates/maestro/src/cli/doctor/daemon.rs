use super::Finding;
use crate::config::Settings;
use maestro_client::{Client, ClientError};
use serde::Deserialize;
use std::{
    collections::BTreeSet,
    env,
    ffi::{OsStr, OsString},
    fs,
    os::unix::ffi::OsStringExt as _,
    path::{Path, PathBuf},
};

const SUBJECT: &str = "daemon";

/// `run/daemon.json`.
#[derive(Debug, Deserialize)]
pub(super) struct Announced {
    pub(super) pid: u32,
    version: String,
}

pub(super) fn announced(settings: &Settings) -> Option<Announced> {
    serde_json::from_slice(&fs::read(settings.run_dir().join("daemon.json")).ok()?).ok()
}

pub(super) fn look(connected: &Result<Client, ClientError>, announced: Option<&Announced>) -> Finding {
    match (connected, announced) {
        (Ok(_), Some(announced)) => runs(announced, env!("CARGO_PKG_VERSION")),
        (Ok(_), None) => Finding::wrong(SUBJECT, "one answers, but its run/daemon.json is gone")
            .mend("find its process (`pgrep -f 'maestro serve'`), end it with SIGTERM, and start it again"),
        (Err(ClientError::Unreachable { .. }), Some(announced)) if is_alive(announced.pid) => {
            let found = format!(
                "process {} has the data directory, but nothing answers at its socket",
                announced.pid
            );
            Finding::wrong(SUBJECT, found)
                .mend(format!("kill {}; the next command starts another", announced.pid))
        }
        (Err(ClientError::Unreachable { .. }), Some(announced)) => {
            Finding::note(SUBJECT, format!("process {} ended without shutting down", announced.pid))
                .mend("nothing to do: the next command starts one, which closes what was left open")
        }
        (Err(ClientError::Unreachable { .. }), None) => {
            Finding::note(SUBJECT, "none runs; the next command starts one")
        }
        (Err(error), _) => Finding::wrong(SUBJECT, error.to_string()).mend("look at its log, run/daemon.log"),
    }
}

fn runs(announced: &Announced, version: &str) -> Finding {
    let found = format!("process {}, version {}", announced.pid, announced.version);
    if announced.version == version {
        return Finding::ok(SUBJECT, found);
    }
    Finding::wrong(SUBJECT, format!("{found}, but this command is of version {version}")).mend(format!(
        "kill {}; the next command starts one of this version, and sessions that can be resumed come back",
        announced.pid
    ))
}

fn is_alive(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

/// The `PATH` of a process of this user. Nothing else of its environment is looked at.
pub(super) fn path_of(pid: u32) -> Option<OsString> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let path = environment.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(b"PATH="))?;
    Some(OsString::from_vec(path.to_vec()))
}

/// What this shell's `PATH` has and the daemon's has not: programs in there are missing for sessions.
pub(super) fn compare_paths(daemons: &OsStr) -> Option<Finding> {
    let here = env::var_os("PATH").unwrap_or_default();
    difference(&here, daemons)
}

fn difference(here: &OsStr, daemons: &OsStr) -> Option<Finding> {
    let known: BTreeSet<PathBuf> = env::split_paths(daemons).collect();
    let missing: Vec<String> = env::split_paths(here)
        .filter(|directory| !directory.as_os_str().is_empty() && !known.contains(directory))
        .map(|directory| directory.display().to_string())
        .collect();
    let found = format!("the daemon's lacks what this shell's has: {}", missing.join(", "));
    (!missing.is_empty()).then(|| {
        Finding::note("PATH", found).mend("if an agent needs it, restart the daemon from this shell")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::Level;

    #[test]
    fn a_daemon_of_another_version_is_wrong() {
        let announced = Announced { pid: 12, version: "1.0.0".into() };
        assert_eq!(runs(&announced, "1.0.0").level, Level::Ok);
        let other = runs(&announced, "1.0.1");
        assert_eq!(other.level, Level::Wrong);
        assert!(other.mend.is_some_and(|mend| mend.starts_with("kill 12;")));
    }

    #[test]
    fn only_what_the_daemon_lacks_is_told() {
        let check = |here: &str, daemons: &str, expect: Option<&str>| {
            let found = difference(here.as_ref(), daemons.as_ref()).map(|finding| finding.found);
            let expect = expect.map(|lacks| format!("the daemon's lacks what this shell's has: {lacks}"));
            assert_eq!(found, expect);
        };
        check("/a:/b", "/b:/a:/c", None);
        check("/a::/b:/d", "/b", Some("/a, /d"));
        check("", "/b", None);
    }
}
