//! System calls of the daemon that fail, or take long, where the log is written. `strace` makes the kernel do that to a
//! daemon that runs.

use crate::stage::{AGENT, LIMIT, Outcome, Stage, builder, opened};
use maestro_protocol::{EndReason, Health, HealthStatus, TroubleKind};
use maestro_testkit::{Steps, Watch, wait_until};
use serde_json::{Value, json};
use std::{
    error::Error,
    fs,
    io::{self, BufRead as _, BufReader, Write as _},
    process::{Child, Command, Stdio},
};

/// A fault that lasts until it is dropped.
struct Fault(Child);

impl Fault {
    /// Makes system calls of a process fail or wait, as `inject` of strace(1) says. `None` where there is no strace, or
    /// where it may not.
    fn inject(pid: u32, calls: &str, fault: &str) -> Result<Option<Self>, Box<dyn Error>> {
        let traced = format!("trace={calls}");
        let injected = format!("inject={calls}:{fault}");
        let mut command = Command::new("strace");
        command.args(["-f", "-o", "/dev/null", "-e", &traced, "-e", &injected, "-p", &pid.to_string()]);
        let spawned = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        if let Ok(mut child) = spawned {
            let mut told = BufReader::new(child.stderr.take().ok_or("no stderr")?);
            let mut line = String::new();
            told.read_line(&mut line)?;
            if line.contains("attached") {
                // It tells of each thread; nobody may stop it by not listening.
                std::thread::spawn(move || io::copy(&mut told, &mut io::sink()));
                return Ok(Some(Self(child)));
            }
            child.kill()?;
            child.wait()?;
        }
        writeln!(io::stderr(), "left out: there is no strace here, or it may not look at a process")?;
        Ok(None)
    }

    fn end(mut self) -> Outcome {
        rustix::process::kill_process(
            rustix::process::Pid::from_child(&self.0),
            rustix::process::Signal::TERM,
        )?;
        self.0.wait()?;
        Ok(())
    }
}

