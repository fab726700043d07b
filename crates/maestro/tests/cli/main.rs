//! The commands as a person types them: the real program against a daemon of its own, with the built-in demo agent.

mod agents;
mod doctor;
mod home;
mod starts;

use home::{Home, json_lines, pseudo_terminal};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::{fs, io::Write as _, os::unix::fs::PermissionsExt as _, process::Stdio};

#[test]
fn a_turn_is_streamed_and_its_end_is_the_exit_code() {
    let home = Home::with_daemon();
    let run = home.run(&["run", "hello", "--agent", "demo"]);
    run.check(0, "I am maestro's demo agent", "the session stays: maestro prompt ");
    assert!(!run.stdout.contains('\u{1b}'), "no colour into a pipe");
    home.run(&["run", "fail", "--agent", "demo"]).check(
        12,
        "end this turn with an error",
        "turn ended: error: ",
    );
    home.run(&["run", "hello"]).check(13, "", "install it with: npm install -g");
    home.run(&["run", "hello"]).check(13, "", "hint: then bring it back with: maestro restart ");
    home.run(&["run", "hello", "--agent", "unheard-of"]).check(
        1,
        "",
        "hint: `maestro agent ls` lists the agents",
    );
    home.run(&["run", "hello", "--agent", "demo", "--cwd", "/nowhere"]).check(1, "", "error: `/nowhere`");
    home.run(&["run", " ", "--agent", "demo"]).check(1, "", "error: the prompt is empty\n");
    home.run(&["run"]).check(2, "", "Usage: maestro run");
}

#[test]
fn a_program_reads_json_lines() {
    let home = Home::with_daemon();
    let run = home.run(&["run", "hello", "--agent", "demo", "--json"]);
    assert_eq!(run.code, 0, "{run:?}");
    let lines = json_lines(&run.stdout);
    let types: Vec<&str> = lines.iter().filter_map(|line| line["type"].as_str()).collect();
    assert_eq!(types[..3], ["Session", "TranscriptSnapshot", "ReducedState"]);
    assert!(types[3..types.len() - 1].iter().all(|kind| *kind == "ProjectionUpdate"), "{types:?}");
    let (first, last) = (&lines[0]["session"], &lines[lines.len() - 1]);
    assert_eq!(last["type"], "Result");
    assert_eq!((&last["session_id"], &last["exit_code"]), (&first["id"], &Value::from(0)));
    assert_eq!(last["turn"]["reason"], "end_turn");

    let listed = home.json(&["ls", "--json"]);
    assert_eq!(listed["sessions"][0]["id"], first["id"]);
    let shown = home.json(&["show", home.newest().as_str(), "--json"]);
    assert_eq!(shown["transcript"]["rows"][0]["kind"], "User");
    assert_eq!(shown["state"]["turn"]["active"], false);
    let page = home.json(&["replay", home.newest().as_str(), "--limit", "2", "--json"]);
    assert_eq!(page["events"].as_array().map(Vec::len), Some(2));
    assert!(page["next"].is_u64());
    assert!(home.json(&["agent", "ls", "--json"])["agents"].is_array());
}

#[test]
fn a_session_lives_from_command_to_command() {
    let home = Home::with_daemon();
    home.run(&["run", "hello", "--agent", "demo", "--title", "first", "--detach"]).check(0, "", "prompted ");
    let id = home.newest();
    let short = &id[..8];
    home.run(&["ls"]).check(0, "first", "");
    home.run(&["rename", short, "second"]).check(0, "", &format!("renamed {id}"));
    home.wait_for(|home| home.json(&["ls", "--json"])["sessions"][0]["activity"] == "Active");
    home.run(&["prompt", short, "think"]).check(0, "(thinking) ", "the session stays");
    home.run(&["show", short]).check(0, "title      second", "");
    home.run(&["show", short]).check(0, "› think", "");
    home.run(&["replay", short, "--since", "0", "--limit", "500"]).check(0, "+ user:", "end of the log");
    home.run(&["cancel", short]).check(0, "", "no turn is active any more in");
    home.run(&["approve", short]).check(1, "", "error: nothing waits for an answer");
    home.run(&["kill", short]).check(0, "", &format!("killed {id}"));
    home.run(&["show", short]).check(0, "status     dead (killed)", "bring it back with: maestro restart");
    home.run(&["prompt", short, "hello"]).check(1, "", "error: ");
    home.run(&["restart", short]).check(0, "", &format!("restarted {id}"));
    home.run(&["restart", short]).check(1, "", "error: ");
    home.run(&["prompt", short, "hello"]).check(0, "", "the session stays");
    home.run(&["show", "ffff0000"]).check(1, "", "no session's id starts with `ffff0000`");
    home.run(&["show", "ff"]).check(1, "", "too short");
}

