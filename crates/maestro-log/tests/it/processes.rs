//! Other processes: this test binary runs itself with a role.

use crate::store::{append, log_dir, open, session_id, wait};
use maestro_log::{AppendError, DataDir, LockError};
use std::{
    env,
    fmt::Display,
    fs,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
};

const ROLE: &str = "LOG_TEST_ROLE";
const DIR: &str = "LOG_TEST_DIR";
/// Begins the lines that a child tells its parent; the test harness prints lines of its own.
const MARK: &str = "@ ";

/// Not a test of its own: what a child does.
#[test]
fn child() {
    let (Ok(role), Ok(dir)) = (env::var(ROLE), env::var(DIR)) else { return };
    let dir = Path::new(&dir);
    match role.as_str() {
        "hold" => hold(dir),
        "append" => append_until_killed(dir),
        "limit" => append_to_a_limit(dir),
        "fill" => fill_the_disk(dir),
        other => panic!("no role {other}"),
    }
}

/// A command that runs this binary in a role, below a shell script that ends in `exec "$@"`.
fn in_role(role: &str, dir: &Path, program: &[&str], script: &str) -> Command {
    let mut command = Command::new(program[0]);
    command.args(&program[1..]).args(["sh", "-c", script, "sh"]).arg(env::current_exe().unwrap());
    command.args(["--exact", "processes::child", "--nocapture"]).env(ROLE, role).env(DIR, dir);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

struct Running {
    child: Child,
    told: BufReader<ChildStdout>,
}

impl Running {
    fn start(role: &str, dir: &Path) -> Self {
        let mut child = in_role(role, dir, &["env"], "exec \"$@\"").spawn().unwrap();
        let told = BufReader::new(child.stdout.take().unwrap());
        Self { child, told }
    }

    /// The next thing that the child tells; `None` when it is gone.
    fn next(&mut self) -> Option<String> {
        let mut line = String::new();
        while self.told.read_line(&mut line).unwrap() > 0 {
            if let Some((_, told)) = line.split_once(MARK)
                && line.ends_with('\n')
            {
                return Some(told.trim_end().to_owned());
            }
            line.clear();
        }
        None
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It is dead already unless its test has failed.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Tells the parent something.
fn tell(what: impl Display) {
    let mut parent = io::stdout().lock();
    writeln!(parent, "{MARK}{what}").unwrap();
}

fn told(output: &std::process::Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    text.split_once(MARK).and_then(|(_, told)| told.lines().next()).unwrap_or_default().to_owned()
}

fn hold(dir: &Path) {
    let lock = DataDir::open(dir).unwrap().lock().unwrap();
    tell(std::process::id());
    io::stdin().read_to_end(&mut Vec::new()).unwrap();
    drop(lock);
}

#[test]
fn a_lock_is_held_by_one_process_and_free_when_that_is_killed() {
    let temp = tempfile::tempdir().unwrap();
    let dir = DataDir::open(temp.path()).unwrap();
    for _ in 0..3 {
        let mut holder = Running::start("hold", temp.path());
        let pid: u32 = holder.next().unwrap().parse().unwrap();
        let Err(LockError::Held { pid: Some(held_by), .. }) = dir.lock() else { panic!("it was free") };
        assert_eq!(held_by, pid);
        holder.kill();
        drop(dir.lock().unwrap());
    }
}

/// No test waits for so many lines: the end of a writer that nobody kills.
const MANY: u64 = 20_000;

fn killed_line(cursor: u64) -> Vec<u8> {
    format!("{cursor}:{}", "z".repeat(usize::try_from(cursor * 7919 % 90_000).unwrap())).into_bytes()
}

fn append_until_killed(dir: &Path) {
    let mut log = open(&log_dir(dir), session_id()).log;
    while log.cursor() < MANY {
        let next = log.cursor() + 1;
        let cursor = append(&mut log, &killed_line(next));
        if cursor.is_multiple_of(3) {
            wait(log.flush()).unwrap();
            tell(cursor);
        }
    }
}

#[test]
fn a_killed_writer_loses_nothing_that_was_answered() {
    let temp = tempfile::tempdir().unwrap();
    let dir = log_dir(temp.path());
    drop(dir.create_log(session_id()).unwrap());
    let mut torn_before = Vec::new();
    for round in 0..25 {
        let mut writer = Running::start("append", temp.path());
        let mut answered = 0;
        for _ in 0..=round {
            answered = writer.next().unwrap().parse().unwrap();
        }
        writer.kill();
        while let Some(told) = writer.next() {
            answered = told.parse().unwrap();
        }
        let opened = open(&dir, session_id());
        assert!(opened.report.lines >= answered, "round {round}");
        assert!(opened.report.damaged.is_empty(), "round {round}");
        if opened.report.torn {
            assert!(opened.report.lines > answered, "round {round}");
            torn_before.push(opened.report.lines);
        }
        for (cursor, line) in (1..).zip(&opened.lines) {
            let expected = killed_line(cursor);
            if torn_before.contains(&cursor) {
                assert!(expected.starts_with(line), "round {round} line {cursor}");
            } else {
                assert_eq!(*line, expected, "round {round} line {cursor}");
            }
        }
    }
}

fn append_to_a_limit(dir: &Path) {
    let mut log = log_dir(dir).create_log(session_id()).unwrap();
    let error = loop {
        let line = vec![b'l'; 777];
        if let Err(error) = log.append(&line) {
            break error;
        }
    };
    assert!(matches!(error, AppendError::Io { .. }), "{error:?}");
    tell(log.append(b"f").unwrap());
}

#[test]
fn a_write_that_a_limit_cuts_short_is_undone() {
    let temp = tempfile::tempdir().unwrap();
    let script = "trap '' XFSZ; ulimit -f 20; exec \"$@\"";
    let output = in_role("limit", temp.path(), &["env"], script).output().unwrap();
    let lines: u64 = told(&output).parse().unwrap();
    let mut opened = open(&log_dir(temp.path()), session_id());
    assert!(!opened.report.torn);
    assert_eq!((opened.report.lines, opened.lines.len() as u64), (lines, lines));
    assert_eq!(opened.lines.pop().unwrap(), b"f");
    assert!(opened.lines.iter().all(|line| *line == [b'l'; 777]));
    assert!(opened.lines.len() > 5);
    assert_eq!(append(&mut opened.log, b"next"), lines + 1);
}

/// In a file system of 64 KiB.
fn fill_the_disk(dir: &Path) {
    let ballast = dir.join("ballast");
    fs::write(&ballast, [0; 16 * 1024]).unwrap();
    let mut log = log_dir(dir).create_log(session_id()).unwrap();
    let line = |cursor: u64| format!("{cursor}:{}", "d".repeat(1500)).into_bytes();
    let fill = |log: &mut maestro_log::SessionLog| loop {
        match log.append(&line(log.cursor() + 1)) {
            Ok(_) => wait(log.flush()).unwrap(),
            Err(AppendError::Full { .. }) => return log.cursor(),
            Err(other) => panic!("{other:?}"),
        }
    };
    let first = fill(&mut log);
    assert_eq!(fill(&mut log), first, "still full");
    assert_eq!(log.reader().lines().count() as u64, first, "reads go on");
    fs::remove_file(ballast).unwrap();
    let second = fill(&mut log);
    assert!(second >= first + 5, "it went on when there was space");
    let read: Vec<_> = log.reader().lines().map(Result::unwrap).collect();
    assert_eq!(read, (1..=second).map(line).collect::<Vec<_>>());
    drop(log);
    let opened = open(&log_dir(dir), session_id());
    assert_eq!((opened.lines, opened.report.torn), (read, false));
    tell("filled");
}

#[test]
fn a_full_disk_is_survived() {
    let temp = tempfile::tempdir().unwrap();
    let own_mounts = if rustix::process::geteuid().is_root() {
        &["unshare", "--mount"][..]
    } else {
        &["unshare", "--mount", "--map-root-user"][..]
    };
    let mount = format!("mount -t tmpfs -o size=64k none \"${DIR}\"");
    let probe = in_role("none", temp.path(), own_mounts, &mount).stderr(Stdio::null()).status();
    if !probe.is_ok_and(|status| status.success()) {
        let mut reader = io::stderr().lock();
        writeln!(reader, "skipped: no process may mount a file system of its own here").unwrap();
        return;
    }
    let output =
        in_role("fill", temp.path(), own_mounts, &format!("{mount} && exec \"$@\"")).output().unwrap();
    assert_eq!(told(&output), "filled");
}
