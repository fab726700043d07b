//! The real daemon, in a temporary place of its own.

use crate::{
    door::Door,
    processes::live_processes_with,
    program::{self, ProgramError},
    record::Record,
    script::Script,
    wait::wait_until_blocking,
};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};
use tempfile::TempDir;
use thiserror::Error;

/// How long a daemon may take until it is ready. It has little to do, on a machine that may have much to do.
const READY_LIMIT: Duration = Duration::from_secs(30);
/// How long a daemon may take to end after a signal: above the sum of its own graces.
const END_LIMIT: Duration = Duration::from_secs(30);
/// How long the processes of a daemon that was killed may live on: above the grace that their guards give them.
const LEFT_LIMIT: Duration = Duration::from_secs(5);
const READY: &str = "maestro is ready: ";

/// Why there is no daemon.
#[derive(Debug, Error)]
pub enum StartError {
    /// The temporary place could not be made.
    #[error("the place for the daemon could not be made")]
    Place(#[source] io::Error),
    /// There is no scripted agent.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The configuration could not be written as TOML.
    #[error("the configuration cannot be written")]
    Configuration(#[source] toml::ser::Error),
    /// The program could not be started.
    #[error("{} could not be started", program.display())]
    Spawn {
        /// The program.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It ended, or did not get ready in time.
    #[error("the daemon is not ready ({reason}); its output:\n{log}")]
    NotReady {
        /// `ended with …`, or how long was waited.
        reason: String,
        /// What it printed.
        log: String,
    },
}

/// A daemon to be.
#[derive(Debug)]
pub struct DaemonBuilder {
    program: PathBuf,
    scripts: BTreeMap<String, Script>,
    agents: toml::Table,
    settings: toml::Table,
    environment: BTreeMap<String, String>,
    below: Vec<String>,
}

impl DaemonBuilder {
    /// An agent under this key that plays `script`. Its record is [`TestDaemon::record`].
    #[must_use]
    pub fn scripted(mut self, key: &str, script: Script) -> Self {
        self.scripts.insert(key.into(), script);
        self
    }

    /// A field of `[agents.<key>]` in `config.toml`.
    #[must_use]
    pub fn agent_field(mut self, key: &str, field: &str, value: impl Into<toml::Value>) -> Self {
        entry(&mut self.agents, key).insert(field.into(), value.into());
        self
    }

    /// A top-level key of `config.toml`.
    #[must_use]
    pub fn setting(mut self, key: &str, value: impl Into<toml::Value>) -> Self {
        self.settings.insert(key.into(), value.into());
        self
    }

    /// A variable of the daemon's environment, which otherwise holds `HOME`, `PATH`, `LANG` and `TMPDIR` only.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.insert(name.into(), value.into());
        self
    }

    /// Starts the daemon through another program, which is given the daemon's command line after its own and must end
    /// in `exec`, so that its pid is the daemon's.
    #[must_use]
    pub fn below(mut self, command: &[&str]) -> Self {
        self.below = command.iter().map(|&word| word.to_owned()).collect();
        self
    }

    /// Makes the place, writes `config.toml`, starts the daemon and waits until it is ready.
    pub fn start(self) -> Result<TestDaemon, StartError> {
        let mut daemon = self.prepare()?;
        daemon.start()?;
        Ok(daemon)
    }

    /// As [`DaemonBuilder::start`], but starts nothing.
    pub fn prepare(mut self) -> Result<TestDaemon, StartError> {
        let place = tempfile::Builder::new().prefix("mst").tempdir().map_err(StartError::Place)?;
        for directory in ["home", "tmp", "data", "scripts", "work"] {
            fs::create_dir(place.path().join(directory)).map_err(StartError::Place)?;
        }
        for (key, script) in &self.scripts {
            let path = script_path(place.path(), key);
            script.write_to(&path).map_err(StartError::Place)?;
            let agent = entry(&mut self.agents, key);
            agent.insert("program".into(), as_toml(&program::scripted_agent()?));
            agent.insert("args".into(), vec![as_toml(&path)].into());
        }
        if !self.agents.is_empty() {
            self.settings.insert("agents".into(), self.agents.into());
        }
        let config = toml::to_string(&self.settings).map_err(StartError::Configuration)?;
        fs::write(place.path().join("data/config.toml"), config).map_err(StartError::Place)?;
        let Self { program, environment, below, .. } = self;
        Ok(TestDaemon { program, environment, below, child: None, starts: 0, place })
    }
}

/// The table of an agent.
fn entry<'a>(agents: &'a mut toml::Table, key: &str) -> &'a mut toml::Table {
    let value = agents.entry(key).or_insert_with(|| toml::Table::new().into());
    value.as_table_mut().expect("only tables are put in")
}

