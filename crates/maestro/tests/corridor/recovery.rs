use crate::stage::{AGENT, LIMIT, Outcome, Stage, builder, opened};
use maestro_protocol::{EndReason, Status};
use maestro_testkit::{Script, Steps, Watch, wait_until};
use serde_json::{Value, json};
use std::{fs, io::Write as _};

fn talks(turn: Steps) -> Steps {
    turn.chunk_of("m1", "an answer").end_turn()
}

/// The first process makes a session, the next ones load it and replay what the log has already.
fn comes_back() -> Script {
    let replay = |steps: Steps| steps.echo("hello").chunk_of("m1", "an answer");
    opened()
        .on_every_prompt(talks)
        .next_process()
        .initialize()
        .load_session(replay)
        .on_every_prompt(|turn| turn.chunk_of("m2", "after the load").end_turn())
}

fn answers_with(script: Script) -> Script {
    script.on_every_prompt(talks)
}

impl Stage {
    fn marker(&self) -> bool {
        self.daemon.data().join(format!("sessions/{}.recover", self.id)).exists()
    }

    async fn reopen(&mut self) -> Outcome {
        self.door.running(&self.id, LIMIT).await?;
        self.watch = Watch::open(&self.door, &self.id).await?;
        Ok(())
    }

    async fn restart_refused(&self, code: &str) -> Outcome {
        let refused =
            self.door.post(&format!("/api/sessions/{}/restart", self.id), &json!({})).await?.expect(409);
        assert_eq!(refused.json()["code"], code);
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graceful_restart_brings_a_session_back_once() -> Outcome {
    let mut stage = Stage::open(comes_back()).await?;
    stage.turn("hello").await?;
    let before = stage.watch.rows.clone();
    assert!(stage.daemon.stop()?.success());
    assert_eq!(stage.watch.closed(LIMIT).await?, Some(1012));
    assert!(stage.marker());
    assert_eq!(stage.processes(), Vec::<u32>::new());
    stage.daemon.start()?;
    stage.reopen().await?;
    assert!(!stage.marker(), "the marker is for one attempt");
    assert_eq!(stage.watch.rows, before, "what the agent replays is not the transcript");
    assert_eq!(stage.record().calls("session/load")[0]["params"]["sessionId"], "acp-1");
    stage.turn("again").await?;
    assert!(stage.watch.text("agent").contains("after the load"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_recovery_is_not_tried_again() -> Outcome {
    let refuses = |steps: Steps| steps.expect("session/load", "load").fail("load", -32002, "no such session");
    let mut stage = Stage::open(answers_with(opened()).next_process().initialize().then(refuses)).await?;
    stage.turn("hello").await?;
    stage.daemon.stop()?;
    stage.daemon.start()?;
    let session = stage.dead().await?;
    assert_eq!(session.end_reason, Some(EndReason::HandshakeFailed));
    assert!(session.activity_detail.is_some_and(|detail| detail.contains("no such session")));
    stage.daemon.stop()?;
    stage.daemon.start()?;
    let session = stage.door.session(&stage.id).await?;
    assert_eq!((session.status, session.end_reason), (Status::Dead, Some(EndReason::HandshakeFailed)));
    assert_eq!(stage.record().calls("session/load").len(), 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_without_a_prompt_comes_back_as_a_new_one() -> Outcome {
    let again = answers_with(Script::new().initialize().new_session("acp-2"));
    let mut stage = Stage::open(Script { processes: [opened().processes, again.processes].concat() }).await?;
    stage.daemon.stop()?;
    stage.daemon.start()?;
    stage.reopen().await?;
    let session = stage.door.session(&stage.id).await?;
    assert_eq!(session.acp_session_id.as_deref(), Some("acp-2"));
    stage.turn("hello").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pending_approval_is_not_armed_again() -> Outcome {
    let asks = |turn: Steps| turn.permission(1, "t1", "ls").await_cancel().await_answer(1).stop("cancelled");
    let script = opened()
        .on_prompt(asks)
        .next_process()
        .initialize()
        .load_session(|steps| steps)
        .on_every_prompt(Steps::end_turn);
    let mut stage = Stage::open(script).await?;
    stage.begin("go").await?;
    let nonce = stage.asked().await?;
    stage.daemon.stop()?;
    assert_eq!(stage.record().answers(1)[0]["result"]["outcome"]["outcome"], "cancelled");
    stage.daemon.start()?;
    stage.reopen().await?;
    assert_eq!(stage.watch.state.pending_approval, None);
    assert_eq!(stage.outcomes()[0]["because"], "session_ended");
    stage.decide(&nonce, json!("AllowOnce"), 204).await?;
    stage.turn("again").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_kill_of_the_daemon_the_log_is_closed_and_the_session_dead() -> Outcome {
    let asks = |turn: Steps| turn.chunk("working").permission(1, "t1", "ls").hang();
    let script = opened()
        .on_prompt(asks)
        .next_process()
        .initialize()
        .load_session(|steps| steps)
        .on_every_prompt(talks);
    let mut stage = Stage::open(script).await?;
    stage.begin("go").await?;
    stage.asked().await?;
    let before = stage.log()?;
    stage.daemon.kill()?;
    wait_until(LIMIT, "everything of the agent to be gone", || stage.processes().is_empty()).await?;
    assert!(!stage.marker());
    stage.daemon.start()?;
    let session = stage.door.session(&stage.id).await?;
    assert_eq!((session.status, session.end_reason), (Status::Dead, Some(EndReason::DaemonCrash)));
    wait_until(LIMIT, "the log to be closed", || {
        stage.log().is_ok_and(|log| log.contains(r#""reason":"interrupted""#))
    })
    .await?;
    let after = stage.log()?;
    assert!(after.starts_with(&before), "no line is lost or changed");
    assert!(after[before.len()..].contains(r#""because":"interrupted""#), "{after}");

    stage.door.post(&format!("/api/sessions/{}/restart", stage.id), &json!({})).await?.expect(202);
    stage.reopen().await?;
    stage.turn("again").await?;
    assert!(stage.watch.text("agent").contains("an answer"));
    assert_eq!(stage.outcomes()[0]["because"], "interrupted");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_torn_line_keeps_its_place() -> Outcome {
    let mut stage = Stage::open(comes_back()).await?;
    stage.turn("hello").await?;
    let lines = stage.watch.cursor;
    stage.daemon.stop()?;
    let path = stage.daemon.data().join(format!("sessions/{}.events.jsonl", stage.id));
    let at_rest = fs::read_to_string(&path)?.lines().count() as u64;
    assert!(at_rest >= lines);
    fs::OpenOptions::new().append(true).open(&path)?.write_all(br#"{"sessionId":"acp-1","upda"#)?;
    stage.daemon.start()?;
    stage.reopen().await?;
    let log = stage.log()?;
    assert!(log.lines().nth(usize::try_from(at_rest)?).is_some_and(|line| line.ends_with("upda")), "{log}");
    let page: Value = stage.door.replay(&stage.id, "limit=500").await?.expect(200).json();
    let cursors: Vec<u64> = page["events"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|event| event["cursor"].as_u64())
        .collect();
    assert!(!cursors.contains(&(at_rest + 1)) && cursors.contains(&(at_rest + 2)), "{cursors:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_is_refused_with_its_reason() -> Outcome {
    let no_load = Script::new().initialize_with(json!({"protocolVersion": 1})).new_session("acp-1");
    let mut stage = Stage::open(answers_with(no_load)).await?;
    stage.restart_refused("already_running").await?;
    stage.turn("hello").await?;
    stage.kill().await?;
    stage.restart_refused("cannot_resume").await?;

    let place = tempfile::tempdir()?;
    let cwd = place.path().join("project");
    fs::create_dir(&cwd)?;
    let id = stage.door.create_session(AGENT, &cwd, json!({})).await?.id.to_string();
    stage.door.running(&id, LIMIT).await?;
    stage.id = id;
    stage.kill().await?;
    fs::remove_dir(&cwd)?;
    stage.restart_refused("cwd_missing").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rename_of_a_dead_session_is_kept() -> Outcome {
    let mut stage = Stage::open(answers_with(opened())).await?;
    stage.turn("the first words").await?;
    assert_eq!(stage.door.session(&stage.id).await?.title, "the first words");
    stage.kill().await?;
    let path = format!("/api/sessions/{}", stage.id);
    let renamed: Value = stage.door.patch(&path, &json!({"title": "mine"})).await?.expect(200).json();
    assert_eq!(renamed["title"], "mine");
    stage.daemon.stop()?;
    stage.daemon.start()?;
    assert_eq!(stage.door.session(&stage.id).await?.title, "mine");
    stage.door.patch(&path, &json!({"title": ""})).await?.expect(200);
    assert_eq!(stage.door.session(&stage.id).await?.title, "the first words");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn one_daemon_at_a_time() -> Outcome {
    let daemon = builder(opened()).start()?;
    let mut second = daemon.command();
    second.args(["serve", "--data-path"]).arg(daemon.data());
    let output = tokio::task::spawn_blocking(move || second.output()).await??;
    assert_eq!(output.status.code(), Some(75));
    let holder = daemon.pid().ok_or("no daemon")?.to_string();
    assert!(String::from_utf8_lossy(&output.stderr).contains(&holder), "the holder is named");
    Ok(())
}

/// More sessions than are resumed at once, each with a prompt in its log and an agent that takes its time to load.
const MANY: usize = 7;

async fn many_stopped() -> Result<(Stage, Vec<String>), Box<dyn std::error::Error>> {
    let script = opened()
        .on_every_prompt(talks)
        .next_process()
        .initialize()
        .load_session(|steps| steps.wait(300))
        .on_every_prompt(|turn| turn.chunk_of("m2", "after the load").end_turn());
    let first = Script { processes: vec![script.processes[0].clone(); MANY] };
    let script = Script { processes: [first.processes, vec![script.processes[1].clone()]].concat() };
    let mut stage = Stage::open(script).await?;
    stage.turn("hello").await?;
    let mut ids = vec![stage.id.clone()];
    while ids.len() < MANY {
        let id = stage.door.create_session(AGENT, &stage.daemon.work(), json!({})).await?.id.to_string();
        stage.door.running(&id, LIMIT).await?;
        let mut watch = Watch::open(&stage.door, &id).await?;
        stage.door.prompt(&id, "hello").await?.expect(202);
        watch.turn_end(LIMIT).await?;
        ids.push(id);
    }
    assert!(stage.daemon.stop()?.success());
    Ok((stage, ids))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_waits_for_its_recovery_has_one_owner() -> Outcome {
    let (mut stage, ids) = many_stopped().await?;
    stage.daemon.start()?;
    for id in ids.iter().rev() {
        let mut watch = Watch::open(&stage.door, id).await?;
        stage.door.running(id, LIMIT).await?;
        stage.door.prompt(id, "again").await?.expect(202);
        watch.until(LIMIT, "the answer", |watch| watch.text("agent").contains("after the load")).await?;
        let page: Value = stage.door.replay(id, "limit=500").await?.expect(200).json();
        let cursors = page["events"].as_array().map_or(0, Vec::len) as u64;
        assert!(
            cursors >= watch.cursor,
            "every line is one that the fold knows: {cursors} of {}",
            watch.cursor
        );
    }
    assert_eq!(stage.record().calls("session/load").len(), MANY, "each is loaded once");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_during_a_recovery_leaves_everything_for_the_next() -> Outcome {
    let (mut stage, ids) = many_stopped().await?;
    stage.daemon.start()?;
    assert!(stage.daemon.stop()?.success());
    stage.daemon.start()?;
    for id in &ids {
        stage.door.running(id, LIMIT).await?;
    }
    Ok(())
}
