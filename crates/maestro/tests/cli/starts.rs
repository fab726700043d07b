//! How commands begin and end where a start is slow, fails, or is broken off.

use crate::home::{Home, json_lines, pseudo_terminal};
use rustix::process::Signal;
use serde_json::Value;
use std::{fs, io::Write as _, process::Stdio};

/// An agent that never answers.
const SILENT: &str = "[agents.silent]\nprogram = \"sleep\"\nargs = [\"600\"]\n";

#[test]
fn a_ready_daemon_says_so_to_programs_too() {
    let home = Home::without_daemon();
    let daemon = home.start(&["serve", "--json"], Stdio::null());
    daemon.wait_for_stdout("\n");
    daemon.signal(Signal::TERM);
    let ended = daemon.end();
    let lines = json_lines(&ended.stdout);
    assert_eq!((ended.code, lines.len(), &lines[0]["type"]), (0, 1, &Value::from("Ready")));
    assert_eq!(lines[0]["socket"].as_str(), home.data().join("run/daemon.sock").to_str());
}

#[test]
fn a_failed_start_shows_what_this_daemon_said() {
    let home = Home::without_daemon();
    home.configure("[agents.new]\nargs = []\n");
    fs::create_dir(home.data().join("run")).expect("made");
    fs::write(home.data().join("run/daemon.log"), "words of an older daemon\n").expect("written");
    let ended = home.run(&["ls"]);
    ended.check(3, "", "no built-in agent has this key");
    assert!(!ended.stderr.contains("older") && !ended.stderr.contains("started a daemon for"), "{ended:?}");
}

#[test]
fn a_data_directory_that_cannot_be_is_no_defect() {
    let home = Home::without_daemon();
    let ended = home.run(&["ls", "--data-path", "/proc/nowhere"]);
    ended.check(1, "", "error: the data directory `/proc/nowhere` cannot be used\n");
    ended.check(1, "", "hint: name another with --data-path DIR\n");
}

#[test]
fn a_slow_start_is_told_and_can_be_broken_off() {
    let home = Home::with_config(SILENT);
    let run = home.start(&["run", "hello", "--agent", "silent", "--json"], Stdio::null());
    run.wait_for_stderr("waiting for silent to start…\n");
    run.signal(Signal::INT);
    let ended = run.end();
    let lines = json_lines(&ended.stdout);
    let (first, last) = (&lines[0], &lines[lines.len() - 1]);
    assert_eq!((ended.code, &first["type"], &last["type"]), (130, &"Session".into(), &"Result".into()));
    assert_eq!((&last["session_id"], &last["exit_code"]), (&first["session"]["id"], &130.into()));
    assert_eq!(home.json(&["ls", "--json"])["sessions"][0]["status"], "Dead");
}

#[test]
fn a_refusal_behind_frames_is_a_result() {
    let home = Home::with_daemon();
    let busy = home.start(&["run", "slow", "--agent", "demo"], Stdio::null());
    busy.wait_for_stdout("1 2");
    let refused = home.run(&["prompt", &home.newest(), "hello", "--json"]);
    refused.check(1, "", "hint: let the prompt wait with `maestro prompt <id> --queue`, or end the turn");
    let lines = json_lines(&refused.stdout);
    assert_eq!(lines[0]["type"], "TranscriptSnapshot");
    let last = &lines[lines.len() - 1];
    assert_eq!(
        (&last["type"], &last["exit_code"], &last["turn"]),
        (&"Result".into(), &1.into(), &Value::Null)
    );
    busy.signal(Signal::INT);
    busy.end().check(11, "", "");
}

#[test]
fn an_answer_while_the_daemon_is_away_can_be_given_again() {
    let mut home = Home::with_daemon();
    let (mut keyboard, terminal) = pseudo_terminal();
    let run = home.start(&["run", "run", "--agent", "demo"], terminal.into());
    run.wait_for_stderr("an option's number: ");
    home.stop_daemon();
    run.wait_for_stderr("trying again\n");
    keyboard.write_all(b"a\n").expect("typed");
    run.wait_for_stderr("answer again\n");
    home.start_daemon();
    // The request went with the daemon that had it, and so did the turn.
    run.end().check(13, "withdrawn", "(this needs no answer any more)\n");
}
