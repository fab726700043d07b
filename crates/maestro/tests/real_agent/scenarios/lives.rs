use super::TOUCH;
use crate::{
    agent::Agent,
    stage::{Credentials, LIMIT, Outcome, Place, Stage},
};
use maestro_protocol::{EndReason, Status};
use maestro_testkit::Watch;
use rustix::process::Signal;
use serde_json::json;

const COMMAND: &str = "timeout 62 tail -f /dev/null";

pub(super) async fn a_session_comes_back_after_a_restart_of_the_daemon(agent: &Agent) -> Outcome {
    let mut stage = Stage::open(agent).await?;
    stage.turn("First. [[think Let me see.]] [[say Working on it.]]").await?;
    stage.turn_with(TOUCH, &json!("AllowOnce")).await?;
    let (before, cursor) = (stage.watch.rows.clone(), stage.watch.cursor);
    let acp_session_id = stage.session().await?.acp_session_id;

    assert!(stage.place.daemon.stop()?.success());
    assert_eq!(stage.watch.closed(LIMIT).await?, Some(1012));
    assert_eq!(stage.processes(), Vec::<u32>::new());
    stage.place.daemon.start()?;

    let session = stage.door().running(&stage.id, LIMIT).await?;
    assert_eq!(session.acp_session_id, acp_session_id);
    stage.watch = Watch::open(stage.door(), &stage.id).await?;
    assert_eq!(stage.watch.rows, before, "the replay of the agent is not the transcript");
    assert!(stage.watch.cursor > cursor, "the new handshake stands behind the old lines");
    assert_eq!(stage.turn("After load. [[say loaded fine]]").await?, "end_turn");
    assert!(stage.watch.text("agent").contains("loaded fine"));
    stage.has_the_whole_log().await
}

pub(super) async fn a_session_killed_in_a_call_can_be_restarted(agent: &Agent) -> Outcome {
    let mut stage = Stage::open(agent).await?;
    stage.turn("First. [[say one]]").await?;
    stage.begin_command(COMMAND).await?;
    stage.signal_adapter(Signal::KILL)?;
    stage.door().dead(&stage.id, LIMIT).await?;
    stage.everything_ends().await?;

    stage.door().post(&format!("/api/sessions/{}/restart", stage.id), &json!({})).await?.expect(202);
    stage.door().running(&stage.id, LIMIT).await?;
    stage.watch = Watch::open(stage.door(), &stage.id).await?;
    assert!(stage.watch.state.turn.active_tool_calls.is_empty());
    let tools = stage.tools();
    assert!(tools.iter().all(|tool| tool["_meta"]["maestro"]["settled"] == "interrupted"), "{tools:#?}");
    stage.is_alive().await
}

pub(super) async fn a_killed_agent_is_a_dead_session_and_nothing_else(agent: &Agent) -> Outcome {
    let mut stage = Stage::open(agent).await?;
    stage.begin_command(COMMAND).await?;
    stage.signal_adapter(Signal::KILL)?;
    is_dead(&mut stage, "signal 9").await?;
    stage.door().prompt(&stage.id, "anyone?").await?.expect(409);
    Ok(())
}

pub(super) async fn a_terminated_agent_leaves_nothing_behind(agent: &Agent) -> Outcome {
    let mut stage = Stage::open(agent).await?;
    stage.begin_command(COMMAND).await?;
    stage.signal_adapter(Signal::TERM)?;
    is_dead(&mut stage, "").await
}

/// The session is dead because its agent ended, says how, and nothing of it is left.
async fn is_dead(stage: &mut Stage<'_>, how: &str) -> Outcome {
    assert_eq!(stage.watch.closed(LIMIT).await?, Some(4410));
    let session = stage.door().dead(&stage.id, LIMIT).await?;
    assert_eq!((session.status, session.end_reason), (Status::Dead, Some(EndReason::Exited)));
    assert!(session.activity_detail.as_deref().is_some_and(|detail| detail.contains(how)), "{session:#?}");
    assert_eq!(stage.watch.state.turn.last_end.as_ref().map(|end| end.reason.as_str()), Some("interrupted"));
    stage.everything_ends().await
}

pub(super) async fn a_session_ended_in_a_call_leaves_nothing_behind(agent: &Agent) -> Outcome {
    let mut stage = Stage::open(agent).await?;
    stage.begin_command(COMMAND).await?;
    stage.door().delete(&format!("/api/sessions/{}", stage.id)).await?.expect(204);
    assert_eq!(stage.processes(), Vec::<u32>::new(), "it is answered when nothing runs any more");
    assert_eq!(stage.session().await?.end_reason, Some(EndReason::Killed));
    Ok(())
}

pub(super) async fn missing_credentials_are_told(agent: &Agent) -> Outcome {
    let place = Place::open(agent, Credentials::None)?;
    let id = place.session(json!({})).await?.id.to_string();
    let settled = place
        .door
        .session_when(&id, LIMIT, "the end of the start", |session| session.status != Status::Starting);
    let mut told = settled.await?.activity_detail.unwrap_or_default();
    if place.door.session(&id).await?.status == Status::Running {
        let mut watch = Watch::open(&place.door, &id).await?;
        place.door.prompt(&id, "Greet me. [[say hello]]").await?.expect(202);
        assert_eq!(watch.turn_end(LIMIT).await?, "error");
        told += &json!(watch.state.turn.last_end).to_string();
        told += &place.door.session(&id).await?.activity_detail.unwrap_or_default();
    }
    assert!(told.contains(&agent.ways().without_credentials), "{told}");
    Ok(())
}

pub(super) async fn a_missing_agent_says_how_to_install_it(agent: &Agent) -> Outcome {
    let place = Place::open(agent, Credentials::Dummy)?;
    let session = place.session(json!({"env": {"PATH": "/nonexistent"}})).await?;
    assert_eq!((session.status, session.end_reason), (Status::Dead, Some(EndReason::AdapterMissing)));
    let detail = session.activity_detail.unwrap_or_default();
    let table = maestro_acp::AgentTable::built_in();
    let install =
        table.iter().find(|entry| entry.key.as_str() == agent.key).and_then(|entry| entry.install.clone());
    let expect = install.unwrap_or_else(|| "install it or set its path in config.toml".into());
    assert!(detail.contains(&expect), "{detail}");
    Ok(())
}
