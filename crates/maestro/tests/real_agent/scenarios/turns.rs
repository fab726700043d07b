use crate::{
    agent::Agent,
    stage::{Credentials, LIMIT, Outcome, Place, Stage},
};
use maestro_protocol::{Status, TranscriptRowKind};
use maestro_testkit::Watch;
use serde_json::json;

pub(super) async fn a_prompt_is_answered(agent: &Agent) -> Outcome {
    let mut stage = Stage::open(agent).await?;
    assert_eq!(stage.turn("Greet me. [[say Hello there, this is the model.]]").await?, "end_turn");
    assert!(stage.watch.text("agent").contains("Hello there, this is the model."), "{:#?}", stage.watch.rows);
    assert_eq!(stage.watch.text("user"), "Greet me. [[say Hello there, this is the model.]]");
    agent.measured.borrow_mut().rss_mib = Some(stage.rss_mib());

    let listed = stage.door().get("/api/agents").await?.expect(200).json();
    let entry =
        listed["agents"].as_array().into_iter().flatten().find(|entry| entry["key"] == agent.key.as_str());
    let entry = entry.ok_or("the agent is not in the list")?;
    assert!(
        entry["program"]
            .as_str()
            .is_some_and(|program| program.starts_with(agent.bin.to_string_lossy().as_ref()))
    );
    if let Some(asking_mode) = agent.asking_mode() {
        let mode = stage.watch.state.mode.as_ref().and_then(|mode| mode.current.clone());
        assert_eq!(mode, Some(asking_mode), "a new session starts in the mode that asks");
    }
    assert_eq!(stage.session().await?.activity_detail, None);
    Ok(())
}

pub(super) async fn thoughts_come_before_the_answer(agent: &Agent) -> Outcome {
    let mut stage = Stage::open(agent).await?;
    stage.turn("Think. [[think First I look, then I answer.]] [[say The answer is 42.]]").await?;
    assert!(stage.watch.text("thought").contains("First I look, then I answer."), "{:#?}", stage.watch.rows);
    assert!(stage.watch.text("agent").contains("The answer is 42."));
    let place = |kind| stage.watch.rows.iter().rposition(|row| row.kind == kind);
    assert!(place(TranscriptRowKind::AgentThought) < place(TranscriptRowKind::AgentText));
    Ok(())
}

pub(super) async fn a_long_answer_arrives_whole(agent: &Agent) -> Outcome {
    let mut stage = Stage::open(agent).await?;
    assert_eq!(stage.turn("Much. [[long 256]]").await?, "end_turn");
    let text = stage.watch.text("agent");
    assert!(text.len() >= 256 << 10, "{} bytes came", text.len());
    stage.has_the_whole_log().await
}