fn as_toml(path: &Path) -> toml::Value {
    path.to_string_lossy().into_owned().into()
}

fn script_path(place: &Path, key: &str) -> PathBuf {
    place.join("scripts").join(format!("{key}.json"))
}

/// A daemon in a temporary place: `data/` (its data directory), `home/`, `tmp/`, `work/` (a cwd for sessions),
/// `scripts/`. Dropping it ends the daemon with SIGKILL, waits a short while for the guards to end what it had started,
/// prints its output if the test is failing, and removes the place.
#[derive(Debug)]
pub struct TestDaemon {
    program: PathBuf,
    environment: BTreeMap<String, String>,
    below: Vec<String>,
    child: Option<Child>,
    starts: u32,
    place: TempDir,
}

impl TestDaemon {
    /// A daemon from this program, `env!("CARGO_BIN_EXE_maestro")`.
    pub fn builder(program: impl Into<PathBuf>) -> DaemonBuilder {
        DaemonBuilder {
            program: program.into(),
            scripts: BTreeMap::new(),
            agents: toml::Table::new(),
            settings: toml::Table::new(),
            environment: BTreeMap::new(),
            below: Vec::new(),
        }
    }

    // === Its places ===

    /// The temporary place.
    pub fn place(&self) -> &Path {
        self.place.path()
    }

    /// The data directory.
    pub fn data(&self) -> PathBuf {
        self.place().join("data")
    }

    /// A directory for sessions to work in.
    pub fn work(&self) -> PathBuf {
        self.place().join("work")
    }

    /// The socket.
    pub fn socket(&self) -> PathBuf {
        self.data().join("run/daemon.sock")
    }

    /// A client of the socket.
    pub fn door(&self) -> Door {
        Door::new(self.socket())
    }

    /// What the scripted agent of this key received, in all its processes.
    pub fn record(&self, key: &str) -> Record {
        Record::of_script(&script_path(self.place(), key))
    }

    /// Replaces the script of an agent for processes that start from now on; its record goes on.
    pub fn set_script(&self, key: &str, script: &Script) -> io::Result<()> {
        script.write_to(&script_path(self.place(), key))
    }

    /// What all its processes printed so far, stdout and stderr.
    pub fn log(&self) -> String {
        (1..=self.starts).map(|number| self.log_of(number)).collect()
    }

    /// What the newest of its processes printed so far, stdout and stderr.
    pub fn last_log(&self) -> String {
        self.log_of(self.starts)
    }

    fn log_of(&self, number: u32) -> String {
        let paths = ["out", "err"].map(|stream| self.log_path(number, stream));
        let read = |path| fs::read(path).map(|text| String::from_utf8_lossy(&text).into_owned());
        paths.map(|path| read(path).unwrap_or_default()).concat()
    }

    fn log_path(&self, number: u32, stream: &str) -> PathBuf {
        self.place().join(format!("daemon-{number}.{stream}"))
    }

    // === Its life ===

    /// The process id, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// A command of the same program with the same cleared environment, for `maestro ls` and the like. The data
    /// directory is in `DATA_PATH`.
    pub fn command(&self) -> Command {
        self.in_place(Command::new(&self.program))
    }

