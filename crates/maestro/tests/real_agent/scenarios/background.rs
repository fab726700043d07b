use crate::{
    agent::Agent,
    stage::{LIMIT, Outcome, Stage},
};
use maestro_testkit::wait_until;
use serde_json::json;

pub(super) async fn a_turn_ends_before_its_background_command(agent: &Agent) -> Outcome {
    let mut stage = Stage::open(agent).await?;
    let command = "timeout 60 tail -f /dev/null";
    assert_eq!(
        stage.turn_with(&format!("Start it. [[bg {command}]]"), &json!("AllowOnce")).await?,
        "end_turn"
    );
    stage.command_runs(command).await?;
    assert!(stage.watch.state.turn.active_tool_calls.is_empty(), "a call outlives its turn");
    stage.is_alive().await
}

pub(super) async fn what_follows_a_background_command_is_asked_for(agent: &Agent) -> Outcome {
    let mut stage = Stage::open(agent).await?;
    let prompt =
        "Start it. [[bg sleep 3; echo bg-finished]] [[later bash touch later.txt && echo later-ran]]";
    assert_eq!(stage.turn_with(prompt, &json!("AllowOnce")).await?, "end_turn");
    stage.asked().await?;
    assert!(!stage.file("later.txt").exists(), "it ran before it was allowed");
    stage.decide(json!("AllowOnce")).await?;
    wait_until(LIMIT, "later.txt", || stage.file("later.txt").exists()).await?;
    assert_eq!(stage.turn("Anything new? [[say nothing new]]").await?, "end_turn");
    Ok(())
}

pub(super) async fn a_background_command_outlives_a_cancel_and_not_its_session(agent: &Agent) -> Outcome {
    let mut stage = Stage::open(agent).await?;
    let command = "timeout 64 tail -f /dev/null";
    assert_eq!(
        stage.turn_with(&format!("Start it. [[bg {command}]]"), &json!("AllowOnce")).await?,
        "end_turn"
    );
    stage.command_runs(command).await?;
    stage.door().cancel(&stage.id).await?.expect(202);
    stage.is_alive().await?;
    stage.command_runs(command).await?;
    stage.door().delete(&format!("/api/sessions/{}", stage.id)).await?.expect(204);
    stage.everything_ends().await
}