pub(super) async fn a_plan_is_one_row_that_moves_on(agent: &Agent) -> Outcome {
    let mut stage = Stage::open(agent).await?;
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

pub(super) async fn calls_at_once_are_asked_for_one_after_the_other(agent: &Agent) -> Outcome {
    let mut stage = Stage::open(agent).await?;
    let readme = stage.file("README.md").display().to_string();
    let prompt = format!(
        "All. [[par]] [[bash touch a.txt && echo A]] [[read {readme}]] [[bash touch b.txt && echo B]]"
    );
    assert_eq!(stage.turn_with(&prompt, &json!("AllowOnce")).await?, "end_turn");
    assert!(stage.file("a.txt").exists() && stage.file("b.txt").exists());
    let outcomes = stage.outcomes();
    assert!(
        outcomes.len() >= 2 && outcomes.iter().all(|outcome| outcome["what"] == "selected"),
        "{outcomes:#?}"
    );
    let tools = stage.tools();
    assert!(tools.len() >= 3 && tools.iter().all(|tool| tool["status"] == "completed"), "{tools:#?}");
    Ok(())
}

pub(super) async fn a_second_prompt_is_refused_while_a_turn_runs(agent: &Agent) -> Outcome {
    let mut stage = Stage::open(agent).await?;
    stage.begin("Count. [[slow 2]]").await?;
    stage.watch.until(LIMIT, "text", |watch| watch.text("agent").contains("tick 2")).await?;
    let refused = stage.door().prompt(&stage.id, "Say it. [[say second answer]]").await?.expect(409);
    assert_eq!(refused.json()["code"], "turn_in_flight");
    assert_eq!(stage.watch.turn_end(LIMIT).await?, "end_turn");
    assert!(!stage.watch.text("agent").contains("second answer"));
    assert_eq!(stage.rows(TranscriptRowKind::User).len(), 1);
    stage.is_alive().await
}

pub(super) async fn two_sessions_keep_their_words_apart(agent: &Agent) -> Outcome {
    let mut stage = Stage::open(agent).await?;
    let other = stage.place.session(json!({})).await?.id.to_string();
    stage.door().running(&other, LIMIT).await?;
    let mut watch = Watch::open(stage.door(), &other).await?;
    stage.begin("Count. [[slow 2]] [[say I am the first]]").await?;
    stage.door().prompt(&other, "Count. [[slow 2]] [[say I am the second]]").await?.expect(202);
    assert_eq!(stage.watch.turn_end(LIMIT).await?, "end_turn");
    assert_eq!(watch.turn_end(LIMIT).await?, "end_turn");
    let (first, second) = (stage.watch.text("agent"), watch.text("agent"));
    assert!(first.contains("I am the first") && !first.contains("I am the second"), "{first}");
    assert!(second.contains("I am the second") && !second.contains("I am the first"), "{second}");
    Ok(())
}

pub(super) async fn an_error_of_the_model_ends_the_turn_and_not_the_session(agent: &Agent) -> Outcome {
    let mut stage = Stage::open(agent).await?;
    assert_eq!(stage.turn("Fail. [[error 400 mock bad request]]").await?, "error");
    let error = stage.watch.state.turn.last_end.as_ref().map(|end| json!(end.error).to_string());
    assert!(error.as_ref().is_some_and(|error| error.contains("mock bad request")), "{error:?}");
    assert_eq!(stage.turn("Retry. [[flaky 2]] [[say fine after retries]]").await?, "end_turn");
    assert!(stage.watch.text("agent").contains("fine after retries"));
    stage.is_alive().await
}

/// Two of its modes: the others differ in nothing that this could show.
pub(super) async fn a_session_starts_in_the_mode_that_is_asked_for(agent: &Agent) -> Outcome {
    let stage = Stage::open(agent).await?;
    let offered = stage.watch.state.mode.as_ref().map(|mode| json!(mode.available)).unwrap_or_default();
    let modes: Vec<&str> =
        offered.as_array().into_iter().flatten().filter_map(|mode| mode["id"].as_str()).collect();
    assert!(modes.len() > 1, "{offered:#}");
    for mode in [modes[0], modes[modes.len() - 1]] {
        let id = stage.place.session(json!({"mode": mode})).await?.id.to_string();
        let session = stage.door().running(&id, LIMIT).await?;
        assert_eq!(session.activity_detail, None);
        let watch = Watch::open(stage.door(), &id).await?;
        assert_eq!(watch.state.mode.as_ref().and_then(|mode| mode.current.as_deref()), Some(mode));
    }
    Ok(())
}

pub(super) async fn what_the_agent_does_not_know_is_told(agent: &Agent) -> Outcome {
    let place = Place::open(agent, Credentials::Dummy)?;
    let mut stage = place.running(json!({"mode": "no-such-mode"})).await?;
    let notices = stage.rows(TranscriptRowKind::Notice);
    assert!(notices.iter().any(|notice| notice["reason"] == "mode_refused"), "{notices:#?}");
    let session = stage.session().await?;
    assert_eq!(session.status, Status::Running);
    assert!(session.activity_detail.is_some_and(|detail| detail.contains("no-such-mode")));
    // Nothing runs: nothing may come of it, now or in the next turn.
    stage.door().cancel(&stage.id).await?.expect(202);
    stage.is_alive().await
}
