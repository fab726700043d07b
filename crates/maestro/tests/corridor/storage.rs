//! A log that takes no lines for a while, with the real kernel saying so: once because its file system is full, once
//! because its file may not grow.

use crate::stage::{AGENT, LIMIT, Outcome, Stage, builder, opened};
use maestro_protocol::{EndReason, Health, HealthStatus, Session, Status, TroubleKind};
use maestro_testkit::{Script, Steps, TestDaemon, Watch, wait_until};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use serde_json::{Value, json};
use std::{
    error::Error,
    fs,
    io::{self, Write as _},
    path::PathBuf,
    process::{Command, Stdio},
};

/// How a session's log is kept from growing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shortage {
    /// `sessions/` is a small file system, which something else fills.
    Disk,
    /// The daemon may not make its files longer.
    Limit,
}

/// Puts a file system of 4 MiB in the place of `sessions/`, in a mount namespace of the daemon's own.
const MOUNT: &str = r#"mkdir -p -m 700 "$DATA_PATH/sessions" && mount -t tmpfs -o size=4m,nr_inodes=100,mode=0700 none "$DATA_PATH/sessions" && exec "$@""#;

/// What begins a process that may mount.
fn own_mounts() -> Vec<&'static str> {
    let mut command = vec!["unshare", "--mount"];
    if !rustix::process::geteuid().is_root() {
        command.push("--map-root-user");
    }
    command
}

fn can_mount() -> bool {
    let own = own_mounts();
    let probe = "mount -t tmpfs none /tmp";
    let status =
        Command::new(own[0]).args(&own[1..]).args(["sh", "-c", probe]).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// The kinds of shortage that can be made here.
fn shortages() -> Vec<Shortage> {
    if can_mount() {
        return vec![Shortage::Disk, Shortage::Limit];
    }
    writeln!(io::stderr(), "a full disk is left out: no process may mount a file system of its own here")
        .expect("the standard error");
    vec![Shortage::Limit]
}

/// A session on a log that can be kept from growing.
struct Short {
    stage: Stage,
    shortage: Shortage,
}

impl Short {
    fn daemon(shortage: Shortage, script: Script) -> Result<TestDaemon, Box<dyn Error>> {
        let builder = builder(script);
        let builder = match shortage {
            Shortage::Disk => builder.below(&[own_mounts(), vec!["sh", "-c", MOUNT, "sh"]].concat()),
            Shortage::Limit => builder,
        };
        Ok(builder.start()?)
    }

    async fn open(shortage: Shortage, script: Script) -> Result<Self, Box<dyn Error>> {
        let daemon = Self::daemon(shortage, script)?;
        let door = daemon.door();
        let id = door.create_session(AGENT, &daemon.work(), json!({})).await?.id.to_string();
        door.running(&id, LIMIT).await?;
        let watch = Watch::open(&door, &id).await?;
        Ok(Self { stage: Stage { daemon, door, id, watch }, shortage })
    }

    /// The directory as the daemon sees it.
    fn sessions(&self) -> PathBuf {
        let pid = self.stage.daemon.pid().expect("the daemon runs");
        let path = self.stage.daemon.data().join("sessions");
        match self.shortage {
            Shortage::Disk => PathBuf::from(format!("/proc/{pid}/root{}", path.display())),
            Shortage::Limit => path,
        }
    }

    fn log(&self) -> Result<String, Box<dyn Error>> {
        Ok(fs::read_to_string(self.sessions().join(format!("{}.events.jsonl", self.stage.id)))?)
    }

    /// The lines that are envelopes of this kind.
    fn lines(&self, kind: &str) -> Result<Vec<Value>, Box<dyn Error>> {
        let log = self.log()?;
        let lines = log.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>()?;
        Ok(lines.into_iter().filter(|line| line["maestroEvent"] == kind).collect())
    }

    /// Leaves space for about so many more bytes of log.
    fn fill(&self, leave: u64) -> Outcome {
        match self.shortage {
            Shortage::Limit => {
                let length = self.log()?.len() as u64;
                self.limit(Some(length + leave))
            }
            Shortage::Disk => {
                let mut ballast = fs::File::create(self.sessions().join("ballast"))?;
                while ballast.write_all(&[0; 4096]).is_ok() {}
                let length = ballast.metadata()?.len();
                Ok(ballast.set_len(length - leave)?)
            }
        }
    }

    /// Leaves the directory a place for one more file.
    fn fill_places(&self) -> Outcome {
        let file = |number: u32| self.sessions().join(format!("ballast-{number}"));
        let taken = (0..10_000).take_while(|number| fs::File::create_new(file(*number)).is_ok()).count();
        Ok(fs::remove_file(file(u32::try_from(taken)? - 1))?)
    }

    fn free_places(&self) -> Outcome {
        for entry in fs::read_dir(self.sessions())? {
            let path = entry?.path();
            if path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"ballast-")) {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }

    /// Makes space.
    fn free(&self) -> Outcome {
        match self.shortage {
            Shortage::Limit => self.limit(None),
            Shortage::Disk => Ok(fs::remove_file(self.sessions().join("ballast"))?),
        }
    }

    fn limit(&self, current: Option<u64>) -> Outcome {
        let pid = self.stage.daemon.pid().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        let maximum = getrlimit(Resource::Fsize).maximum;
        prlimit(pid, Resource::Fsize, Rlimit { current: current.or(maximum), maximum })?;
        Ok(())
    }

    async fn when(
        &self,
        what: &str,
        condition: impl Fn(&Session) -> bool,
    ) -> Result<Session, Box<dyn Error>> {
        Ok(self.stage.door.session_when(&self.stage.id, LIMIT, what, condition).await?)
    }

    /// Waits until the session says that its log takes no lines.
    async fn stalled(&self) -> Outcome {
        let says = |session: &Session| is_stalled(session) && session.status == Status::Running;
        self.when("the session to say that its log is full", says).await?;
        Ok(())
    }

    async fn prompt_is_refused(&self) -> Outcome {
        let refused = self.stage.door.prompt(&self.stage.id, "no space for this").await?.expect(507);
        assert_eq!(refused.json()["code"], "log_unwritable");
        Ok(())
    }

    /// Every line is a whole one, and so is every envelope.
    fn assert_whole(&self) -> Outcome {
        let log = self.log()?;
        assert!(log.ends_with('\n'), "the last line is whole");
        for line in log.lines() {
            serde_json::from_str::<Value>(line).map_err(|error| format!("{error} in {line}"))?;
        }
        Ok(())
    }
}

fn is_stalled(session: &Session) -> bool {
    session.activity_detail.as_deref().is_some_and(|detail| detail.contains("the event log"))
}

/// Text in pieces of a KiB that all differ.
fn pieces(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("<{number:05}{}>", "x".repeat(1000))).collect()
}

