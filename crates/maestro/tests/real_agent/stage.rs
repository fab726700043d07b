//! A real agent on a real daemon, with the scripted model server behind it.

use crate::agent::{Agent, HomeFile};
use maestro_protocol::{Session, TranscriptRowKind};
use maestro_testkit::{Door, TestDaemon, Watch, live_processes_with, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::{
    env,
    error::Error,
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

pub(crate) type Outcome = Result<(), Box<dyn Error>>;

/// What anything that a real agent does may take on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_mins(1);

/// The scripted model server, ended with the test.
struct ModelServer {
    child: Child,
    url: String,
}

impl ModelServer {
    fn start() -> Result<Self, Box<dyn Error>> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/mock_llm.py");
        let mut child = Command::new("python3")
            .arg(script)
            .args(["--port", "0", "--quiet"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = child.stdout.take().ok_or("the model server has no stdout")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let url = line.trim().rsplit(' ').next().unwrap_or_default().to_owned();
        assert!(url.starts_with("http://127.0.0.1:"), "the model server said {line:?}");
        Ok(Self { child, url })
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.child.kill().expect("the model server is ours to end");
        self.child.wait().expect("an ended child can be waited for");
    }
}

/// Whether the agent is given its dummy credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Credentials {
    Dummy,
    None,
}

/// A daemon that can start a real agent, and the model server behind that.
pub(crate) struct Place<'a> {
    pub(crate) agent: &'a Agent,
    pub(crate) daemon: TestDaemon,
    pub(crate) door: Door,
    _server: ModelServer,
}

impl<'a> Place<'a> {
    pub(crate) fn open(agent: &'a Agent, credentials: Credentials) -> Result<Self, Box<dyn Error>> {
        let server = ModelServer::start()?;
        // node stands where this machine has it.
        let path = format!("{}:{}", agent.bin.display(), env::var("PATH")?);
        let mut builder = TestDaemon::builder(env!("CARGO_BIN_EXE_maestro")).env("PATH", &path);
        for (name, value) in &agent.spec.env {
            if credentials == Credentials::Dummy || !agent.spec.no_auth_env.contains(name) {
                builder = builder.env(name, &value.replace("{mock}", &server.url));
            }
        }
        for (field, value) in agent.spec.e2e.entry.iter().flatten() {
            builder = builder.agent_field(&agent.key, field, value.clone());
        }
        let mut daemon = builder.prepare()?;
        for (path, file) in &agent.spec.home_files {
            let text = match file {
                HomeFile::Text(text) => text.clone(),
                HomeFile::Json(value) => value.to_string(),
            };
            let path = daemon.place().join("home").join(path);
            fs::create_dir_all(path.parent().ok_or("a file of the home has a directory")?)?;
            fs::write(path, text.replace("{mock}", &server.url))?;
        }
        make_project(&daemon.work())?;
        daemon.start()?;
        Ok(Self { agent, door: daemon.door(), daemon, _server: server })
    }

    /// Creates a session; `more` holds further fields of the request.
    pub(crate) async fn session(&self, more: Value) -> Result<Session, Box<dyn Error>> {
        Ok(self.door.create_session(&self.agent.key, &self.daemon.work(), more).await?)
    }

    /// A session that runs, and a socket on it.
    pub(crate) async fn running(self, more: Value) -> Result<Stage<'a>, Box<dyn Error>> {
        let asked = Instant::now();
        let id = self.session(more).await?.id.to_string();
        self.door.running(&id, LIMIT).await?;
        let start_ms = u64::try_from(asked.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.agent.measured.borrow_mut().start_ms.push(start_ms);
        let watch = Watch::open(&self.door, &id).await?;
        Ok(Stage { place: self, id, watch })
    }
}

/// A repository with two files, as agents expect one.
fn make_project(work: &Path) -> Outcome {
    fs::write(work.join("README.md"), "# Sample\n\nhello old world\n")?;
    fs::write(work.join("main.py"), "print('hi')\n")?;
    let made = Command::new("git").args(["init", "-q"]).current_dir(work).env("HOME", work).status()?;
    assert!(made.success(), "git init failed");
    Ok(())
}

/// A session of a real agent, running, and a socket on it.
pub(crate) struct Stage<'a> {
    pub(crate) place: Place<'a>,
    pub(crate) id: String,
    pub(crate) watch: Watch,
}

