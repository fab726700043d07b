//! The program as a client meets it: over pipes.
#![expect(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

use maestro_testkit::{Descent, Record, Script, Steps, is_gone, live_processes_with, wait_until_blocking};
use serde_json::{Value, json};
use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    os::unix::process::ExitStatusExt as _,
    process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
    time::Duration,
};
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(30);

/// A client that says what a test says, and its agent.
struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    marker: String,
    directory: TempDir,
    next_id: u64,
}

impl Client {
    fn of(script: &Script) -> Self {
        let directory = tempfile::tempdir().unwrap();
        script.write_to(&directory.path().join("script")).unwrap();
        Self::in_place(directory)
    }

    fn in_place(directory: TempDir) -> Self {
        let marker = format!("MAESTRO_TESTKIT_PLACE={}", directory.path().display());
        let (name, value) = marker.split_once('=').unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_maestro-scripted-agent"))
            .arg(directory.path().join("script"))
            .env(name, value)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdin, stdout, marker, directory, next_id: 0 }
    }

    /// The next process of the same script.
    fn again(self) -> Self {
        Self::in_place(self.end().1)
    }

    fn record(&self) -> Record {
        Record::of_script(&self.directory.path().join("script"))
    }

    fn write(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        writeln!(stdin, "{line}").unwrap();
    }

    /// Sends a request and returns its id.
    fn call(&mut self, method: &str, params: &Value) -> u64 {
        self.next_id += 1;
        let id = self.next_id;
        self.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
        id
    }

    /// The bytes of the next line, newline included; empty at the end.
    fn bytes(&mut self) -> Vec<u8> {
        let mut line = Vec::new();
        self.stdout.read_until(b'\n', &mut line).unwrap();
        line
    }

    fn message(&mut self) -> Value {
        let bytes = self.bytes();
        serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("{error} in {bytes:?}"))
    }

    /// The text of the next update.
    fn text(&mut self) -> String {
        let message = self.message();
        message["params"]["update"]["content"]["text"]
            .as_str()
            .unwrap_or_else(|| panic!("{message}"))
            .to_owned()
    }

    fn open(mut self) -> Self {
        let id = self.call("initialize", &json!({"protocolVersion": 1}));
        let answer = self.message();
        assert_eq!(
            (&answer["id"], &answer["result"]["agentCapabilities"]["loadSession"]),
            (&json!(id), &json!(true))
        );
        let id = self.call("session/new", &json!({"cwd": "/", "mcpServers": []}));
        assert_eq!(self.message(), json!({"jsonrpc": "2.0", "id": id, "result": {"sessionId": "s-1"}}));
        self
    }

    fn prompt(&mut self) -> u64 {
        self.call("session/prompt", &json!({"sessionId": "s-1", "prompt": [{"type": "text", "text": "go"}]}))
    }

    /// Asserts that the prompt ends next, with this reason.
    #[track_caller]
    fn expect_end(&mut self, id: u64, reason: &str) {
        assert_eq!(self.message(), json!({"jsonrpc": "2.0", "id": id, "result": {"stopReason": reason}}));
    }

    /// Closes stdin and waits for the end.
    fn end(mut self) -> (ExitStatus, TempDir) {
        self.stdin = None;
        let mut status = None;
        let ended = wait_until_blocking(LIMIT, "the end of the agent", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        if ended.is_err() {
            self.child.kill().unwrap();
        }
        ended.unwrap();
        (status.unwrap(), self.directory)
    }
}

fn script() -> Script {
    Script::new().initialize().new_session("s-1")
}

/// A client whose agent plays `turn` for its first prompt, which has been sent; and the id of the prompt.
fn in_turn(turn: impl FnOnce(Steps) -> Steps) -> (Client, u64) {
    let mut client = Client::of(&script().on_prompt(turn)).open();
    let id = client.prompt();
    (client, id)
}

