use super::*;
use std::os::unix::{fs::PermissionsExt as _, process::ExitStatusExt as _};

/// A shell script in the place of the daemon's program.
fn stand_in(text: &str) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("stand-in");
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    (directory, path)
}

#[test]
fn it_starts_in_a_place_of_its_own_and_stops() {
    let (_directory, program) = stand_in(
        "trap 'exit 3' TERM\necho \"$@\"\nenv | sort\necho maestro is ready: here\nwhile :; do sleep 0.01; done",
    );
    let mut daemon = TestDaemon::builder(program).env("EXTRA", "1").start().unwrap();
    let log = daemon.log();
    assert!(log.starts_with(&format!("serve --data-path {}\n", daemon.data().display())), "{log}");
    let home = format!("HOME={}/home", daemon.place().display());
    for line in ["EXTRA=1", "LANG=C.UTF-8", &home] {
        assert!(log.lines().any(|found| found == line), "{line} is not in {log}");
    }
    let names: Vec<&str> = log.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    // A shell adds PWD and its kin.
    let known = ["DATA_PATH", "EXTRA", "HOME", "LANG", "OLDPWD", "PATH", "PWD", "SHLVL", "TMPDIR", "_"];
    assert!(names.iter().all(|name| known.contains(name)), "{names:?}");
    assert_eq!(daemon.stop().unwrap().code(), Some(3));
    daemon.start().unwrap();
    assert_eq!(daemon.end(Signal::KILL).unwrap().signal(), Some(9));
    assert_eq!(daemon.log().matches("ready").count(), 2);
}

#[test]
fn its_drop_waits_for_what_it_had_started() {
    let (_directory, program) = stand_in(
        "(sleep 0.3; echo late > \"$HOME/late\") >/dev/null 2>&1 &\necho maestro is ready: here\nwait",
    );
    let daemon = TestDaemon::builder(program).start().unwrap();
    let (place, home) = (daemon.place().to_owned(), format!("HOME={}/home", daemon.place().display()));
    assert!(live_processes_with(&home).len() > 1);
    drop(daemon);
    assert_eq!(live_processes_with(&home), Vec::<u32>::new());
    assert!(!place.exists());
}

#[test]
fn a_daemon_that_ends_says_why() {
    let (_directory, program) = stand_in("echo held by 17 >&2; exit 75");
    let error = TestDaemon::builder(program).start().unwrap_err().to_string();
    assert!(error.contains("exit status: 75") && error.contains("held by 17"), "{error}");
}

#[test]
fn the_configuration_names_the_agents() {
    let daemon = TestDaemon::builder("/bin/true")
        .agent_field("real", "program", "/bin/cat")
        .agent_field("real", "cancel_grace_ms", 2000)
        .setting("owner", "someone")
        .prepare()
        .unwrap();
    let config = fs::read_to_string(daemon.data().join("config.toml")).unwrap();
    let expect = "owner = \"someone\"\n\n[agents.real]\nprogram = \"/bin/cat\"\ncancel_grace_ms = 2000\n";
    assert_eq!(config.parse::<toml::Table>().unwrap(), expect.parse::<toml::Table>().unwrap());
}
