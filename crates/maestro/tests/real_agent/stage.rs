//! A real agent on a real daemon, with the scripted model server behind it.

use maestro_protocol::{Session, TranscriptRowKind};
use maestro_testkit::{Door, TestDaemon, Watch};
use serde_json::{Value, json};
use std::{
    env,
    error::Error,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

pub(crate) type Outcome = Result<(), Box<dyn Error>>;

/// What anything that a real agent does may take on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_mins(1);

/// Where the agents are installed; `None` where they are not and need not be: the variable is missing on a person's
/// machine, or empty because these tests run elsewhere.
fn adapters() -> Option<PathBuf> {
    let found = env::var_os("MAESTRO_E2E_ADAPTERS").map(PathBuf::from);
    assert!(
        found.is_some() || env::var_os("CI").is_none_or(|value| value != "true"),
        "no real agents here: `cargo xtask e2e` installs them and runs these tests"
    );
    found.filter(|found| !found.as_os_str().is_empty())
}

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

/// A session of a real agent, running, and a socket on it.
pub(crate) struct Stage {
    pub(crate) daemon: TestDaemon,
    pub(crate) door: Door,
    pub(crate) id: String,
    pub(crate) watch: Watch,
    _server: ModelServer,
}

impl Stage {
    /// `None` where there are no real agents.
    pub(crate) async fn open() -> Result<Option<Self>, Box<dyn Error>> {
        let Some(adapters) = adapters() else { return Ok(None) };
        let server = ModelServer::start()?;
        // node stands where this machine has it.
        let path = format!("{}:{}", adapters.join("bin").display(), env::var("PATH")?);
        let daemon = TestDaemon::builder(env!("CARGO_BIN_EXE_maestro"))
            .env("PATH", &path)
            .env("ANTHROPIC_BASE_URL", &server.url)
            .env("ANTHROPIC_API_KEY", "test-key")
            .env("DISABLE_TELEMETRY", "1")
            .env("DISABLE_ERROR_REPORTING", "1")
            .env("DISABLE_AUTOUPDATER", "1")
            .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
            .agent_field("claude-code-acp", "env_names", env_names())
            .start()?;
        let door = daemon.door();
        let session = door.create_session("claude-code-acp", &daemon.work(), json!({})).await?;
        let id = session.id.to_string();
        door.running(&id, LIMIT).await?;
        let watch = Watch::open(&door, &id).await?;
        Ok(Some(Self { daemon, door, id, watch, _server: server }))
    }

    /// Sends a prompt; the turn goes on.
    pub(crate) async fn begin(&self, text: &str) -> Outcome {
        self.door.prompt(&self.id, text).await?.expect(202);
        Ok(())
    }

    /// Sends a prompt, waits for the end of its turn and returns the reason.
    pub(crate) async fn turn(&mut self, text: &str) -> Result<String, Box<dyn Error>> {
        self.begin(text).await?;
        Ok(self.watch.turn_end(LIMIT).await?)
    }

    /// Waits for an approval and returns its nonce.
    pub(crate) async fn asked(&mut self) -> Result<String, Box<dyn Error>> {
        self.watch.until(LIMIT, "an approval", |watch| watch.nonce().is_some()).await?;
        Ok(self.watch.nonce().ok_or("the nonce is gone")?)
    }

    /// Waits for an approval and decides it.
    pub(crate) async fn decide(&mut self, decision: Value) -> Outcome {
        let nonce = self.asked().await?;
        self.door.decide(&self.id, &nonce, decision).await?.expect(204);
        self.watch.until(LIMIT, "the decision", |watch| watch.nonce().is_none()).await?;
        Ok(())
    }

    /// The data of all rows of a kind.
    pub(crate) fn rows(&self, kind: TranscriptRowKind) -> Vec<&Value> {
        self.watch.rows.iter().filter(|row| row.kind == kind).map(|row| &row.data).collect()
    }

    /// All events of the log, of which a test here has few.
    pub(crate) async fn events(&self) -> Result<Vec<Value>, Box<dyn Error>> {
        let page = self.door.replay(&self.id, "since=0&limit=500").await?.expect(200).json();
        assert!(page["next"].is_null(), "the log is longer than a page");
        Ok(page["events"].as_array().cloned().unwrap_or_default())
    }

    /// A file in the directory of the session.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.daemon.work().join(name)
    }

    /// Runs `maestro` with these arguments to its end, as a person in the directory of the session would.
    pub(crate) async fn maestro(&self, args: &[&str]) -> Result<Output, Box<dyn Error>> {
        let mut command = self.daemon.command();
        command.args(args).arg("--no-start").current_dir(self.daemon.work());
        Ok(tokio::task::spawn_blocking(move || command.output()).await??)
    }

    pub(crate) async fn session(&self) -> Result<Session, Box<dyn Error>> {
        Ok(self.door.session(&self.id).await?)
    }
}

fn env_names() -> Vec<String> {
    ["ANTHROPIC_*", "CLAUDE_*", "DISABLE_*"].map(str::to_owned).into()
}