#[test]
fn a_turn_streams_and_ends_and_the_next_prompt_is_refused() {
    let (mut client, id) = in_turn(|turn| turn.chunk("hello from {{session}} in {{cwd}}").end_turn());
    assert_eq!(client.text(), "hello from s-1 in /");
    client.expect_end(id, "end_turn");
    client.prompt();
    assert_eq!(client.message()["error"]["code"], -32601);
    assert_eq!(client.record().calls("session/prompt").len(), 2);
    let record = client.record();
    let (status, _directory) = client.end();
    assert_eq!((status.code(), record.inputs_closed()), (Some(0), 1));
}

#[test]
fn requests_that_a_script_does_not_expect_are_answered() {
    let (mut client, _) = in_turn(|turn| turn.await_cancel().stop("cancelled"));
    client.call("session/set_mode", &json!({"sessionId": "s-1", "modeId": "ask"}));
    assert_eq!(client.message()["result"], json!({}));
    client.call("no/such", &json!({}));
    assert_eq!(client.message()["error"]["code"], -32601);
    client.write("{broken");
    client.write(r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s-1"}}"#);
    client.expect_end(1 + 2, "cancelled");
    assert_eq!(client.record().received().iter().filter(|received| received.line == "{broken").count(), 1);
}

#[test]
fn a_cancel_of_an_older_turn_does_not_end_the_next() {
    let script = script()
        .on_prompt(Steps::end_turn)
        .on_prompt(|turn| turn.note("second").await_cancel().stop("cancelled"));
    let mut client = Client::of(&script).open();
    let first = client.prompt();
    client.expect_end(first, "end_turn");
    let cancel = r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s-1"}}"#;
    client.write(cancel);
    let second = client.prompt();
    client.record().wait_for_note(LIMIT, "second").unwrap();
    let probe = client.call("session/set_mode", &json!({}));
    assert_eq!(client.message()["id"], probe, "the turn goes on");
    client.write(cancel);
    client.expect_end(second, "cancelled");
}

#[test]
fn permissions_branch_and_are_told() {
    let (mut client, id) = in_turn(|turn| {
        turn.permission("p-1", "t-1", "ls")
            .permission(2, "t-1", "rm")
            .withdraw(2)
            .await_answer(2)
            .await_answer("p-1")
            .chunk("{{outcome:p-1}} {{outcome:2}}")
            .when("p-1", "allow-once", |yes| yes.tool_status("t-1", "completed"), |no| no)
            .when(2, "allow-once", |yes| yes.exit(1), Steps::end_turn)
    });
    let asked = [client.message(), client.message()];
    assert_eq!((&asked[0]["id"], &asked[1]["id"]), (&json!("p-1"), &json!(2)));
    assert_eq!(asked[1]["params"]["toolCall"]["rawInput"]["command"], "rm");
    assert_eq!(client.message()["params"], json!({"requestId": 2}));
    client.write(
        r#"{"jsonrpc":"2.0","id":"p-1","result":{"outcome":{"outcome":"selected","optionId":"allow-once"}}}"#,
    );
    client.write(r#"{"jsonrpc":"2.0","id":2,"result":{"outcome":{"outcome":"cancelled"}}}"#);
    assert_eq!(client.text(), "allow-once cancelled");
    assert_eq!(client.message()["params"]["update"]["status"], "completed");
    client.expect_end(id, "end_turn");
    assert_eq!(client.record().answers("p-1").len(), 1);
}

#[test]
fn the_next_process_plays_the_next_part() {
    let script = script()
        .on_prompt(|turn| turn.chunk("one").end_turn())
        .next_process()
        .initialize()
        .load_session(|replay| replay.chunk("old of {{session}}, process {{process}}"))
        .on_every_prompt(|turn| turn.chunk("again").end_turn());
    let mut client = Client::of(&script).open().again();
    client.call("initialize", &json!({}));
    client.message();
    let id = client.call("session/load", &json!({"sessionId": "s-9", "cwd": "/", "mcpServers": []}));
    assert_eq!(client.text(), "old of s-9, process 2");
    assert_eq!(client.message(), json!({"jsonrpc": "2.0", "id": id, "result": {}}));
    for _ in 0..3 {
        let id = client.prompt();
        assert_eq!(client.text(), "again");
        client.expect_end(id, "end_turn");
    }
    assert_eq!(client.record().processes().len(), 2);
}

#[test]
fn bad_bytes_are_written_as_they_are() {
    let (mut client, id) = in_turn(|turn| {
        turn.invalid_utf8()
            .nul()
            .lone_surrogate()
            .byte_order_mark()
            .nested(100_000)
            .long_line(2)
            .wrong_shapes()
            .unknown_request("u")
            .stray_answer()
            .end_turn()
            .end_turn()
            .chunk("after the answer")
    });
    let mut check = |what: &str, test: &dyn Fn(&[u8]) -> bool| {
        let line = client.bytes();
        assert!(test(&line), "{what}: {:?}", String::from_utf8_lossy(&line[..line.len().min(300)]));
    };
    let holds = |line: &[u8], part: &[u8]| line.windows(part.len()).any(|window| window == part);
    check("invalid UTF-8", &|line| holds(line, b"a\xff\xfe\xc3(b") && std::str::from_utf8(line).is_err());
    check("NUL", &|line| holds(line, b"a\0b"));
    check("surrogate", &|line| holds(line, br#""a\ud800b""#));
    check("mark", &|line| {
        line.starts_with(b"\xef\xbb\xbf{") && serde_json::from_slice::<Value>(&line[3..]).is_ok()
    });
    check("depth", &|line| maestro_protocol::json::depth(line) == 100_003 && line.ends_with(b"]}}}\n"));
    check("length", &|line| line.len() == 2 * 1024 * 1024 + 3);
    for shape in ["null", "17", "[]", "{}"] {
        check(shape, &|line| line == format!("{shape}\n").as_bytes());
    }
    check("number as method", &|line| holds(line, b"5"));
    check("no params", &|line| !holds(line, b"params"));
    check("unknown request", &|line| holds(line, b"no/such_method"));
    check("stray answer", &|line| holds(line, b"987654321"));
    client.expect_end(id, "end_turn");
    client.expect_end(id, "end_turn");
    assert_eq!(client.text(), "after the answer");
}

#[test]
fn a_partial_line_and_an_exit_status() {
    let (mut client, _) = in_turn(|turn| turn.partial_line().exit(7));
    let mut rest = String::new();
    client.stdout.read_to_string(&mut rest).unwrap();
    assert!(rest.starts_with('{') && !rest.ends_with('\n'), "{rest}");
    assert_eq!(client.end().0.code(), Some(7));
}

#[test]
fn death_by_a_signal() {
    let (client, _) = in_turn(|turn| turn.die(9));
    assert_eq!(client.end().0.signal(), Some(9));
}

#[test]
fn floods_are_as_long_as_they_are_said_to_be() {
    let (mut client, id) = in_turn(|turn| turn.flood_stderr(1).flood_stdout(3).end_turn());
    let mut stderr = client.child.stderr.take().unwrap();
    let drained = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        stderr.read_to_end(&mut bytes).unwrap();
        bytes.len()
    });
    for _ in 0..3 * 1024 {
        assert_eq!(client.text().len(), 1024);
    }
    client.expect_end(id, "end_turn");
    assert_eq!(client.end().0.code(), Some(0));
    assert_eq!(drained.join().unwrap(), 1024 * 1024);
}

#[test]
fn a_closed_stdout_ends_the_stream_and_not_the_agent() {
    let (mut client, _) = in_turn(|turn| turn.close_stdout().note("closed").hang());
    assert!(client.bytes().is_empty());
    client.record().wait_for_note(LIMIT, "closed").unwrap();
    assert!(client.child.try_wait().unwrap().is_none());
    assert_eq!(client.end().0.code(), Some(0));
}

#[test]
fn signals_can_be_ignored() {
    let (mut client, id) = in_turn(|turn| turn.ignore_signals().note("deaf").await_cancel().end_turn());
    client.record().wait_for_note(LIMIT, "deaf").unwrap();
    let pid = rustix::process::Pid::from_child(&client.child);
    for signal in [rustix::process::Signal::TERM, rustix::process::Signal::INT] {
        rustix::process::kill_process(pid, signal).unwrap();
    }
    client.write(r#"{"jsonrpc":"2.0","method":"session/cancel","params":{}}"#);
    client.expect_end(id, "end_turn");
}

#[test]
fn reading_stops_and_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let go = directory.path().join("go");
    let (mut client, id) = in_turn(|turn| {
        turn.stop_reading()
            .note("stopped")
            .await_file(&go)
            .step(maestro_testkit::Step::ResumeReading)
            .end_turn()
    });
    client.record().wait_for_note(LIMIT, "stopped").unwrap();
    let mut stdin = client.stdin.take().unwrap();
    // More than a pipe and one read hold: the write can only end when the agent reads on.
    let big = format!("\"{}\"\n", "x".repeat(1024 * 1024));
    let writer = std::thread::spawn(move || {
        stdin.write_all(big.as_bytes()).unwrap();
        stdin
    });
    assert!(!client.record().received().iter().any(|received| received.line.len() > 1024));
    assert!(!writer.is_finished());
    std::fs::write(&go, "").unwrap();
    client.stdin = Some(writer.join().unwrap());
    client.expect_end(id, "end_turn");
    let record = client.record();
    wait_until_blocking(LIMIT, "the long line", || {
        record.received().iter().any(|received| received.line.len() == 1024 * 1024 + 2)
    })
    .unwrap();
}

#[test]
fn what_is_left_behind_outlives_the_agent_and_holds_its_stdout() {
    let far = Descent { setsid: true, double_fork: true, ignore_signals: true, hold_stdout: true };
    let near = Descent { setsid: true, ..Descent::default() };
    let (mut client, _) = in_turn(|turn| turn.descend(far).descend(near).exit(0));
    wait_until_blocking(LIMIT, "the exit", || client.child.try_wait().unwrap().is_some()).unwrap();
    let left: Vec<u32> = client.record().descendants().iter().map(|descendant| descendant.pid).collect();
    assert_eq!(left.len(), 2);
    let mut alive = live_processes_with(&client.marker);
    alive.sort_unstable();
    let mut expect = left.clone();
    expect.sort_unstable();
    assert_eq!(alive, expect);
    let kill = |pid: u32, signal| {
        let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    };
    kill(left[1], rustix::process::Signal::TERM);
    wait_until_blocking(LIMIT, "the end of the near one", || is_gone(left[1])).unwrap();
    kill(left[0], rustix::process::Signal::TERM);
    let (sender, closed) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || sender.send(client.bytes()).unwrap());
    assert!(
        closed.try_recv().is_err() && !is_gone(left[0]),
        "the far one ignores SIGTERM and keeps stdout open"
    );
    kill(left[0], rustix::process::Signal::KILL);
    assert!(closed.recv_timeout(LIMIT).unwrap().is_empty());
    reader.join().unwrap();
}

#[test]
fn an_inspection_tells_what_the_process_was_given() {
    let (mut client, id) = in_turn(|turn| turn.inspect().end_turn());
    client.expect_end(id, "end_turn");
    let inspection = client.record().inspections().remove(0);
    assert_eq!(inspection.pid, client.child.id());
    assert_eq!(inspection.parent, std::process::id());
    let (name, value) = client.marker.split_once('=').unwrap();
    assert_eq!(inspection.environment[name], value);
    let numbers: Vec<u32> = inspection.descriptors.iter().map(|(number, _)| *number).collect();
    assert!(numbers.starts_with(&[0, 1, 2]), "{inspection:?}");
    assert!(inspection.descriptors[0].1.starts_with("pipe:"), "{inspection:?}");
    assert!(
        inspection.umask.starts_with('0') && inspection.open_files.parse::<u64>().is_ok(),
        "{inspection:?}"
    );
}

#[test]
fn a_script_that_cannot_be_played_says_so() {
    let (mut client, _) = in_turn(|turn| turn.reply("nobody", json!({})));
    let mut stderr = String::new();
    client.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert!(stderr.contains("no call was remembered as nobody"), "{stderr}");
    assert_eq!(client.end().0.code(), Some(98));
}
