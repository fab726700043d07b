//! `maestro doctor`: what it finds, and what it leaves alone.

use crate::home::Home;
use serde_json::{Value, json};
use std::{fs, os::unix::fs::PermissionsExt as _, process::Command};

/// The one finding about a subject.
#[track_caller]
fn finding(report: &Value, subject: &str) -> (String, String, String) {
    let findings = report["findings"].as_array().expect("findings");
    let found = findings.iter().find(|finding| finding["subject"] == subject);
    let found = found.unwrap_or_else(|| panic!("nothing about {subject}: {report:#}"));
    let text = |name: &str| found[name].as_str().unwrap_or_default().to_owned();
    (text("level"), text("found"), text("mend"))
}

fn report(home: &Home, environment: &[(&str, &str)]) -> (i32, Value) {
    let ended = home.run_with(&["doctor", "--json"], environment);
    (ended.code, serde_json::from_str(&ended.stdout).expect("one value of JSON"))
}

#[test]
fn a_new_home_has_nothing_wrong_and_stays_as_it_is() {
    let home = Home::without_daemon();
    let (code, found) = report(&home, &[]);
    assert_eq!((code, &found["wrong"]), (0, &json!(0)), "{found:#}");
    assert_eq!(finding(&found, "data directory").0, "note");
    assert_eq!(finding(&found, "daemon").1, "none runs; the next command starts one");
    let (level, _, mend) = finding(&found, "qwen");
    assert_eq!((level.as_str(), mend.as_str()), ("note", "maestro agent install qwen"));
    home.run(&["doctor"]).check(0, "\nnothing is wrong\n", "");
    assert!(!home.data().exists());
}

#[test]
fn a_daemon_is_compared_with_this_command_and_this_shell() {
    let home = Home::with_daemon();
    let (code, found) = report(&home, &[]);
    assert_eq!(code, 0, "{found:#}");
    let announced = home.data().join("run/daemon.json");
    let text = fs::read_to_string(&announced).expect("announced");
    let mut changed: Value = serde_json::from_str(&text).expect("JSON");
    let (level, words, _) = finding(&found, "daemon");
    let expect = format!("process {}, version {}", changed["pid"], env!("CARGO_PKG_VERSION"));
    assert_eq!((level.as_str(), words), ("ok", expect));

    let bin = home.path().join("bin");
    fs::create_dir(&bin).expect("made");
    fs::write(bin.join("qwen"), "#!/usr/bin/env node\n").expect("written");
    fs::set_permissions(bin.join("qwen"), fs::Permissions::from_mode(0o755)).expect("set");
    let path = bin.display().to_string();
    let (code, found) = report(&home, &[("PATH", &path)]);
    assert_eq!(code, 1, "{found:#}");
    assert!(finding(&found, "qwen").1.contains("not on the daemon's PATH"), "{found:#}");
    assert!(finding(&found, "PATH").1.ends_with(&format!(": {path}")), "{found:#}");
    assert_eq!(finding(&found, "node").0, "wrong", "qwen needs it: {found:#}");

    changed["version"] = "0.0.1".into();
    fs::write(&announced, changed.to_string()).expect("written");
    let (code, found) = report(&home, &[]);
    let (level, _, mend) = finding(&found, "daemon");
    assert_eq!((code, level.as_str()), (1, "wrong"), "{found:#}");
    assert!(mend.starts_with(&format!("kill {};", changed["pid"])), "{mend}");
    fs::write(&announced, text).expect("written");
}

#[test]
fn a_configuration_that_no_daemon_would_take_is_told() {
    let home = Home::without_daemon();
    for (text, words) in
        [("[agents\n", "unclosed table"), ("[agents.new]\nargs = []\n", "no built-in agent has this key")]
    {
        home.configure(text);
        let (code, found) = report(&home, &[]);
        let (level, told, _) = finding(&found, "config.toml");
        assert_eq!((code, level.as_str()), (1, "wrong"), "{found:#}");
        assert!(told.contains(words), "{told}");
    }
}

#[test]
fn what_a_session_left_behind_is_found() {
    let home = Home::with_daemon();
    home.run(&["run", "hello", "--agent", "demo"]).check(0, "", "");
    let (code, found) = report(&home, &[]);
    assert_eq!((code, finding(&found, "processes").0.as_str()), (0, "ok"), "its agent is guarded: {found:#}");

    let left = Command::new("sleep").arg("600").env(maestro_process::SESSION_VARIABLE, home.newest()).spawn();
    let mut left = left.expect("started");
    let (code, found) = report(&home, &[]);
    left.kill().expect("ours to end");
    left.wait().expect("waited for");
    let (level, _, mend) = finding(&found, "processes");
    assert_eq!((code, level.as_str()), (1, "wrong"), "{found:#}");
    assert!(mend.ends_with(&format!("kill {}", left.id())), "{mend}");
}

#[test]
fn a_changed_audit_log_is_told() {
    let home = Home::with_daemon();
    home.run(&["run", "hello", "--agent", "demo"]).check(0, "", "");
    home.run(&["audit"]).check(0, "the daemon started", "");
    let (code, found) = report(&home, &[]);
    assert_eq!((code, finding(&found, "audit log").0.as_str()), (0, "ok"), "{found:#}");

    let path = home.data().join("audit.jsonl");
    let text = fs::read_to_string(&path).expect("a log");
    fs::write(&path, text.replacen("daemon_started", "daemon_ended", 1)).expect("changed");
    let (code, found) = report(&home, &[]);
    let (level, words, _) = finding(&found, "audit log");
    assert_eq!((code, level.as_str()), (1, "wrong"), "{found:#}");
    assert!(words.starts_with("line "), "{words}");
    home.run(&["audit"]).check(1, "demo runs in session", "the log cannot be trusted from its line ");
}
