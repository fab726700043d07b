use crate::stage::{AGENT, LIMIT, Outcome, Stage, builder, opened, turns};
use maestro_protocol::{EndReason, Status};
use maestro_testkit::{Descent, Steps, is_gone, wait_until};
use serde_json::json;
use std::fs;

const WILD: Descent = Descent { setsid: true, double_fork: true, ignore_signals: true, hold_stdout: true };

fn breeds(turn: Steps) -> Steps {
    turn.ignore_signals().descend(WILD).descend(Descent { double_fork: false, ..WILD }).chunk("bred").hang()
}

/// A session whose agent ignores signals and has left wild processes behind.
async fn bred() -> Result<Stage, Box<dyn std::error::Error>> {
    let mut stage = Stage::open(opened().on_prompt(breeds)).await?;
    stage.begin("go").await?;
    stage.says("bred").await?;
    let born = || stage.record().descendants().len() == 2;
    wait_until(LIMIT, "the descendants", born).await?;
    Ok(stage)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_ends_all_that_the_agent_started() -> Outcome {
    let stage = bred().await?;
    assert!(stage.processes().len() >= 3);
    stage.kill().await?;
    assert_eq!(stage.processes(), Vec::<u32>::new(), "a kill is answered when nothing runs any more");
    assert_eq!(stage.dead().await?.end_reason, Some(EndReason::Killed));
    stage.kill().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_outlives_a_killed_daemon() -> Outcome {
    let mut stage = bred().await?;
    stage.daemon.kill()?;
    wait_until(LIMIT, "everything to be gone", || stage.processes().is_empty()).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exit_is_not_held_up_by_a_grandchild_with_the_pipe() -> Outcome {
    let leaves = |turn: Steps| turn.descend(WILD).chunk("bred").exit(5);
    let stage = Stage::open(opened().on_prompt(leaves)).await?;
    stage.begin("go").await?;
    let session = stage.dead().await?;
    assert!(session.activity_detail.is_some_and(|detail| detail.contains("code 5")));
    assert_eq!(stage.processes(), Vec::<u32>::new());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn many_sessions_leave_no_zombie_and_an_idle_one_lives() -> Outcome {
    let mut stage = Stage::open(turns(|turn| turn.chunk("here").end_turn())).await?;
    let daemon = stage.daemon.pid().ok_or("no daemon")?;
    for _ in 0..50 {
        let id = stage.door.create_session(AGENT, &stage.daemon.work(), json!({})).await?.id.to_string();
        stage.door.delete(&format!("/api/sessions/{id}")).await?.expect(204);
        assert_eq!(stage.door.session(&id).await?.status, Status::Dead);
    }
    assert_eq!(stage.turn("still there?").await?, "end_turn");
    let children = fs::read_to_string(format!("/proc/{daemon}/task/{daemon}/children")).unwrap_or_default();
    let threads = fs::read_dir(format!("/proc/{daemon}/task"))?;
    let mut all = vec![children];
    for thread in threads {
        all.push(fs::read_to_string(thread?.path().join("children")).unwrap_or_default());
    }
    let live = |pid: &&str| pid.parse().is_ok_and(|pid: u32| !is_gone(pid));
    let pids: std::collections::BTreeSet<&str> =
        all.iter().flat_map(|list| list.split_whitespace()).collect();
    assert_eq!(pids.len(), 1, "{pids:?} are children of the daemon, one guard is expected");
    assert!(pids.iter().all(live), "a zombie is left");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_agent_gets_what_it_may_have_and_no_more() -> Outcome {
    let builder = builder(turns(|turn| turn.inspect().end_turn()))
        .env("CANARY_SECRET", "canary")
        .env("SCRIPTED_KEY", "key")
        .agent_field(AGENT, "env_names", vec!["SCRIPTED_*"]);
    let mut stage = Stage::with(builder).await?;
    stage.turn("look").await?;
    let inspection = &stage.record().inspections()[0];
    let environment = &inspection.environment;
    assert!(
        !environment.contains_key("CANARY_SECRET") && !environment.contains_key("DATA_PATH"),
        "{environment:#?}"
    );
    assert_eq!(environment.get("SCRIPTED_KEY").map(String::as_str), Some("key"));
    assert_eq!(environment.get("MAESTRO_SESSION"), Some(&stage.id));
    let numbers: Vec<u32> = inspection.descriptors.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [0, 1, 2], "{:?}", inspection.descriptors);
    assert_ne!(inspection.umask, "0077", "the agent gets the person's umask");
    assert_eq!(inspection.cwd, stage.daemon.work().canonicalize()?.display().to_string());
    Ok(())
}
