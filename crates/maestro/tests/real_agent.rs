//! Sessions of a real agent, claude-code-acp, with a scripted model behind it.

#[path = "real_agent/stage.rs"]
mod stage;

use maestro_protocol::{EndReason, Status, TranscriptRowKind};
use maestro_testkit::{Watch, live_processes_with, wait_until};
use serde_json::json;
use stage::{LIMIT, Outcome, Stage};
use std::{fs, process::Command};

/// The end of a test where there is no real agent.
macro_rules! open {
    () => {
        match Stage::open().await? {
            Some(stage) => stage,
            None => {
                println!("skipped: claude-code-acp (cargo xtask e2e)");
                return Ok(());
            }
        }
    };
}

const TOUCH: &str = "Run it. [[bash touch made.txt && echo made-it]]";

#[tokio::test(flavor = "multi_thread")]
async fn it_greets() -> Outcome {
    let mut stage = open!();
    assert_eq!(stage.turn("Greet me. [[say Hello there, this is the model.]]").await?, "end_turn");
    assert!(stage.watch.text("agent").contains("Hello there, this is the model."), "{:#?}", stage.watch.rows);
    assert!(stage.watch.text("user").starts_with("Greet me."));
    let mode = stage.watch.state.mode.as_ref().and_then(|mode| mode.current.clone());
    assert_eq!(mode.as_deref(), Some("default"), "a new session starts in the mode that asks");
    assert!(stage.watch.state.model.is_some() && stage.watch.state.commands.is_some());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn it_thinks_before_it_answers() -> Outcome {
    let mut stage = open!();
    stage.turn("Think. [[think First I look, then I answer.]] [[say The answer is 42.]]").await?;
    assert!(stage.watch.text("thought").contains("First I look, then I answer."));
    assert!(stage.watch.text("agent").contains("The answer is 42."));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_runs_once_it_is_allowed() -> Outcome {
    let mut stage = open!();
    stage.begin(TOUCH).await?;
    stage.asked().await?;
    assert!(!stage.file("made.txt").exists(), "it ran before it was allowed");
    stage.decide(json!("AllowOnce")).await?;
    assert_eq!(stage.watch.turn_end(LIMIT).await?, "end_turn");
    assert!(stage.file("made.txt").exists());
    let approvals = stage.rows(TranscriptRowKind::Approval);
    let outcome = &approvals[0]["_meta"]["maestro"]["outcome"];
    assert_eq!((approvals.len(), &outcome["what"]), (1, &json!("selected")), "{outcome}");
    assert!(stage.rows(TranscriptRowKind::ToolCall).iter().any(|tool| tool["status"] == "completed"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denied_command_does_not_run() -> Outcome {
    let mut stage = open!();
    stage.begin(TOUCH).await?;
    stage.decide(json!("Deny")).await?;
    stage.watch.turn_end(LIMIT).await?;
    assert!(!stage.file("made.txt").exists());
    assert_eq!(stage.turn("And then? [[say still alive]]").await?, "end_turn");
    assert!(stage.watch.text("agent").contains("still alive"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_allowed_for_the_session_is_not_asked_again() -> Outcome {
    let mut stage = open!();
    stage.begin(TOUCH).await?;
    stage.decide(json!("AllowForSession")).await?;
    assert_eq!(stage.watch.turn_end(LIMIT).await?, "end_turn");
    assert!(stage.file("made.txt").exists());
    fs::remove_file(stage.file("made.txt"))?;
    assert_eq!(stage.turn(TOUCH).await?, "end_turn");
    assert!(stage.file("made.txt").exists());
    assert_eq!(stage.rows(TranscriptRowKind::Approval).len(), 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_file_and_a_change_are_diffs() -> Outcome {
    let mut stage = open!();
    let path = stage.file("notes.txt").display().to_string();
    stage.begin(&format!("[[write {path} hello old world]] [[edit {path} old world => new world]]")).await?;
    for (before, after) in [(None, "hello old world"), (Some("hello old world"), "hello new world")] {
        stage.asked().await?;
        assert_eq!(fs::read_to_string(&path).ok().as_deref().map(str::trim_end), before);
        stage.decide(json!("AllowOnce")).await?;
        let written = || fs::read_to_string(&path).is_ok_and(|text| text.trim_end() == after);
        wait_until(LIMIT, after, written).await?;
    }
    assert_eq!(stage.watch.turn_end(LIMIT).await?, "end_turn");
    let diffs = stage.rows(TranscriptRowKind::ToolDiff);
    let is_shown = |old: Option<&str>, new: &str| {
        let blocks = diffs.iter().filter_map(|row| row["content"].as_array()).flatten();
        blocks.into_iter().any(|block| {
            let holds = |key: &str, text: &str| block[key].as_str().is_some_and(|have| have.contains(text));
            let old = old.map_or(block["oldText"].is_null(), |old| holds("oldText", old));
            block["type"] == "diff" && block["path"] == path.as_str() && old && holds("newText", new)
        })
    };
    assert!(is_shown(None, "hello old world"), "{diffs:#?}");
    assert!(is_shown(Some("old world"), "new world"), "{diffs:#?}");
    assert!(diffs.iter().all(|row| row["status"] == "completed"), "{diffs:#?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_is_one_row_that_moves_on() -> Outcome {
    let mut stage = open!();
    assert_eq!(stage.turn("Plan it. [[todo]] [[todo]] [[todo]] [[todo]]").await?, "end_turn");
    let plans = stage.rows(TranscriptRowKind::Plan);
    assert_eq!(plans.len(), 1);
    assert!(plans[0]["entries"].as_array().is_some_and(|entries| entries.len() > 1), "{plans:#?}");
    assert_eq!(stage.watch.state.plan.as_ref(), Some(plans[0]));

    // Frames may leave steps out; the replay has the state at every line.
    let mut steps: Vec<usize> = stage
        .events()
        .await?
        .iter()
        .filter_map(|event| event["state"]["plan"]["entries"].as_array())
        .map(|entries| entries.iter().filter(|entry| entry["status"] == "completed").count())
        .collect();
    assert!(steps.is_sorted(), "{steps:?}");
    steps.dedup();
    assert!(steps.len() > 2, "{steps:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_cancelled_in_mid_stream_settles() -> Outcome {
    let mut stage = open!();
    stage.begin("Count. [[slow 20]]").await?;
    stage.watch.until(LIMIT, "text", |watch| watch.text("agent").contains("tick 3")).await?;
    stage.door.cancel(&stage.id).await?.expect(202);
    assert_eq!(stage.watch.turn_end(LIMIT).await?, "cancelled");
    assert_eq!(stage.turn("Go on. [[say back again]]").await?, "end_turn");
    assert!(stage.watch.text("agent").contains("back again"));
    assert!(!stage.watch.text("agent").contains("tick 100"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_withdraws_the_approval() -> Outcome {
    let mut stage = open!();
    stage.begin(TOUCH).await?;
    let nonce = stage.asked().await?;
    stage.door.cancel(&stage.id).await?.expect(202);
    assert_eq!(stage.watch.turn_end(LIMIT).await?, "cancelled");
    let approvals = stage.rows(TranscriptRowKind::Approval);
    let outcome = &approvals[0]["_meta"]["maestro"]["outcome"];
    assert_eq!((&outcome["what"], &outcome["because"]), (&json!("cancelled"), &json!("turn_cancelled")));
    stage.door.decide(&stage.id, &nonce, json!("AllowOnce")).await?.expect(204);
    assert_eq!(stage.turn("Go on. [[say back again]]").await?, "end_turn");
    assert!(!stage.file("made.txt").exists(), "a late answer allowed what was withdrawn");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_comes_back_after_a_restart_of_the_daemon() -> Outcome {
    let mut stage = open!();
    stage.turn("First. [[think Let me see.]] [[say Working on it.]]").await?;
    stage.begin(TOUCH).await?;
    stage.decide(json!("AllowOnce")).await?;
    stage.watch.turn_end(LIMIT).await?;
    let (before, cursor) = (stage.watch.rows.clone(), stage.watch.cursor);
    let acp_session_id = stage.session().await?.acp_session_id;

    assert!(stage.daemon.stop()?.success());
    assert_eq!(stage.watch.closed(LIMIT).await?, Some(1012));
    assert_eq!(live_processes_with(&format!("MAESTRO_SESSION={}", stage.id)), Vec::<u32>::new());
    stage.daemon.start()?;

    let session = stage.door.running(&stage.id, LIMIT).await?;
    assert_eq!(session.acp_session_id, acp_session_id);
    stage.watch = Watch::open(&stage.door, &stage.id).await?;
    assert_eq!(stage.watch.rows, before, "the replay of the agent is not the transcript");
    assert!(stage.watch.cursor > cursor, "the new handshake stands behind the old lines");
    assert_eq!(stage.turn("After load. [[say loaded fine]]").await?, "end_turn");
    assert!(stage.watch.text("agent").contains("loaded fine"));
    let cursors: Vec<u64> =
        stage.events().await?.iter().filter_map(|event| event["cursor"].as_u64()).collect();
    assert_eq!(cursors, (1..=stage.watch.cursor).collect::<Vec<_>>());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_agent_is_a_dead_session_and_nothing_else() -> Outcome {
    let mut stage = open!();
    stage.begin("Count. [[slow 20]]").await?;
    stage.watch.until(LIMIT, "text", |watch| watch.text("agent").contains("tick 2")).await?;
    let marker = format!("MAESTRO_SESSION={}", stage.id);
    assert!(live_processes_with(&marker).len() > 1, "the agent and the process it works with");
    let agent =
        live_processes_with(&marker).into_iter().find(|pid| is_adapter(*pid)).ok_or("no adapter runs")?;
    assert!(Command::new("kill").args(["-9", &agent.to_string()]).status()?.success());

    assert_eq!(stage.watch.closed(LIMIT).await?, Some(4410));
    let session = stage.door.dead(&stage.id, LIMIT).await?;
    assert_eq!((session.status, session.end_reason), (Status::Dead, Some(EndReason::Exited)));
    assert!(
        session.activity_detail.as_deref().is_some_and(|detail| detail.contains("signal 9")),
        "{session:#?}"
    );
    assert_eq!(stage.watch.state.turn.last_end.as_ref().map(|end| end.reason.as_str()), Some("interrupted"));
    wait_until(LIMIT, "the whole tree to be gone", || live_processes_with(&marker).is_empty()).await?;
    stage.door.prompt(&stage.id, "anyone?").await?.expect(409);
    Ok(())
}

/// Whether this is the adapter itself, and neither its guard nor something below it.
fn is_adapter(pid: u32) -> bool {
    let cmdline = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    cmdline.contains("claude-code-acp") && !cmdline.contains("__guard")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_agent_says_how_to_install_it() -> Outcome {
    let stage = open!();
    let nowhere = json!({"env": {"PATH": "/nonexistent"}});
    let session = stage.door.create_session("claude-code-acp", &stage.daemon.work(), nowhere).await?;
    assert_eq!((session.status, session.end_reason), (Status::Dead, Some(EndReason::AdapterMissing)));
    let detail = session.activity_detail.unwrap_or_default();
    assert!(detail.contains(maestro_acp::INSTALL_COMMAND), "{detail}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_runs_it() -> Outcome {
    let stage = open!();
    let output = stage.maestro(&["run", "Greet me. [[say Hello from the model.]]"]).await?;
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(stdout.contains("Hello from the model."), "{stdout}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_allows_a_command() -> Outcome {
    let mut stage = open!();
    stage.begin(TOUCH).await?;
    stage.asked().await?;
    let shown = stage.maestro(&["show", &stage.id]).await?;
    assert!(String::from_utf8_lossy(&shown.stdout).contains("touch made.txt"), "{shown:?}");
    let approved = stage.maestro(&["approve", &stage.id[..8]]).await?;
    assert_eq!(approved.status.code(), Some(0), "{approved:?}");
    assert_eq!(stage.watch.turn_end(LIMIT).await?, "end_turn");
    assert!(stage.file("made.txt").exists());
    let approvals = stage.rows(TranscriptRowKind::Approval);
    let outcome = &approvals[0]["_meta"]["maestro"]["outcome"];
    assert_eq!((&outcome["what"], &outcome["decision"]), (&json!("selected"), &json!("AllowOnce")));
    Ok(())
}