    /// The daemon itself.
    fn serve_command(&self) -> Command {
        let Some((first, rest)) = self.below.split_first() else { return self.command() };
        let mut command = self.in_place(Command::new(first));
        command.args(rest).arg(&self.program);
        command
    }

    fn in_place(&self, mut command: Command) -> Command {
        command.env_clear().current_dir(self.place());
        command.env("HOME", self.place().join("home")).env("TMPDIR", self.place().join("tmp"));
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("LANG", "C.UTF-8");
        command.env("DATA_PATH", self.data()).envs(&self.environment);
        command
    }

    /// Starts it (again) and waits for the ready line.
    pub fn start(&mut self) -> Result<(), StartError> {
        self.launch()?;
        self.wait_until_ready()
    }

    /// Starts it (again) and does not wait, for a test that ends it before it is ready.
    pub fn launch(&mut self) -> Result<(), StartError> {
        self.kill().map_err(StartError::Place)?;
        self.starts += 1;
        let create = |stream| File::create(self.log_path(self.starts, stream)).map_err(StartError::Place);
        let (stdout, stderr) = (create("out")?, create("err")?);
        let mut command = self.serve_command();
        command.arg("serve").arg("--data-path").arg(self.data());
        command.stdin(Stdio::null()).stdout(stdout).stderr(stderr);
        let child =
            command.spawn().map_err(|source| StartError::Spawn { program: self.program.clone(), source })?;
        self.child = Some(child);
        Ok(())
    }

    fn wait_until_ready(&mut self) -> Result<(), StartError> {
        let path = self.log_path(self.starts, "out");
        let ready =
            || fs::read_to_string(&path).is_ok_and(|text| text.lines().any(|line| line.starts_with(READY)));
        let mut ended = None;
        let waited = wait_until_blocking(READY_LIMIT, "the ready line", || {
            ended = self.child.as_mut().and_then(|child| child.try_wait().ok().flatten());
            ended.is_some() || ready()
        });
        let reason = match (waited, ended) {
            (Ok(()), None) => return Ok(()),
            (_, Some(status)) => format!("ended with {status}"),
            (Err(error), None) => error.to_string(),
        };
        Err(StartError::NotReady { reason, log: self.log() })
    }

    /// Sends SIGTERM and waits for the end.
    pub fn stop(&mut self) -> io::Result<ExitStatus> {
        self.end(Signal::TERM)
    }

    /// Ends it with SIGKILL, if it runs, and reaps it.
    pub fn kill(&mut self) -> io::Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// Sends a signal and waits for the end.
    pub fn end(&mut self, signal: Signal) -> io::Result<ExitStatus> {
        let child = self.child.as_mut().ok_or_else(|| io::Error::other("the daemon does not run"))?;
        let pid = Pid::from_child(child);
        kill_process(pid, signal)?;
        let mut status = None;
        wait_until_blocking(END_LIMIT, "the end of the daemon", || {
            status = child.try_wait().ok().flatten();
            status.is_some()
        })
        .map_err(io::Error::other)?;
        self.child = None;
        status.ok_or_else(|| io::Error::other("the daemon's status is lost"))
    }
}

impl Drop for TestDaemon {
    fn drop(&mut self) {
        let killed = self.kill();
        // A process that still writes would make the place anew while it is removed.
        let home = format!("HOME={}", self.place().join("home").display());
        let left = wait_until_blocking(LEFT_LIMIT, "the end of what it had started", || {
            live_processes_with(&home).is_empty()
        });
        if std::thread::panicking() {
            #[expect(clippy::print_stderr, reason = "the test harness shows it beside the failure")]
            {
                eprintln!("the daemon printed:\n{}\nkilled: {killed:?}, {left:?}", self.log());
            }
        }
    }
}

#[cfg(test)]
mod tests;