impl<'a> Stage<'a> {
    pub(crate) async fn open(agent: &'a Agent) -> Result<Self, Box<dyn Error>> {
        Place::open(agent, Credentials::Dummy)?.running(json!({})).await
    }

    pub(crate) fn door(&self) -> &Door {
        &self.place.door
    }

    // === Prompts and decisions ===

    /// Sends a prompt; the turn goes on.
    pub(crate) async fn begin(&self, text: &str) -> Outcome {
        self.door().prompt(&self.id, text).await?.expect(202);
        Ok(())
    }

    /// Sends a prompt, waits for the end of its turn and returns the reason.
    pub(crate) async fn turn(&mut self, text: &str) -> Result<String, Box<dyn Error>> {
        self.begin(text).await?;
        Ok(self.watch.turn_end(LIMIT).await?)
    }

    /// As [`Stage::turn`], and decides every request on the way like this.
    pub(crate) async fn turn_with(&mut self, text: &str, decision: &Value) -> Result<String, Box<dyn Error>> {
        let before = self.watch.state.turn.last_end.clone();
        self.begin(text).await?;
        loop {
            let ended = |watch: &Watch| !watch.state.turn.active && watch.state.turn.last_end != before;
            let settled = |watch: &Watch| watch.nonce().is_some() || ended(watch);
            self.watch.until(LIMIT, "a request or the end of the turn", settled).await?;
            if self.watch.nonce().is_none() {
                return Ok(self
                    .watch
                    .state
                    .turn
                    .last_end
                    .as_ref()
                    .map(|end| end.reason.clone())
                    .unwrap_or_default());
            }
            self.decide(decision.clone()).await?;
        }
    }

    /// Says that it is there and well.
    pub(crate) async fn is_alive(&mut self) -> Outcome {
        assert_eq!(self.turn("Go on. [[say still alive]]").await?, "end_turn");
        assert!(self.watch.text("agent").contains("still alive"), "{:#?}", self.watch.rows);
        Ok(())
    }

    /// Waits for an approval and returns its nonce.
    pub(crate) async fn asked(&mut self) -> Result<String, Box<dyn Error>> {
        self.watch.until(LIMIT, "an approval", |watch| watch.nonce().is_some()).await?;
        Ok(self.watch.nonce().ok_or("the nonce is gone")?)
    }

    /// Waits for an approval, decides it, and waits until it is settled.
    pub(crate) async fn decide(&mut self, decision: Value) -> Outcome {
        let nonce = self.asked().await?;
        self.door().decide(&self.id, &nonce, decision).await?.expect(204);
        self.watch.until(LIMIT, "the decision", |watch| watch.nonce().as_ref() != Some(&nonce)).await?;
        Ok(())
    }

    /// Begins a turn with a command, allows it, and waits until it runs.
    pub(crate) async fn begin_command(&mut self, command: &str) -> Outcome {
        self.begin(&format!("Run it. [[bash {command}; echo slept]]")).await?;
        self.decide(json!("AllowOnce")).await?;
        self.command_runs(command).await
    }

    // === What is seen ===

    /// The data of all rows of a kind.
    pub(crate) fn rows(&self, kind: TranscriptRowKind) -> Vec<&Value> {
        self.watch.rows.iter().filter(|row| row.kind == kind).map(|row| &row.data).collect()
    }

    /// The data of all rows of tools.
    pub(crate) fn tools(&self) -> Vec<&Value> {
        let (calls, diffs) = (self.rows(TranscriptRowKind::ToolCall), self.rows(TranscriptRowKind::ToolDiff));
        calls.into_iter().chain(diffs).collect()
    }

