use crate::stage::{AGENT, LIMIT, Outcome, Stage, builder, opened, turns};
use maestro_protocol::{TranscriptRow, TranscriptRowKind};
use maestro_testkit::{Steps, wait_until};
use serde_json::{Value, json};
use std::{collections::BTreeMap, fs};
use tokio::task::JoinSet;

/// What the agent was answered to its request with this id, as the log puts it: the option, or `cancelled`.
fn answers(stage: &Stage, id: u64) -> Vec<Value> {
    let answer = |answer: Value| {
        let outcome = &answer["result"]["outcome"];
        outcome.get("optionId").unwrap_or(&outcome["outcome"]).clone()
    };
    stage.record().answers(id).into_iter().map(answer).collect()
}

/// The same of the log's outcomes.
fn outcomes(stage: &Stage) -> Vec<Value> {
    let told = |outcome: Value| outcome.get("option_id").unwrap_or(&outcome["what"]).clone();
    stage.outcomes().into_iter().map(told).collect()
}

/// Some turns whose approval is allowed and that are cancelled at the same time.
async fn crossed(rounds: usize) -> Result<Stage, Box<dyn std::error::Error>> {
    let asks = |turn: Steps| {
        let asked = turn.permission(1, "t1", "ls").await_answer(1);
        asked.when(1, "allow-once", Steps::end_turn, |refused| refused.stop("cancelled"))
    };
    let mut stage = Stage::open(turns(asks)).await?;
    let mut before = None;
    for round in 0..rounds {
        stage.begin("go").await?;
        let nonce = stage.asked_after(before.as_deref()).await?;
        let decided = stage.door.decide(&stage.id, &nonce, json!("AllowOnce"));
        let cancelled = stage.door.cancel(&stage.id);
        // Both orders of arrival come up.
        let (decided, cancelled) = if round % 2 == 0 {
            tokio::join!(decided, cancelled)
        } else {
            let (cancelled, decided) = tokio::join!(cancelled, decided);
            (decided, cancelled)
        };
        assert_eq!((decided?.status.as_u16(), cancelled?.status.as_u16()), (204, 202));
        stage.watch.turn_end(LIMIT).await?;
        before = Some(nonce);
        wait_until(LIMIT, "the answer", || answers(&stage, 1).len() > round).await?;
    }
    Ok(stage)
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_decision_and_a_cancel_one_settles_the_approval() -> Outcome {
    let stage = crossed(10).await?;
    assert_eq!(answers(&stage, 1), outcomes(&stage), "the log and the agent agree in every round");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_permission_reaches_the_agent_after_a_cancel() -> Outcome {
    let stage = crossed(40).await?;
    let told = stage.record().received().into_iter().map(|line| {
        let message = line.message();
        let outcome = || message["result"]["outcome"]["outcome"].as_str().unwrap_or_default().to_owned();
        message["method"].as_str().map_or_else(outcome, str::to_owned)
    });
    let told: Vec<String> = told.collect();
    let late = told.windows(2).filter(|pair| *pair == ["session/cancel", "selected"]).count();
    assert_eq!(late, 0, "of 40 turns; after session/cancel a request is answered cancelled");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn of_the_prompts_that_waited_for_a_settle_one_gets_the_turn() -> Outcome {
    let place = tempfile::tempdir()?;
    let release = place.path().join("release");
    let script = opened()
        .on_prompt(|turn| turn.chunk("working").await_cancel().await_file(&release).stop("cancelled"))
        .on_prompt(|turn| turn.await_cancel().stop("cancelled"));
    let mut stage = Stage::with(builder(script).agent_field(AGENT, "cancel_grace_ms", 5_000)).await?;
    stage.begin("first").await?;
    stage.says("working").await?;
    stage.door.cancel(&stage.id).await?.expect(202);
    let mut prompts = JoinSet::new();
    for number in 0..10 {
        let (door, id) = (stage.door.clone(), stage.id.clone());
        prompts.spawn(async move { door.prompt(&id, &format!("prompt {number}")).await });
    }
    let mut codes: BTreeMap<String, usize> = BTreeMap::new();
    while let Some(answer) = prompts.join_next().await {
        let answer = answer??;
        let code = answer.json()["code"].as_str().unwrap_or("accepted").to_owned();
        *codes.entry(code).or_default() += 1;
        // Eight wait, so that the two that are too many are the first to hear.
        if codes.get("busy") == Some(&2) {
            fs::write(&release, "")?;
        }
    }
    let expect =
        [("accepted", 1), ("busy", 2), ("turn_in_flight", 7)].map(|(code, count)| (code.into(), count));
    assert_eq!(codes, BTreeMap::from(expect));
    let prompts = || stage.record().calls("session/prompt").len();
    wait_until(LIMIT, "the prompt that was accepted", || prompts() == 2).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_requests_is_bounded_and_each_is_answered_once() -> Outcome {
    // One is live, 64 wait, and one is too many.
    const ASKED: u64 = 66;
    let floods = |turn: Steps| {
        let asked = (1..=ASKED).fold(turn, |turn, id| turn.permission(id, &format!("t{id}"), "ls"));
        let refused = asked.await_answer(ASKED).note("refused").await_cancel();
        (1..ASKED).fold(refused, Steps::await_answer).stop("cancelled")
    };
    let mut stage = Stage::open(opened().on_prompt(floods)).await?;
    stage.begin("go").await?;
    stage.record().wait_for_note(LIMIT, "refused")?;
    stage.asked().await?;
    let answered: Vec<u64> = (1..=ASKED).filter(|id| !answers(&stage, *id).is_empty()).collect();
    assert_eq!(answered, [ASKED], "what is live or waits has no answer yet");
    stage.door.cancel(&stage.id).await?.expect(202);
    assert_eq!(stage.watch.turn_end(LIMIT).await?, "cancelled");
    wait_until(LIMIT, "the last answer", || !answers(&stage, ASKED - 1).is_empty()).await?;
    for id in 1..=ASKED {
        assert_eq!(answers(&stage, id), ["cancelled"], "request {id}");
    }
    assert_eq!(stage.rows(TranscriptRowKind::Approval).len(), 1, "what only waited has no row");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_nonce_does_not_answer_a_request_that_changed() -> Outcome {
    let place = tempfile::tempdir()?;
    let shown = place.path().join("shown");
    let script = turns(|turn| {
        let first = turn.permission(1, "t1", "ls").await_file(&shown).withdraw(1).await_answer(1);
        first.permission(2, "t1", "rm -rf /").await_answer(2).end_turn()
    });
    let mut stage = Stage::open(script).await?;
    stage.begin("go").await?;
    let old = stage.asked().await?;
    fs::write(&shown, "")?;
    let new = stage.asked_after(Some(&old)).await?;
    stage.decide(&old, json!("AllowOnce"), 204).await?;
    assert_eq!(answers(&stage, 2), Vec::<Value>::new());
    stage.decide(&new, json!("Deny"), 204).await?;
    stage.watch.turn_end(LIMIT).await?;
    assert_eq!(answers(&stage, 2), ["reject-once"]);
    let command = |row: &TranscriptRow| row.data["toolCall"]["rawInput"]["command"].clone();
    let commands: Vec<_> = stage.rows(TranscriptRowKind::Approval).into_iter().map(command).collect();
    assert_eq!(commands, ["ls", "rm -rf /"], "each row keeps what was asked");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_id_that_is_used_twice_is_two_requests() -> Outcome {
    let script = turns(|turn| {
        let asked = turn.permission(1, "t1", "first").permission(1, "t2", "second");
        asked.await_answer(1).await_answer(1).end_turn()
    });
    let mut stage = Stage::open(script).await?;
    stage.begin("go").await?;
    let first = stage.asked().await?;
    stage.decide(&first, json!("Deny"), 204).await?;
    let second = stage.asked_after(Some(&first)).await?;
    stage.decide(&second, json!("AllowOnce"), 204).await?;
    stage.watch.turn_end(LIMIT).await?;
    assert_eq!(answers(&stage, 1), ["reject-once", "allow-once"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_withdraws_what_the_agent_asked() -> Outcome {
    // An agent that is slow to look has the grace of its tree, too.
    let asks = |turn: Steps| {
        turn.ignore_signals().permission(1, "t1", "ls").await_cancel().await_answer(1).stop("cancelled")
    };
    let mut stage = Stage::open(opened().on_prompt(asks)).await?;
    stage.begin("go").await?;
    let nonce = stage.asked().await?;
    stage.kill().await?;
    assert_eq!(stage.watch.closed(LIMIT).await?, Some(4410));
    assert_eq!(answers(&stage, 1), ["cancelled"], "withdrawn, not refused");
    assert_eq!(stage.record().calls("session/cancel").len(), 1);
    assert_eq!(stage.outcomes()[0]["because"], "session_ended");
    stage.decide(&nonce, json!("AllowOnce"), 409).await?;
    Ok(())
}
