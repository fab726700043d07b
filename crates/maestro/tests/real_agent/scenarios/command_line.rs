use super::TOUCH;
use crate::{
    agent::Agent,
    stage::{LIMIT, Outcome, Stage},
};
use serde_json::json;

pub(super) async fn the_command_line_runs_it(agent: &Agent) -> Outcome {
    let stage = Stage::open(agent).await?;
    let run = ["run", "Greet me. [[say Hello from the model.]]", "--agent", &agent.key];
    let output = stage.maestro(&run).await?;
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(stdout.contains("Hello from the model."), "{stdout}");
    Ok(())
}

pub(super) async fn the_command_line_allows_a_command(agent: &Agent) -> Outcome {
    let mut stage = Stage::open(agent).await?;
    stage.begin(TOUCH).await?;
    stage.asked().await?;
    let shown = stage.maestro(&["show", &stage.id]).await?;
    assert!(String::from_utf8_lossy(&shown.stdout).contains("touch made.txt"), "{shown:?}");
    let approved = stage.maestro(&["approve", &stage.id[..8]]).await?;
    assert_eq!(approved.status.code(), Some(0), "{approved:?}");
    assert_eq!(stage.watch.turn_end(LIMIT).await?, "end_turn");
    assert!(stage.file("made.txt").exists());
    let outcomes = stage.outcomes();
    assert_eq!((&outcomes[0]["what"], &outcomes[0]["decision"]), (&json!("selected"), &json!("AllowOnce")));
    Ok(())
}
