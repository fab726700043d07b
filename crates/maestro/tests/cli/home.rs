//! A person's home in a temporary directory: commands run in it with an environment of their own.

use rustix::{
    process::{Pid, Signal, kill_process},
    pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt},
};
use serde_json::Value;
use std::{
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// How long anything in a test may take.
const LIMIT: Duration = Duration::from_mins(1);

pub(crate) struct Home {
    dir: TempDir,
    daemon: Option<Child>,
}

/// How a command ended.
#[derive(Debug)]
#[must_use = "check the exit code and what was printed"]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// Expects this exit code, and these texts somewhere on the two streams.
    #[track_caller]
    pub(crate) fn check(&self, code: i32, stdout: &str, stderr: &str) {
        let found = self.code == code && self.stdout.contains(stdout) && self.stderr.contains(stderr);
        assert!(found, "expected {code}, {stdout:?}, {stderr:?}: {self:#?}");
    }
}

impl Home {
    pub(crate) fn without_daemon() -> Self {
        Self { dir: tempfile::tempdir().expect("a directory"), daemon: None }
    }

    pub(crate) fn with_daemon() -> Self {
        let mut home = Self::without_daemon();
        home.start_daemon();
        home
    }

    /// A home whose daemon has this `config.toml`.
    pub(crate) fn with_config(text: &str) -> Self {
        let mut home = Self::without_daemon();
        home.configure(text);
        home.start_daemon();
        home
    }

    pub(crate) fn configure(&self, text: &str) {
        std::fs::create_dir_all(self.data()).expect("made");
        std::fs::write(self.data().join("config.toml"), text).expect("written");
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn start_daemon(&mut self) {
        let home = self;
        let log = File::create(home.dir.path().join("serve.log")).expect("a log");
        let out = home.dir.path().join("serve.out");
        let mut command = home.command(&["serve"]);
        command.stdin(Stdio::null()).stdout(File::create(&out).expect("a file")).stderr(log);
        home.daemon = Some(command.spawn().expect("started"));
        let ready = format!("maestro is ready: unix:{}\n", home.data().join("run/daemon.sock").display());
        home.wait_for(|_| std::fs::read_to_string(&out).is_ok_and(|text| text == ready));
    }

    /// Ends the daemon, which must shut down well.
    pub(crate) fn stop_daemon(&mut self) {
        let Some(mut daemon) = self.daemon.take() else { return };
        let pid = Pid::from_child(&daemon);
        let ended = kill_process(pid, Signal::TERM).map_err(Into::into).and_then(|()| daemon.wait());
        assert!(
            ended.is_ok_and(|status| status.success()) || thread::panicking(),
            "the daemon shuts down well"
        );
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_maestro"));
        let path = self.dir.path();
        command.args(args).current_dir(path).env_clear();
        command.env("HOME", path).env("DATA_PATH", self.data()).env("PATH", "/usr/bin:/bin");
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ended {
        self.run_with(args, &[])
    }

    pub(crate) fn run_with(&self, args: &[&str], environment: &[(&str, &str)]) -> Ended {
        let mut command = self.command(args);
        command.envs(environment.iter().copied());
        Running::start(command, Stdio::null()).end()
    }

    pub(crate) fn start(&self, args: &[&str], stdin: Stdio) -> Running {
        Running::start(self.command(args), stdin)
    }

    #[track_caller]
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let ended = self.run(args);
        assert_eq!(ended.code, 0, "{args:?}: {ended:?}");
        let lines = json_lines(&ended.stdout);
        assert_eq!(lines.len(), 1, "{args:?}");
        lines.into_iter().next().unwrap_or_default()
    }

    /// The id of the newest session.
    #[track_caller]
    pub(crate) fn newest(&self) -> String {
        let listed = self.json(&["ls", "--json"]);
        listed["sessions"][0]["id"].as_str().expect("a session").to_owned()
    }

    #[track_caller]
    pub(crate) fn wait_for(&self, holds: impl Fn(&Self) -> bool) {
        wait_for(|| holds(self), || "the condition did not hold in time".to_owned());
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        self.stop_daemon();
    }
}

/// A command that has been started. Its streams go to files, which can be read while it runs.
pub(crate) struct Running {
    child: Child,
    dir: TempDir,
}

impl Running {
    fn start(mut command: Command, stdin: Stdio) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let file = |name| File::create(dir.path().join(name)).expect("a file");
        command.stdin(stdin).stdout(file("out")).stderr(file("err"));
        Self { child: command.spawn().expect("started"), dir }
    }

    fn text(&self, name: &str) -> String {
        let mut bytes = Vec::new();
        let file = File::open(self.dir.path().join(name)).expect("a file");
        file.take(1 << 24).read_to_end(&mut bytes).expect("read");
        String::from_utf8_lossy(&bytes).into_owned()
    }

    pub(crate) fn stderr(&self) -> String {
        self.text("err")
    }

    #[track_caller]
    pub(crate) fn wait_for_stdout(&self, words: &str) {
        wait_for(
            || self.text("out").contains(words),
            || format!("{words:?} is not in {:?}", self.text("out")),
        );
    }

    #[track_caller]
    pub(crate) fn wait_for_stderr(&self, words: &str) {
        wait_for(
            || self.text("err").contains(words),
            || format!("{words:?} is not in {:?}", self.text("err")),
        );
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("signalled");
    }

    #[track_caller]
    pub(crate) fn end(mut self) -> Ended {
        let deadline = Instant::now() + LIMIT;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("waited for") {
                break status;
            }
            if Instant::now() > deadline {
                self.child.kill().expect("killed");
                panic!("the command does not end: {:?} {:?}", self.text("out"), self.text("err"));
            }
            thread::sleep(Duration::from_millis(5));
        };
        Ended { code: status.code().unwrap_or(-1), stdout: self.text("out"), stderr: self.text("err") }
    }
}

/// A terminal: the end that types, and the end that a command has for its standard input.
pub(crate) fn pseudo_terminal() -> (File, File) {
    let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&keyboard).expect("granted");
    unlockpt(&keyboard).expect("unlocked");
    let terminal = ioctl_tiocgptpeer(&keyboard, OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("opened");
    (keyboard.into(), terminal.into())
}

pub(crate) fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

#[track_caller]
fn wait_for(holds: impl Fn() -> bool, failed: impl Fn() -> String) {
    let deadline = Instant::now() + LIMIT;
    while !holds() {
        assert!(Instant::now() < deadline, "{}", failed());
        thread::sleep(Duration::from_millis(5));
    }
}
