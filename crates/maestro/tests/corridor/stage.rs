//! A session of a scripted agent, running, and a socket on it.

use maestro_protocol::{Session, TranscriptRow, TranscriptRowKind};
use maestro_testkit::{DaemonBuilder, Door, Record, Script, Steps, TestDaemon, Watch, live_processes_with};
use serde_json::{Value, json};
use std::{error::Error, fs, time::Duration};

pub(crate) type Outcome = Result<(), Box<dyn Error>>;

/// What anything may take on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// The key of the scripted agent.
pub(crate) const AGENT: &str = "scripted";

/// A script whose session is open; turns follow.
pub(crate) fn opened() -> Script {
    Script::new().initialize().new_session("acp-1")
}

/// A script that plays `turn` for each prompt.
pub(crate) fn turns(turn: impl FnOnce(Steps) -> Steps) -> Script {
    opened().on_every_prompt(turn)
}

/// A daemon to be, whose only agent of note plays `script`.
pub(crate) fn builder(script: Script) -> DaemonBuilder {
    TestDaemon::builder(env!("CARGO_BIN_EXE_maestro")).scripted(AGENT, script)
}

pub(crate) struct Stage {
    pub(crate) daemon: TestDaemon,
    pub(crate) door: Door,
    pub(crate) id: String,
    pub(crate) watch: Watch,
}

impl Stage {
    pub(crate) async fn open(script: Script) -> Result<Self, Box<dyn Error>> {
        Self::with(builder(script)).await
    }

    pub(crate) async fn with(builder: DaemonBuilder) -> Result<Self, Box<dyn Error>> {
        Self::of(AGENT, builder, json!({})).await
    }

    /// A session of the agent with this key, with further fields of its creation.
    pub(crate) async fn of(agent: &str, builder: DaemonBuilder, more: Value) -> Result<Self, Box<dyn Error>> {
        let daemon = builder.start()?;
        let door = daemon.door();
        let id = door.create_session(agent, &daemon.work(), more).await?.id.to_string();
        door.running(&id, LIMIT).await?;
        let watch = Watch::open(&door, &id).await?;
        Ok(Self { daemon, door, id, watch })
    }

    pub(crate) async fn begin(&self, text: &str) -> Outcome {
        self.door.prompt(&self.id, text).await?.expect(202);
        Ok(())
    }

    pub(crate) async fn turn(&mut self, text: &str) -> Result<String, Box<dyn Error>> {
        self.begin(text).await?;
        Ok(self.watch.turn_end(LIMIT).await?)
    }

    /// Waits for an approval other than `before` and returns its nonce.
    pub(crate) async fn asked_after(&mut self, before: Option<&str>) -> Result<String, Box<dyn Error>> {
        let is_new = |watch: &Watch| watch.nonce().is_some_and(|nonce| Some(nonce.as_str()) != before);
        self.watch.until(LIMIT, "an approval", is_new).await?;
        Ok(self.watch.nonce().ok_or("the nonce is gone")?)
    }

    pub(crate) async fn asked(&mut self) -> Result<String, Box<dyn Error>> {
        self.asked_after(None).await
    }

    pub(crate) async fn decide(&self, nonce: &str, decision: Value, status: u16) -> Outcome {
        self.door.decide(&self.id, nonce, decision).await?.expect(status);
        Ok(())
    }

    pub(crate) async fn kill(&self) -> Outcome {
        self.door.delete(&format!("/api/sessions/{}", self.id)).await?.expect(204);
        Ok(())
    }

    pub(crate) async fn dead(&self) -> Result<Session, Box<dyn Error>> {
        Ok(self.door.dead(&self.id, LIMIT).await?)
    }

    pub(crate) fn record(&self) -> Record {
        self.daemon.record(AGENT)
    }

    pub(crate) fn rows(&self, kind: TranscriptRowKind) -> Vec<&TranscriptRow> {
        self.watch.rows.iter().filter(|row| row.kind == kind).collect()
    }

    /// The outcomes of all approvals, in order.
    pub(crate) fn outcomes(&self) -> Vec<Value> {
        let outcome = |row: &TranscriptRow| row.data["_meta"]["maestro"]["outcome"].clone();
        self.rows(TranscriptRowKind::Approval).into_iter().map(outcome).collect()
    }

    /// Waits until text of the agent holds `words`.
    pub(crate) async fn says(&mut self, words: &str) -> Outcome {
        let said = |watch: &Watch| watch.text("agent").contains(words);
        self.watch.until(LIMIT, &format!("the words {words:?}"), said).await?;
        Ok(())
    }

    /// Processes of the session that live, its guard among them.
    pub(crate) fn processes(&self) -> Vec<u32> {
        live_processes_with(&format!("MAESTRO_SESSION={}", self.id))
    }

    /// The event log as text, lossily.
    pub(crate) fn log(&self) -> Result<String, Box<dyn Error>> {
        let path = self.daemon.data().join(format!("sessions/{}.events.jsonl", self.id));
        Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned())
    }
}
