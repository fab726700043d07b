use crate::stage::{AGENT, LIMIT, Outcome, Stage, builder, opened, turns};
use maestro_protocol::{EndReason, TranscriptRowKind};
use maestro_testkit::{Answer, Script, Steps, live_processes_with};
use serde_json::json;
use std::time::{Duration, Instant};

fn code(answer: &Answer) -> String {
    answer.json()["code"].as_str().unwrap_or_default().to_owned()
}

/// A turn that ends when it is cancelled, as agents should.
fn until_cancelled(turn: Steps) -> Steps {
    turn.chunk_of("m", "working").await_cancel().stop("cancelled")
}

#[tokio::test(flavor = "multi_thread")]
async fn one_turn_at_a_time() -> Outcome {
    let mut stage = Stage::open(opened().on_prompt(until_cancelled).on_every_prompt(Steps::end_turn)).await?;
    stage.begin("one").await?;
    let refused = stage.door.prompt(&stage.id, "two").await?.expect(409);
    assert_eq!(code(&refused), "turn_in_flight");
    stage.says("working").await?;
    stage.door.cancel(&stage.id).await?.expect(202);
    assert_eq!(stage.watch.turn_end(LIMIT).await?, "cancelled");
    assert_eq!(stage.turn("three").await?, "end_turn");
    let prompts: Vec<_> = stage
        .record()
        .calls("session/prompt")
        .iter()
        .map(|call| call["params"]["prompt"][0]["text"].clone())
        .collect();
    assert_eq!(prompts, ["one", "three"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_without_a_turn_does_nothing() -> Outcome {
    let mut stage = Stage::open(turns(|turn| turn.chunk("hello").end_turn())).await?;
    stage.door.cancel(&stage.id).await?.expect(202);
    assert_eq!(stage.turn("hi").await?, "end_turn");
    assert_eq!(stage.record().calls("session/cancel").len(), 0);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_waits_for_a_cancelled_turn_to_settle() -> Outcome {
    let slow = |turn: Steps| turn.chunk("working").await_cancel().wait(250).stop("cancelled");
    let mut stage =
        Stage::open(opened().on_prompt(slow).on_every_prompt(|turn| turn.chunk("second").end_turn())).await?;
    stage.begin("one").await?;
    stage.says("working").await?;
    stage.door.cancel(&stage.id).await?.expect(202);
    stage.door.prompt(&stage.id, "two").await?.expect(202);
    stage.says("second").await?;
    assert_eq!(stage.door.session(&stage.id).await?.end_reason, None);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_that_does_not_settle_is_a_death() -> Outcome {
    let deaf = |turn: Steps| turn.chunk("working").hang();
    let mut stage = Stage::open(opened().on_prompt(deaf)).await?;
    stage.begin("one").await?;
    stage.says("working").await?;
    let cancelled = Instant::now();
    stage.door.cancel(&stage.id).await?.expect(202);
    let held = stage.door.prompt(&stage.id, "two").await?.expect(409);
    assert_eq!(code(&held), "not_structured");
    assert!(cancelled.elapsed() >= Duration::from_millis(500), "a grace of {:?}", cancelled.elapsed());
    assert_eq!(stage.dead().await?.end_reason, Some(EndReason::CancelUnsettled));
    assert_eq!(stage.watch.closed(LIMIT).await?, Some(4410));
    assert_eq!(stage.watch.state.turn.last_end.as_ref().map(|end| end.reason.as_str()), Some("cancelled"));
    assert_eq!(stage.processes(), Vec::<u32>::new());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_may_have_a_longer_cancel_grace() -> Outcome {
    let slow = |turn: Steps| turn.chunk("working").await_cancel().wait(900).stop("cancelled");
    let builder = builder(opened().on_prompt(slow).on_every_prompt(Steps::end_turn)).agent_field(
        AGENT,
        "cancel_grace_ms",
        4_000,
    );
    let mut stage = Stage::with(builder).await?;
    stage.begin("one").await?;
    stage.says("working").await?;
    stage.door.cancel(&stage.id).await?.expect(202);
    assert_eq!(stage.turn("two").await?, "cancelled");
    assert_eq!(stage.watch.turn_end(LIMIT).await?, "end_turn");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_ends_the_turn_and_is_shown() -> Outcome {
    let script = opened()
        .on_prompt(|turn| turn.fail_turn(-32603, "the model is away"))
        .on_prompt(|turn| turn.fail_turn(-32000, "Authentication required"));
    let builder = builder(script).agent_field(AGENT, "sign_in", "scripted login");
    let mut stage = Stage::with(builder).await?;
    assert_eq!(stage.turn("one").await?, "error");
    let error = stage.watch.state.turn.last_end.clone().and_then(|end| end.error).unwrap_or_default();
    assert_eq!((&error["code"], &error["message"]), (&json!(-32603), &json!("the model is away")));
    assert_eq!(stage.turn("two").await?, "error");
    let detail = stage.door.session(&stage.id).await?.activity_detail.unwrap_or_default();
    assert!(detail.contains("scripted login"), "{detail}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_early_late_or_twice_is_folded_where_it_belongs() -> Outcome {
    let early = json!({"jsonrpc": "2.0", "method": "session/update", "params": {
        "sessionId": "acp-1", "update": {"sessionUpdate": "agent_message_chunk", "messageId": "early",
            "content": {"type": "text", "text": "before the session"}}}});
    let script = Script::new()
        .initialize()
        .then(|steps| {
            let opening = steps.expect("session/new", "open").send(early);
            opening.reply("open", json!({"sessionId": "acp-1"}))
        })
        .on_prompt(|turn| {
            turn.echo("hello there")
                .chunk_of("m", "an answer")
                .end_turn()
                .wait(20)
                .chunk_of("late", "after the turn")
        });
    let mut stage = Stage::open(script).await?;
    stage.turn("hello there").await?;
    stage.says("after the turn").await?;
    let texts: Vec<_> = stage
        .rows(TranscriptRowKind::AgentText)
        .iter()
        .map(|row| row.data["content"]["text"].clone())
        .collect();
    assert_eq!(texts, ["before the session", "an answer", "after the turn"]);
    assert_eq!(stage.rows(TranscriptRowKind::User).len(), 1, "the echo is no second row");
    assert!(!stage.watch.state.turn.active, "a late update opens no turn");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_can_be_asked_of_a_session_that_starts() -> Outcome {
    let script = Script::new().initialize().then(|steps| steps.expect("session/new", "open").hang());
    let daemon = builder(script).start()?;
    let door = daemon.door();
    let id = door.create_session(AGENT, &daemon.work(), json!({})).await?.id.to_string();
    let refused = door.prompt(&id, "too early").await?.expect(409);
    assert_eq!(code(&refused), "starting");
    daemon.record(AGENT).wait_for_call(LIMIT, "session/new")?;
    door.delete(&format!("/api/sessions/{id}")).await?.expect(204);
    let session = door.dead(&id, LIMIT).await?;
    assert_eq!(session.end_reason, Some(EndReason::Killed));
    assert_eq!(live_processes_with(&format!("MAESTRO_SESSION={id}")), Vec::<u32>::new());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_crosses_the_cancel_is_withdrawn_with_it() -> Outcome {
    let crosses = |turn: Steps| {
        turn.chunk("working").await_cancel().permission(1, "t1", "ls").await_answer(1).stop("cancelled")
    };
    let script = opened().on_prompt(crosses).on_every_prompt(|turn| turn.chunk("second").end_turn());
    let mut stage = Stage::open(script).await?;
    stage.begin("one").await?;
    stage.says("working").await?;
    stage.door.cancel(&stage.id).await?.expect(202);
    assert_eq!(stage.turn("two").await?, "cancelled");
    stage.says("second").await?;
    assert_eq!(stage.record().answers(1)[0]["result"]["outcome"]["outcome"], "cancelled");
    assert_eq!(stage.watch.state.pending_approval, None);
    assert_eq!(stage.rows(TranscriptRowKind::Approval).len(), 0);
    Ok(())
}
