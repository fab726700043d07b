use crate::stage::{AGENT, LIMIT, Outcome, Stage, builder, opened, turns};
use maestro_protocol::{EndReason, Session, TranscriptRow, TranscriptRowKind};
use maestro_testkit::{Script, Steps};
use serde_json::{Value, json};
use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    time::{Duration, Instant},
};

fn detail(session: &Session) -> &str {
    session.activity_detail.as_deref().unwrap_or_default()
}

/// Lets the agent misbehave in a turn and then say `alive`; the reasons of the notices it made.
async fn survives(misbehave: impl FnOnce(Steps) -> Steps) -> Result<Vec<Value>, Box<dyn std::error::Error>> {
    let mut stage = Stage::open(
        opened().on_prompt(|turn| misbehave(turn.chunk_of("a", "before")).chunk_of("b", "alive").end_turn()),
    )
    .await?;
    assert_eq!(stage.turn("go").await?, "end_turn");
    assert!(stage.watch.text("agent").contains("alive"));
    let notices = stage.rows(TranscriptRowKind::Notice);
    let reason = |row: &&TranscriptRow| row.data["reason"].clone();
    Ok(notices.iter().map(reason).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_killed_in_mid_turn_is_a_dead_session() -> Outcome {
    let script =
        opened().on_prompt(|turn| turn.chunk("last words").permission(1, "t1", "ls").note("asked").hang());
    let mut stage = Stage::open(script).await?;
    stage.begin("go").await?;
    stage.asked().await?;
    let agent = stage.record().processes()[0];
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(i32::try_from(agent)?).ok_or("no pid")?,
        rustix::process::Signal::KILL,
    )?;
    assert_eq!(stage.watch.closed(LIMIT).await?, Some(4410));
    let session = stage.dead().await?;
    assert_eq!(session.end_reason, Some(EndReason::Exited));
    assert!(detail(&session).contains("signal 9"), "{session:#?}");
    assert_eq!(stage.watch.text("agent"), "last words");
    assert_eq!(stage.outcomes()[0]["because"], "session_ended");
    assert_eq!(stage.watch.state.turn.last_end.as_ref().map(|end| end.reason.as_str()), Some("interrupted"));
    assert_eq!(stage.record().processes().len(), 1, "it is not started again by itself");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_ends_during_its_handshake_says_at_which_step() -> Outcome {
    let script = Script::new().then(|steps| steps.expect("initialize", "initialize").flood_stderr(1).exit(3));
    let daemon = builder(script).start()?;
    let door = daemon.door();
    let id = door.create_session(AGENT, &daemon.work(), json!({})).await?.id.to_string();
    let session = door.dead(&id, LIMIT).await?;
    assert_eq!(session.end_reason, Some(EndReason::HandshakeFailed));
    assert!(
        detail(&session).contains("initialize") && detail(&session).contains("stderr"),
        "{}",
        detail(&session)
    );
    assert_eq!(daemon.record(AGENT).processes().len(), 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_of_50_mb_is_a_notice() -> Outcome {
    assert_eq!(survives(|turn| turn.long_line(50)).await?, ["too_long"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_no_message_are_notices() -> Outcome {
    assert_eq!(survives(Steps::invalid_utf8).await?, ["not_utf8"]);
    assert_eq!(survives(Steps::nul).await?, ["not_json"]);
    assert_eq!(survives(Steps::byte_order_mark).await?, ["not_json"]);
    assert_eq!(survives(Steps::lone_surrogate).await?.len(), 1);
    assert_eq!(survives(|turn| turn.nested(100_000)).await?, ["too_deep"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_shapes_and_stray_messages_change_nothing_else() -> Outcome {
    let notices =
        survives(|turn| turn.wrong_shapes().stray_answer().unknown_request("odd-id").await_answer("odd-id"))
            .await?;
    assert!(!notices.is_empty());
    let mut stage = Stage::open(turns(|turn| {
        turn.unknown_request("odd-id").await_answer("odd-id").end_turn().end_turn()
    }))
    .await?;
    assert_eq!(stage.turn("go").await?, "end_turn");
    assert_eq!(stage.record().answers("odd-id")[0]["error"]["code"], -32601);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_cannot_forge_a_line_of_the_daemon() -> Outcome {
    let forged = json!({"jsonrpc": "2.0", "method": "session/update", "params": {
        "maestroEvent": "summary", "summary": "forged", "at": "2026-01-01T00:00:00Z", "update": {"sessionUpdate": "x"}}});
    let mut stage =
        Stage::open(opened().on_prompt(|turn| turn.send(forged).chunk("done").end_turn())).await?;
    stage.turn("the title").await?;
    assert_eq!(stage.watch.state.title.as_deref(), Some("the title"));
    assert_eq!(stage.rows(TranscriptRowKind::Notice)[0].data["reason"], "refused");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn half_a_line_before_an_exit_is_kept_as_such() -> Outcome {
    let mut stage =
        Stage::open(opened().on_prompt(|turn| turn.chunk("whole").partial_line().exit(7))).await?;
    stage.begin("go").await?;
    stage.watch.closed(LIMIT).await?;
    assert!(detail(&stage.dead().await?).contains("code 7"));
    assert_eq!(stage.rows(TranscriptRowKind::Notice)[0].data["reason"], "partial");
    assert_eq!(stage.watch.text("agent"), "whole");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_closes_its_output_is_ended() -> Outcome {
    let stage = Stage::open(opened().on_prompt(|turn| turn.close_stdout().hang())).await?;
    stage.begin("go").await?;
    let session = stage.dead().await?;
    assert_eq!(session.end_reason, Some(EndReason::Exited));
    assert!(detail(&session).contains("closed its output"), "{}", detail(&session));
    assert_eq!(stage.processes(), Vec::<u32>::new());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_on_stderr_holds_nothing_up_and_its_end_is_shown() -> Outcome {
    let mut stage = Stage::open(
        opened()
            .on_prompt(|turn| turn.flood_stderr(32).chunk("still here").end_turn())
            .on_prompt(|turn| turn.exit(1)),
    )
    .await?;
    assert_eq!(stage.turn("go").await?, "end_turn");
    stage.begin("end").await?;
    let session = stage.dead().await?;
    assert!(detail(&session).contains("eeee") && detail(&session).len() < 80 * 1024);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_on_stdout_starves_nobody() -> Outcome {
    let mut stage =
        Stage::open(opened().on_prompt(|turn| turn.flood_stdout(24).await_cancel().stop("cancelled")))
            .await?;
    stage.begin("go").await?;
    stage.watch.until(LIMIT, "the flood", |watch| !watch.text("agent").is_empty()).await?;
    let asked = Instant::now();
    stage.door.session(&stage.id).await?;
    stage.door.cancel(&stage.id).await?.expect(202);
    assert!(asked.elapsed() < Duration::from_secs(5), "a cancel took {:?}", asked.elapsed());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_does_not_read_can_be_cancelled_and_killed() -> Outcome {
    let script = opened().on_prompt(|turn| turn.chunk("deaf").stop_reading().hang());
    let mut stage = Stage::open(script).await?;
    stage.begin("go").await?;
    stage.says("deaf").await?;
    let asked = Instant::now();
    stage.door.cancel(&stage.id).await?.expect(202);
    assert_eq!(stage.dead().await?.end_reason, Some(EndReason::CancelUnsettled));
    stage.kill().await?;
    assert!(asked.elapsed() < Duration::from_secs(15), "it took {:?}", asked.elapsed());
    assert_eq!(stage.processes(), Vec::<u32>::new());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_prompt_that_is_never_read_ends_the_session() -> Outcome {
    let script = opened().on_prompt(|turn| turn.end_turn().stop_reading().note("deaf").hang());
    let mut stage = Stage::open(script).await?;
    stage.turn("go").await?;
    stage.record().wait_for_note(LIMIT, "deaf")?;
    stage.begin(&"x".repeat(5 * 1024 * 1024)).await?;
    let session = stage.door.dead(&stage.id, Duration::from_mins(1)).await?;
    assert_eq!(session.end_reason, Some(EndReason::Exited));
    assert!(detail(&session).contains("did not read its input for 30 s"), "{}", detail(&session));
    assert_eq!(stage.processes(), Vec::<u32>::new());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_cannot_run_is_said_so_once() -> Outcome {
    let counted = "#!/bin/sh\necho x >> \"$0.tries\"\nexit 127\n";
    for (content, mode, reason, words) in [
        (counted, 0o755, EndReason::HandshakeFailed, "127"),
        ("#!/no/such/interpreter\n", 0o755, EndReason::HandshakeFailed, "agent"),
        ("no program at all", 0o755, EndReason::HandshakeFailed, "agent"),
        ("#!/bin/sh\n", 0o644, EndReason::AdapterMissing, "agent"),
    ] {
        let place = tempfile::tempdir()?;
        let program = place.path().join("agent");
        fs::write(&program, content)?;
        fs::set_permissions(&program, fs::Permissions::from_mode(mode))?;
        let daemon =
            builder(opened()).agent_field("odd", "program", program.display().to_string()).start()?;
        let door = daemon.door();
        let id = door.create_session("odd", &daemon.work(), json!({})).await?.id.to_string();
        let session = door.dead(&id, LIMIT).await?;
        assert_eq!(session.end_reason, Some(reason), "{content}");
        assert!(detail(&session).contains(words), "{content}: {}", detail(&session));
        if content == counted {
            assert_eq!(fs::read_to_string(place.path().join("agent.tries"))?, "x\n", "one try");
        }
    }
    Ok(())
}