    /// What became of all requests, in their order.
    pub(crate) fn outcomes(&self) -> Vec<&Value> {
        let approvals = self.rows(TranscriptRowKind::Approval);
        approvals.into_iter().map(|approval| &approval["_meta"]["maestro"]["outcome"]).collect()
    }

    /// All events of the log.
    pub(crate) async fn events(&self) -> Result<Vec<Value>, Box<dyn Error>> {
        let (mut events, mut since) = (Vec::new(), 0);
        loop {
            let page =
                self.door().replay(&self.id, &format!("since={since}&limit=500")).await?.expect(200).json();
            events.extend(page["events"].as_array().cloned().unwrap_or_default());
            match page["next"].as_u64() {
                Some(next) => since = next,
                None => return Ok(events),
            }
        }
    }

    /// The replay has every line up to what the socket showed, and what came after it.
    pub(crate) async fn has_the_whole_log(&self) -> Outcome {
        let cursors: Vec<u64> =
            self.events().await?.iter().filter_map(|event| event["cursor"].as_u64()).collect();
        assert!(cursors.iter().copied().eq((1..).take(cursors.len())), "{cursors:?}");
        assert!(cursors.last() >= Some(&self.watch.cursor), "{cursors:?}");
        Ok(())
    }

    pub(crate) async fn session(&self) -> Result<Session, Box<dyn Error>> {
        Ok(self.door().session(&self.id).await?)
    }

    /// A file in the directory of the session.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.place.daemon.work().join(name)
    }

    /// Runs `maestro` with these arguments to its end, as a person in the directory of the session would.
    pub(crate) async fn maestro(&self, args: &[&str]) -> Result<Output, Box<dyn Error>> {
        let mut command = self.place.daemon.command();
        command.args(args).arg("--no-start").current_dir(self.place.daemon.work());
        Ok(tokio::task::spawn_blocking(move || command.output()).await??)
    }

    // === Processes ===

    /// All live processes of the session.
    pub(crate) fn processes(&self) -> Vec<u32> {
        live_processes_with(&format!("MAESTRO_SESSION={}", self.id))
    }

    /// The agent's own process: the guard's child.
    pub(crate) fn adapter(&self) -> Result<Pid, Box<dyn Error>> {
        let is_guard = |pid: u32| cmdline(pid).contains("__guard");
        let agent =
            self.processes().into_iter().find(|pid| !is_guard(*pid) && parent(*pid).is_some_and(is_guard));
        let agent = agent.ok_or("the agent does not run")?;
        Ok(Pid::from_raw(agent.try_into()?).ok_or("a process has a positive id")?)
    }

    /// Signals the agent's own process alone, as a crash or a careless person would.
    pub(crate) fn signal_adapter(&self, signal: Signal) -> Outcome {
        Ok(kill_process(self.adapter()?, signal)?)
    }

    fn runs(&self, command: &str) -> bool {
        self.processes().into_iter().any(|pid| cmdline(pid) == command)
    }

    /// Waits until a process of the session has exactly this command line.
    pub(crate) async fn command_runs(&self, command: &str) -> Outcome {
        Ok(wait_until(LIMIT, command, || self.runs(command)).await?)
    }

    /// Waits until no process of the session has this command line.
    pub(crate) async fn command_ends(&self, command: &str) -> Outcome {
        Ok(wait_until(LIMIT, &format!("the end of {command}"), || !self.runs(command)).await?)
    }

    /// Waits until nothing of the session is left.
    pub(crate) async fn everything_ends(&self) -> Outcome {
        Ok(wait_until(LIMIT, "the whole tree to be gone", || self.processes().is_empty()).await?)
    }

    /// The resident memory of all processes of the session, in MiB.
    pub(crate) fn rss_mib(&self) -> u64 {
        let kib = |pid: u32| -> Option<u64> {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
            let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
            line.trim().trim_end_matches(" kB").parse().ok()
        };
        self.processes().into_iter().filter_map(kib).sum::<u64>() / 1024
    }
}

/// The command line of a process, with spaces between its words.
fn cmdline(pid: u32) -> String {
    let text = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&text).trim_end_matches('\0').replace('\0', " ")
}

fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}
