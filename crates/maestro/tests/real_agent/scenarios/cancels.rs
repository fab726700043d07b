use super::TOUCH;
use crate::{
    agent::Agent,
    stage::{LIMIT, Outcome, Stage},
};
use serde_json::json;

pub(super) async fn a_turn_cancelled_in_mid_stream_settles(agent: &Agent) -> Outcome {
    let mut stage = Stage::open(agent).await?;
    stage.begin("Count. [[slow 20]]").await?;
    stage.watch.until(LIMIT, "text", |watch| watch.text("agent").contains("tick 3")).await?;
    stage.door().cancel(&stage.id).await?.expect(202);
    assert_eq!(stage.watch.turn_end(LIMIT).await?, "cancelled");
    stage.is_alive().await?;
    assert!(!stage.watch.text("agent").contains("tick 100"));
    Ok(())
}

pub(super) async fn a_cancel_withdraws_the_approval(agent: &Agent) -> Outcome {
    let mut stage = Stage::open(agent).await?;
    stage.begin(TOUCH).await?;
    let nonce = stage.asked().await?;
    stage.door().cancel(&stage.id).await?.expect(202);
    assert_eq!(stage.watch.turn_end(LIMIT).await?, "cancelled");
    let outcomes = stage.outcomes();
    let outcome = (&outcomes[0]["what"], &outcomes[0]["because"]);
    assert_eq!(outcome, (&json!("cancelled"), &json!("turn_cancelled")));
    stage.door().decide(&stage.id, &nonce, json!("AllowOnce")).await?.expect(204);
    stage.is_alive().await?;
    assert!(!stage.file("made.txt").exists(), "a late answer allowed what was withdrawn");
    Ok(())
}

pub(super) async fn a_cancel_closes_the_running_call(agent: &Agent) -> Outcome {
    let mut stage = Stage::open(agent).await?;
    let command = "timeout 61 tail -f /dev/null";
    stage.begin_command(command).await?;
    stage.watch.until(LIMIT, "an open call", |watch| !watch.state.turn.active_tool_calls.is_empty()).await?;
    stage.door().cancel(&stage.id).await?.expect(202);
    assert_eq!(stage.watch.turn_end(LIMIT).await?, "cancelled");
    assert!(stage.watch.state.turn.active_tool_calls.is_empty());
    let tools = stage.tools();
    let is_over = |tool: &serde_json::Value| {
        tool["status"] == "failed"
            || tool["status"] == "completed"
            || tool["_meta"]["maestro"]["settled"] == "interrupted"
    };
    assert!(tools.iter().all(|tool| is_over(tool)), "{tools:#?}");
    if agent.ways().commands_outlive_cancel {
        stage.is_alive().await?;
        stage.command_runs(command).await?;
        stage.door().delete(&format!("/api/sessions/{}", stage.id)).await?.expect(204);
        return stage.everything_ends().await;
    }
    stage.command_ends(command).await?;
    stage.is_alive().await
}

pub(super) async fn a_prompt_right_behind_a_cancel_has_a_turn_of_its_own(agent: &Agent) -> Outcome {
    let mut stage = Stage::open(agent).await?;
    stage.begin("Count. [[slow 15]]").await?;
    stage.watch.until(LIMIT, "text", |watch| watch.text("agent").contains("tick 3")).await?;
    stage.door().cancel(&stage.id).await?.expect(202);
    stage.begin("Say it. [[say second answer]]").await?;
    let both_ended = |watch: &maestro_testkit::Watch| {
        watch.text("agent").contains("second answer") && !watch.state.turn.active
    };
    stage.watch.until(LIMIT, "the second answer", both_ended).await?;
    assert_eq!(stage.watch.state.turn.last_end.as_ref().map(|end| end.reason.as_str()), Some("end_turn"));
    assert!(!stage.watch.text("agent").contains("tick 75"));
    stage.is_alive().await
}