#[test]
fn an_approval_is_answered_from_another_terminal() {
    let home = Home::with_daemon();
    let run = home.start(&["run", "run", "--agent", "demo"], Stdio::null());
    run.wait_for_stderr("answer it with one of:\n");
    let question = run.stderr();
    assert!(question.contains("    command: \"seq 3\"\n"), "{question}");
    let id = home.newest();
    home.run(&["show", &id]).check(0, "answer it with one of:", "");
    home.run(&["approve", &id, "--request", "garbage"]).check(1, "", "has no request `garbage`\n");
    home.run(&["approve", &id, "--option", "none"]).check(
        1,
        "",
        "hint: `maestro show <id>` lists the options",
    );
    home.run(&["deny", &id]).check(0, "", "denied (\"Reject\") by owner@localhost with cli");
    run.end().check(0, "? permission for Count to three: denied", "the session stays");
    let shown = home.json(&["show", &id, "--json"]);
    let rows = shown["transcript"]["rows"].as_array().expect("rows");
    let request = rows.iter().find(|row| row["kind"] == "Approval").and_then(|row| row["id"].as_str());
    home.run(&["approve", &id, "--request", request.expect("a request")]).check(
        1,
        "",
        "that request is settled",
    );
}

#[test]
fn an_approval_is_answered_at_the_terminal() {
    let home = Home::with_daemon();
    let (mut keyboard, terminal) = pseudo_terminal();
    let run = home.start(&["run", "run", "--agent", "demo"], terminal.into());
    // Typed before the question: it must not answer it.
    keyboard.write_all(b"a\n").expect("typed");
    run.wait_for_stderr("an option's number: ");
    keyboard.write_all(b"x\n").expect("typed");
    run.wait_for_stderr("that is none of the keys\n");
    assert_eq!(home.json(&["ls", "--json"])["sessions"][0]["activity"], "Waiting");
    keyboard.write_all(b"a\n").expect("typed");
    run.end().check(0, "? permission for Count to three: allowed once", "the session stays");
}

#[test]
fn a_question_that_is_settled_elsewhere_is_withdrawn() {
    let home = Home::with_daemon();
    let (_keyboard, terminal) = pseudo_terminal();
    let run = home.start(&["run", "run", "--agent", "demo"], terminal.into());
    run.wait_for_stderr("an option's number: ");
    home.run(&["approve", &home.newest(), "--session"]).check(0, "", "allowed from now on");
    run.end().check(0, "allowed from now on", "(this needs no answer any more)\n");
}

#[test]
fn ctrl_c_cancels_the_turn() {
    let home = Home::with_daemon();
    let run = home.start(&["run", "slow", "--agent", "demo"], Stdio::null());
    run.wait_for_stdout("1 2 3");
    run.signal(Signal::INT);
    run.end().check(11, "I count to forty", "turn ended: cancelled\n");
}

#[test]
fn a_killed_session_ends_its_run() {
    let home = Home::with_daemon();
    let run = home.start(&["run", "slow", "--agent", "demo"], Stdio::null());
    run.wait_for_stdout("1 2 3");
    home.run(&["kill", &home.newest()]).check(0, "", "killed");
    let ended = run.end();
    // The turn's end and the session's death come together: either may be seen first.
    assert!([11, 13].contains(&ended.code), "{ended:?}");
}

#[test]
fn one_daemon_per_data_directory() {
    let home = Home::with_daemon();
    home.run(&["serve"]).check(75, "", "error: another daemon has the data directory\n");
    let elsewhere = Home::without_daemon();
    elsewhere.run(&["ls", "--no-start"]).check(3, "", "error: no daemon answers at");
    assert!(!elsewhere.data().exists(), "a command that may not start a daemon leaves nothing behind");
}

#[test]
fn a_command_starts_the_daemon_that_it_needs() {
    let home = Home::without_daemon();
    home.run(&["ls"]).check(0, "", "started a daemon for");
    let announced: Value =
        serde_json::from_slice(&fs::read(home.data().join("run/daemon.json")).expect("announced"))
            .expect("JSON");
    let pid = i32::try_from(announced["pid"].as_i64().expect("a pid")).ok().and_then(Pid::from_raw);
    let log = fs::metadata(home.data().join("run/daemon.log")).expect("a log");
    let second = home.run(&["ls"]);
    // First of all the daemon is ended, so that a failure below leaves none behind.
    kill_process(pid.expect("a pid"), Signal::TERM).expect("ended");
    home.wait_for(|home| !home.data().join("run/daemon.json").exists());
    assert_eq!(log.permissions().mode() & 0o777, 0o600);
    assert!(!second.stderr.contains("started a daemon"), "{second:?}");
}

#[test]
fn a_program_of_an_agent_starts_no_daemon() {
    let home = Home::without_daemon();
    let id = "8f14e45f-ceea-467f-a8f3-1d6d0e3b2c11";
    let marker = [(maestro_process::SESSION_VARIABLE, id), (maestro_process::SPAWN_VARIABLE, id)];
    home.run_with(&["ls"], &marker).check(3, "", "a program that an agent started may not start one");
    assert!(!home.data().exists());
}

#[test]
fn a_daemon_that_cannot_start_shows_its_log() {
    let home = Home::without_daemon();
    fs::create_dir(home.data()).expect("made");
    fs::write(home.data().join("config.toml"), "[agents.new]\nargs = []\n").expect("written");
    home.run(&["ls"]).check(3, "", "no built-in agent has this key");
}