fn says_all(turn: Steps, pieces: &[String]) -> Steps {
    pieces.iter().fold(turn, |turn, piece| turn.chunk_of("m", piece))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_into_a_full_log_goes_on_by_itself_and_loses_nothing() -> Outcome {
    for shortage in shortages() {
        let pieces = pieces(600);
        let script = opened()
            .on_prompt(|turn| says_all(turn, &pieces).end_turn())
            .on_prompt(|turn| turn.chunk_of("n", "and on").end_turn());
        let mut short = Short::open(shortage, script).await?;
        short.fill(100 * 1024)?;
        short.stage.begin("go").await?;
        short.stalled().await?;
        short.assert_whole()?;
        short.prompt_is_refused().await?;
        let health: Health = short.stage.door.get("/api/health").await?.expect(200).read();
        assert_eq!(health.status, HealthStatus::Degraded);
        let stalled = health.troubles.iter().find(|trouble| trouble.kind == TroubleKind::LogStalled);
        let session = stalled.and_then(|trouble| trouble.session).map(|id| id.to_string());
        assert_eq!(session.as_ref(), Some(&short.stage.id), "{health:?}");
        let page: Value = short.stage.door.replay(&short.stage.id, "limit=500").await?.expect(200).json();
        assert!(page["events"].as_array().is_some_and(|events| events.len() > 30), "reads go on");
        let seen = Watch::open(&short.stage.door, &short.stage.id).await?.text("agent");
        let whole: String = pieces.concat();
        assert!(whole.starts_with(&seen) && seen.len() < whole.len(), "{shortage:?}");

        short.free()?;
        assert_eq!(short.stage.watch.turn_end(LIMIT).await?, "end_turn");
        assert!(short.stage.watch.text("agent") == whole, "{shortage:?}: text is lost or doubled");
        short.assert_whole()?;
        let clocks = short.lines("clock")?.len();
        assert!(clocks < 60, "a line that is tried again adds no clock: {clocks}");
        short.when("the words to go", |session| session.activity_detail.is_none()).await?;
        let health: Health = short.stage.door.get("/api/health").await?.expect(200).read();
        assert!(health.troubles.iter().all(|trouble| trouble.kind != TroubleKind::LogStalled), "{health:?}");
        assert_eq!(short.stage.turn("again").await?, "end_turn");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denial_reaches_the_agent_over_a_full_log() -> Outcome {
    for shortage in shortages() {
        let place = tempfile::tempdir()?;
        let go = place.path().join("go");
        let turn = |turn: Steps| {
            turn.permission(1, "t1", "ls")
                .await_file(&go)
                .chunk_of("m", &"x".repeat(9000))
                .await_answer(1)
                .chunk_of("m", "after")
                .end_turn()
        };
        let mut short = Short::open(shortage, opened().on_prompt(turn)).await?;
        short.stage.begin("go").await?;
        let nonce = short.stage.asked().await?;
        short.fill(0)?;
        fs::write(&go, "")?;
        short.stalled().await?;
        if shortage == Shortage::Limit {
            short.stage.decide(&nonce, json!("AllowOnce"), 507).await?;
        }
        short.stage.decide(&nonce, json!("Deny"), 204).await?;
        let record = short.stage.record();
        wait_until(LIMIT, "the answer", || !record.answers(1).is_empty()).await?;
        assert_eq!(record.answers(1)[0]["result"]["outcome"]["optionId"], "reject-once", "{shortage:?}");
        short.prompt_is_refused().await?;
        let fresh = Watch::open(&short.stage.door, &short.stage.id).await?;
        assert_eq!(fresh.state.pending_approval, None);

        short.free()?;
        assert_eq!(short.stage.watch.turn_end(LIMIT).await?, "end_turn");
        assert_eq!(short.stage.outcomes().len(), 1);
        assert_eq!(short.stage.outcomes()[0]["decision"], "Deny");
        assert!(short.stage.watch.text("agent").ends_with("xafter"));
        assert_eq!(short.lines("approval_resolved")?.len(), 1);
        assert_eq!(record.answers(1).len(), 1);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_reaches_the_agent_over_a_full_log_and_settles_when_there_is_space() -> Outcome {
    for shortage in shortages() {
        let place = tempfile::tempdir()?;
        let go = place.path().join("go");
        let turn = |turn: Steps| {
            turn.chunk_of("m", "working")
                .await_file(&go)
                .chunk_of("m", &"x".repeat(9000))
                .await_cancel()
                .note("cancelled")
                .chunk_of("m", "bye")
                .stop("cancelled")
        };
        let script = opened().on_prompt(turn).on_prompt(|turn| turn.chunk_of("n", "next").end_turn());
        let mut short = Short::open(shortage, script).await?;
        short.stage.begin("go").await?;
        short.stage.says("working").await?;
        short.fill(0)?;
        fs::write(&go, "")?;
        short.stalled().await?;
        short.stage.door.cancel(&short.stage.id).await?.expect(202);
        short.stage.record().wait_for_note(LIMIT, "cancelled")?;
        short.stage.door.cancel(&short.stage.id).await?.expect(202);
        short.prompt_is_refused().await?;
        let fresh = Watch::open(&short.stage.door, &short.stage.id).await?;
        assert!(!fresh.state.turn.active, "whoever looks sees that it is over");
        // Longer than the grace of the cancel, in which the agent is not heard.
        tokio::time::sleep(std::time::Duration::from_millis(800)).await;
        assert_eq!(short.stage.door.session(&short.stage.id).await?.status, Status::Running);

        short.free()?;
        assert_eq!(short.stage.watch.turn_end(LIMIT).await?, "cancelled");
        short.stage.says("bye").await?;
        assert_eq!(short.stage.turn("again").await?, "end_turn");
        let phases: Vec<Value> = short.lines("turn")?.iter().map(|line| line["phase"].clone()).collect();
        assert_eq!(phases, ["started", "ended", "started", "ended"]);
        short.assert_whole()?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_words_of_an_agent_are_kept_until_there_is_space() -> Outcome {
    for shortage in shortages() {
        // What does not fit into the log must fit into the pipe and the queue behind it, or the agent cannot end.
        let pieces = pieces(100);
        let script = opened().on_prompt(|turn| says_all(turn, &pieces).exit(3));
        let short = Short::open(shortage, script).await?;
        short.fill(50 * 1024)?;
        short.stage.begin("go").await?;
        let session = short.stage.dead().await?;
        assert_eq!(session.end_reason, Some(EndReason::Exited));
        short.assert_whole()?;
        assert_eq!(short.lines("turn")?.len(), 1, "there is no space for the end");

        short.free()?;
        wait_until(LIMIT, "the end of the turn", || {
            short.log().is_ok_and(|log| log.contains(r#""reason":"interrupted""#))
        })
        .await?;
        let log = short.log()?;
        let said = |line: &str| {
            serde_json::from_str::<Value>(line).ok()?["update"]["content"]["text"].as_str().map(str::to_owned)
        };
        let text: String = log.lines().filter_map(said).filter(|text| text.starts_with('<')).collect();
        assert!(text == pieces.concat(), "{shortage:?}: text is lost or doubled");
        assert!(
            log.trim_end().lines().last().is_some_and(|line| line.contains("interrupted")),
            "the end is last"
        );
        assert_eq!(short.lines("turn")?.len(), 2);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_starts_into_a_full_log_runs_and_catches_up() -> Outcome {
    for shortage in shortages() {
        let place = tempfile::tempdir()?;
        let go = place.path().join("go");
        // Long enough for no rest of a page to hold it.
        let modes = json!({"currentModeId": "ask", "availableModes": [
            {"id": "ask", "name": "Ask", "description": "x".repeat(9000)}]});
        let script = Script::new()
            .then(|steps| steps.await_file(&go))
            .initialize()
            .new_session_with(json!({"sessionId": "acp-1", "modes": modes}))
            .on_prompt(|turn| turn.chunk_of("m", "hello").end_turn());
        let daemon = Short::daemon(shortage, script)?;
        let door = daemon.door();
        let id = door.create_session(AGENT, &daemon.work(), json!({})).await?.id.to_string();
        let watch = Watch::open(&door, &id).await?;
        let mut short = Short { stage: Stage { daemon, door, id, watch }, shortage };
        let record = short.stage.record();
        wait_until(LIMIT, "the agent's process", || !record.processes().is_empty()).await?;
        short.fill(0)?;
        fs::write(&go, "")?;
        short.stalled().await?;
        short.prompt_is_refused().await?;
        assert_eq!(short.lines("session")?.len(), 0);

        short.free()?;
        let knows = |watch: &Watch| {
            watch.state.mode.as_ref().is_some_and(|mode| mode.current.as_deref() == Some("ask"))
        };
        short.stage.watch.until(LIMIT, "the mode", knows).await?;
        assert_eq!(short.stage.turn("hello").await?, "end_turn");
        assert_eq!(short.lines("session")?.len(), 1);
        short.assert_whole()?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_whose_log_finds_no_place_starts_when_there_is_one() -> Outcome {
    if !shortages().contains(&Shortage::Disk) {
        return Ok(());
    }
    let waits = |session: &Session| session.status == Status::Starting && is_stalled(session);
    for is_killed in [true, false] {
        let script = opened().on_every_prompt(|turn| turn.chunk_of("m", "hello").end_turn());
        let mut short = Short::open(Shortage::Disk, script).await?;
        let first = short.stage.id.clone();
        // From here on it stores nothing, which would take the last place for a moment.
        let sidecar = short.sessions().join(format!("{first}.json"));
        wait_until(LIMIT, "the first session's sidecar", || {
            fs::read_to_string(&sidecar).is_ok_and(|text| text.contains("Running"))
        })
        .await?;
        short.fill_places()?;
        let cwd = short.stage.daemon.work();
        short.stage.id = short.stage.door.create_session(AGENT, &cwd, json!({})).await?.id.to_string();
        short.when("the session to wait for a place", waits).await?;
        short.stage.door.prompt(&short.stage.id, "too early").await?.expect(507);
        if is_killed {
            short.stage.kill().await?;
            assert_eq!(short.stage.dead().await?.end_reason, Some(EndReason::Killed));
        } else {
            short.free_places()?;
            short.stage.door.running(&short.stage.id, LIMIT).await?;
            short.stage.watch = Watch::open(&short.stage.door, &short.stage.id).await?;
            assert_eq!(short.stage.turn("hello").await?, "end_turn");
        }
        assert_eq!(short.stage.door.session(&first).await?.status, Status::Running, "others go on");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_waits_for_space_says_so_and_goes_by_itself() -> Outcome {
    for shortage in shortages() {
        let place = tempfile::tempdir()?;
        let gate = place.path().join("gate");
        let script = opened()
            .on_prompt(|turn| turn.await_file(&gate).fail_turn(-32603, "no"))
            .on_prompt(|turn| turn.chunk_of("m", "hello").end_turn());
        let mut short = Short::open(shortage, script).await?;
        short.stage.begin("first").await?;
        let queue = short.stage.queue_path();
        // Long enough for no rest of a page to hold it.
        let second = "second ".repeat(2000);
        short.stage.door.post(&queue, &json!({"text": second})).await?.expect(201);
        fs::write(&gate, "")?;
        assert_eq!(short.stage.watch.turn_end(LIMIT).await?, "error");
        short.fill(0)?;
        short.stage.go_on().await?;
        short.stalled().await?;
        assert_eq!(short.stage.received(), ["first"]);

        short.free()?;
        assert_eq!(short.stage.watch.turn_end(LIMIT).await?, "end_turn");
        assert_eq!(short.stage.received(), ["first", &second]);
        short.when("the words to go", |session| session.activity_detail.is_none()).await?;
        short.assert_whole()?;
    }
    Ok(())
}