impl Drop for Fault {
    fn drop(&mut self) {
        // It has ended unless its test is failing.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

async fn health(stage: &Stage) -> Result<Health, Box<dyn Error>> {
    Ok(stage.door.get("/api/health").await?.expect(200).read())
}

fn says(word: &str) -> impl Fn(Steps) -> Steps {
    move |turn: Steps| turn.chunk_of(word, word).end_turn()
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_failed_sync_nothing_is_acknowledged_until_the_log_was_opened_anew() -> Outcome {
    let script = opened()
        .on_prompt(says("first"))
        .on_every_prompt(says("never"))
        .next_process()
        .initialize()
        .load_session(|steps| steps)
        .on_every_prompt(says("again"));
    let mut stage = Stage::open(script).await?;
    stage.turn("one").await?;
    let pid = stage.daemon.pid().ok_or("no daemon")?;
    let Some(fault) = Fault::inject(pid, "fdatasync", "error=EIO")? else { return Ok(()) };
    let refused = stage.door.prompt(&stage.id, "two").await?.expect(409);
    assert_eq!(refused.json()["code"], "log_failed");
    let session = stage.dead().await?;
    assert_eq!(session.end_reason, Some(EndReason::LogFailed));
    assert!(
        session.activity_detail.is_some_and(|detail| detail.contains("did not confirm")),
        "what happened"
    );
    fault.end()?;

    // The disk is well again, and still nothing is taken for written.
    let path = format!("/api/sessions/{}", stage.id);
    let refused = stage.door.patch(&path, &json!({"title": "lost?"})).await?.expect(409);
    assert_eq!(refused.json()["code"], "log_failed");
    stage.door.prompt(&stage.id, "three").await?.expect(409);
    assert_eq!(stage.record().calls("session/prompt").len(), 1, "what is not on the disk is not sent");
    let lost = health(&stage).await?;
    assert_eq!(lost.status, HealthStatus::Degraded);
    assert!(lost.troubles.iter().any(|trouble| trouble.kind == TroubleKind::LogLost), "{lost:?}");
    let sidecar = || -> Result<Value, Box<dyn Error>> {
        let path = stage.daemon.data().join(format!("sessions/{}.json", stage.id));
        Ok(serde_json::from_slice(&fs::read(path)?)?)
    };
    assert!(sidecar()?["doubtful_from"].is_u64(), "a later daemon knows of the doubt");

    stage.door.post(&format!("{path}/restart"), &json!({})).await?.expect(202);
    stage.door.running(&stage.id, LIMIT).await?;
    assert!(sidecar()?["doubtful_from"].is_null());
    stage.watch = Watch::open(&stage.door, &stage.id).await?;
    stage.turn("four").await?;
    assert_eq!(stage.watch.text("agent"), "firstagain");
    assert!(stage.watch.text("user").starts_with("onetwo"), "what was written is there");
    stage.door.patch(&path, &json!({"title": "kept"})).await?.expect(200);
    assert!(health(&stage).await?.troubles.iter().all(|trouble| trouble.kind != TroubleKind::LogLost));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_sync_of_one_session_leaves_the_others_alone() -> Outcome {
    let daemon = builder(opened().on_every_prompt(says("well"))).start()?;
    let door = daemon.door();
    let mut ids = Vec::new();
    for _ in 0..2 {
        let id = door.create_session(AGENT, &daemon.work(), json!({})).await?.id.to_string();
        door.running(&id, LIMIT).await?;
        ids.push(id);
    }
    let pid = daemon.pid().ok_or("no daemon")?;
    let Some(fault) = Fault::inject(pid, "fdatasync", "error=EIO")? else { return Ok(()) };
    door.prompt(&ids[0], "lost").await?.expect(409);
    door.dead(&ids[0], LIMIT).await?;
    fault.end()?;
    let mut watch = Watch::open(&door, &ids[1]).await?;
    door.prompt(&ids[1], "go").await?.expect(202);
    assert_eq!(watch.turn_end(LIMIT).await?, "end_turn");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_writes_pause_the_reader_and_are_told() -> Outcome {
    let pieces: Vec<String> = (0..6).map(|number| format!("<{number}>")).collect();
    // What comes while a write lasts makes one write together: each piece comes after the one before it is over.
    let script = opened().on_prompt(|turn| {
        pieces.iter().fold(turn, |turn, piece| turn.chunk_of("m", piece).wait(350)).end_turn()
    });
    let mut stage = Stage::open(script).await?;
    assert!(health(&stage).await?.troubles.is_empty());
    let pid = stage.daemon.pid().ok_or("no daemon")?;
    let Some(fault) = Fault::inject(pid, "pwrite64", "delay_enter=150000")? else { return Ok(()) };
    assert_eq!(stage.turn("go").await?, "end_turn");
    fault.end()?;
    assert_eq!(stage.watch.text("agent"), pieces.concat());
    let told = health(&stage).await?;
    let slow = told.troubles.iter().find(|trouble| trouble.kind == TroubleKind::SlowDisk);
    let slow = slow.ok_or_else(|| format!("nothing is told of slow writes: {told:?}"))?;
    assert_eq!(slow.session.map(|id| id.to_string()).as_deref(), Some(stage.id.as_str()));
    assert!(slow.count.is_some_and(|count| count > 5), "{slow:?}");
    assert_eq!(told.status, HealthStatus::Degraded);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sidecar_that_cannot_be_read_is_told_and_left_alone() -> Outcome {
    let mut stage = Stage::open(opened().on_every_prompt(says("well"))).await?;
    stage.daemon.stop()?;
    let path = stage.daemon.data().join(format!("sessions/{}.json", stage.id));
    fs::write(&path, "{")?;
    stage.daemon.start()?;
    let told = health(&stage).await?;
    let kinds: Vec<TroubleKind> = told.troubles.iter().map(|trouble| trouble.kind).collect();
    assert_eq!(kinds, [TroubleKind::SidecarUnreadable]);
    assert_eq!(told.sessions.running + told.sessions.starting + told.sessions.dead, 0);
    assert_eq!(fs::read_to_string(&path)?, "{");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_kept_no_prompt_is_not_asked_to_load_one() -> Outcome {
    let script = opened()
        .on_prompt(|turn| turn.fail_turn(-32000, "not signed in"))
        .next_process()
        .initialize()
        .new_session("acp-2")
        .on_prompt(says("well"));
    let mut stage = Stage::open(script).await?;
    assert_eq!(stage.turn("hello").await?, "error");
    stage.kill().await?;
    stage.dead().await?;
    stage.door.post(&format!("/api/sessions/{}/restart", stage.id), &json!({})).await?.expect(202);
    let session = stage.door.running(&stage.id, LIMIT).await?;
    assert_eq!(session.acp_session_id.as_deref(), Some("acp-2"));
    assert_eq!(stage.record().calls("session/load").len(), 0);
    stage.watch = Watch::open(&stage.door, &stage.id).await?;
    assert_eq!(stage.turn("hello again").await?, "end_turn");
    wait_until(LIMIT, "the log", || stage.log().is_ok_and(|log| log.contains("acp-2"))).await?;
    Ok(())
}
