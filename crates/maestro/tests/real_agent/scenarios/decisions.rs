use super::TOUCH;
use crate::{
    agent::Agent,
    stage::{Credentials, LIMIT, Outcome, Place, Stage},
};
use maestro_protocol::{PermissionOptionKind, TranscriptRowKind};
use maestro_testkit::wait_until;
use serde_json::{Value, json};
use std::fs;

pub(super) async fn a_command_runs_once_it_is_allowed(agent: &Agent) -> Outcome {
    let mut stage = Stage::open(agent).await?;
    stage.begin(TOUCH).await?;
    stage.asked().await?;
    let question = stage.rows(TranscriptRowKind::Approval);
    assert!(
        question[0].to_string().contains("touch made.txt"),
        "the question does not say what for: {question:#?}"
    );
    assert!(!stage.file("made.txt").exists(), "it ran before it was allowed");
    stage.decide(json!("AllowOnce")).await?;
    assert_eq!(stage.watch.turn_end(LIMIT).await?, "end_turn");
    assert!(stage.file("made.txt").exists());
    let outcomes = stage.outcomes();
    assert_eq!((outcomes.len(), &outcomes[0]["what"]), (1, &json!("selected")), "{outcomes:#?}");
    let tools = stage.tools();
    assert!(!tools.is_empty() && tools.iter().all(|tool| tool["status"] == "completed"), "{tools:#?}");
    Ok(())
}

pub(super) async fn what_is_allowed_for_the_session_is_not_asked_again(agent: &Agent) -> Outcome {
    let mut stage = Stage::open(agent).await?;
    let always = json!("AllowForSession");
    assert_eq!(stage.turn_with(TOUCH, &always).await?, "end_turn");
    assert!(stage.file("made.txt").exists());
    fs::remove_file(stage.file("made.txt"))?;
    assert_eq!(stage.turn_with(TOUCH, &always).await?, "end_turn");
    assert!(stage.file("made.txt").exists());
    let requests = if agent.ways().asks_again { 2 } else { 1 };
    assert_eq!(stage.outcomes().len(), requests);
    Ok(())
}

pub(super) async fn a_denied_command_does_not_run(agent: &Agent) -> Outcome {
    let mut stage = Stage::open(agent).await?;
    assert_eq!(stage.turn_with(TOUCH, &json!("Deny")).await?, agent.ways().refusal_ends);
    assert!(!stage.file("made.txt").exists());
    let outcomes = stage.outcomes();
    assert_eq!((outcomes.len(), &outcomes[0]["decision"]), (1, &json!("Deny")), "{outcomes:#?}");
    assert!(stage.watch.state.turn.active_tool_calls.is_empty());
    stage.is_alive().await?;
    assert!(!stage.file("made.txt").exists());
    Ok(())
}

pub(super) async fn a_new_file_and_a_change_are_diffs(agent: &Agent) -> Outcome {
    let mut stage = Stage::open(agent).await?;
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
    let tools = stage.tools();
    assert!(tools.iter().all(|row| row["status"] == "completed"), "{tools:#?}");
    if !agent.ways().diffs {
        return Ok(());
    }
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
    Ok(())
}

pub(super) async fn a_denied_file_is_not_written(agent: &Agent) -> Outcome {
    let mut stage = Stage::open(agent).await?;
    let path = stage.file("notes.txt").display().to_string();
    let reason = stage.turn_with(&format!("Write it. [[write {path} first line]]"), &json!("Deny")).await?;
    assert_eq!(reason, agent.ways().refusal_ends);
    assert!(!stage.file("notes.txt").exists());
    assert_eq!(stage.outcomes().len(), 1);
    stage.is_alive().await?;
    assert!(!stage.file("notes.txt").exists());
    Ok(())
}

pub(super) async fn a_subagents_command_is_asked_for(agent: &Agent) -> Outcome {
    let mut stage = Stage::open(agent).await?;
    let prompt = "Delegate. [[agent bash touch sub.txt && echo from-sub]]";
    assert_eq!(stage.turn_with(prompt, &json!("AllowOnce")).await?, "end_turn");
    assert!(stage.file("sub.txt").exists());
    assert_eq!(stage.outcomes().len(), 1);
    let tools = stage.tools();
    let of_subagent = |tool: &&&Value| tool["rawInput"]["command"] == "touch sub.txt && echo from-sub";
    assert_eq!(tools.iter().filter(of_subagent).count(), 1, "{tools:#?}");
    assert!(tools.len() > 1 && tools.iter().all(|tool| tool["status"] == "completed"), "{tools:#?}");
    Ok(())
}

pub(super) async fn a_plan_is_approved_by_an_option_of_the_agent(agent: &Agent) -> Outcome {
    let place = Place::open(agent, Credentials::Dummy)?;
    let mut stage = place.running(json!({"mode": agent.ways().plan_mode})).await?;
    stage.begin("Propose. [[plan 1. Read the code. 2. Change it.]]").await?;
    stage.asked().await?;
    let options = stage.watch.state.pending_approval.as_ref().map(|pending| pending.options.clone());
    let options = options.unwrap_or_default();
    let once = options.iter().find(|option| option.kind == PermissionOptionKind::AllowOnce);
    let once = once.ok_or_else(|| format!("none of {options:#?} allows it once"))?;
    stage.decide(json!({"option": once.option_id})).await?;
    assert_eq!(stage.watch.turn_end(LIMIT).await?, "end_turn");
    let mode = stage.watch.state.mode.as_ref().and_then(|mode| mode.current.clone());
    assert_ne!(mode.as_deref(), Some(agent.ways().plan_mode.as_str()), "the approved plan ends the mode");
    Ok(())
}
