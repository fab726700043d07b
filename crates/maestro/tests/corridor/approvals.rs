use crate::stage::{AGENT, LIMIT, Outcome, Stage, builder, opened, turns};
use maestro_protocol::TranscriptRowKind;
use maestro_testkit::Steps;
use serde_json::{Value, json};
use std::fs;

/// What the agent was answered to its request with this id: the option, or `cancelled`.
fn answers(stage: &Stage, id: u64) -> Vec<Value> {
    let outcome = |answer: Value| match &answer["result"]["outcome"] {
        outcome if outcome["outcome"] == "selected" => outcome["optionId"].clone(),
        outcome => outcome["outcome"].clone(),
    };
    stage.record().answers(id).into_iter().map(outcome).collect()
}

fn asks(turn: Steps) -> Steps {
    turn.permission(1, "t1", "rm -rf build").await_answer(1).end_turn()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_decision_is_the_option_of_its_kind() -> Outcome {
    for (decision, option) in [
        (json!("AllowOnce"), "allow-once"),
        (json!("AllowForSession"), "allow-always"),
        (json!("Deny"), "reject-once"),
        (json!({"option": "allow-always"}), "allow-always"),
    ] {
        let mut stage = Stage::open(turns(asks)).await?;
        stage.begin("go").await?;
        let nonce = stage.asked().await?;
        assert_eq!(
            stage.rows(TranscriptRowKind::Approval)[0].data["toolCall"]["rawInput"]["command"],
            "rm -rf build"
        );
        stage.decide(&nonce, decision.clone(), 204).await?;
        stage.watch.turn_end(LIMIT).await?;
        assert_eq!(answers(&stage, 1), [option], "{decision}");
        let outcome = &stage.outcomes()[0];
        assert_eq!((&outcome["option_id"], &outcome["account"]), (&json!(option), &json!("owner@localhost")));
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_that_is_not_offered_consumes_nothing() -> Outcome {
    let options = json!([
        {"optionId": "project", "name": "Always, here", "kind": "allow_always"},
        {"optionId": "user", "name": "Always", "kind": "allow_always"},
        {"optionId": "no", "name": "No", "kind": "reject_once"},
    ]);
    let script = turns(|turn| turn.permission_with(1, "t1", "ls", options).await_answer(1).end_turn());
    let mut stage = Stage::open(script).await?;
    stage.begin("go").await?;
    let nonce = stage.asked().await?;
    for decision in [json!("AllowOnce"), json!("AllowForSession"), json!({"option": "allow-once"})] {
        let refused = stage.door.decide(&stage.id, &nonce, decision).await?.expect(400);
        assert_eq!(refused.json()["code"], "decision_not_offered");
    }
    stage.decide(&nonce, json!("maybe"), 400).await?;
    assert_eq!(answers(&stage, 1), Vec::<Value>::new());
    stage.decide(&nonce, json!("Deny"), 204).await?;
    stage.watch.turn_end(LIMIT).await?;
    assert_eq!(answers(&stage, 1), ["no"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nonce_that_is_not_live_is_answered_and_does_nothing() -> Outcome {
    let mut stage = Stage::open(turns(asks)).await?;
    let bogus = "5d0c9f3e-8a34-4c4e-9d43-5f2f4fb8f001";
    stage.decide(bogus, json!("AllowOnce"), 204).await?;
    stage.begin("go").await?;
    let nonce = stage.asked().await?;
    for nonce in [bogus, "not-a-nonce"] {
        stage.decide(nonce, json!("AllowOnce"), 204).await?;
    }
    assert_eq!(answers(&stage, 1), Vec::<Value>::new());
    stage.decide(&nonce, json!("Deny"), 204).await?;
    stage.decide(&nonce, json!("AllowOnce"), 204).await?;
    stage.watch.turn_end(LIMIT).await?;
    assert_eq!(answers(&stage, 1), ["reject-once"]);
    stage.kill().await?;
    stage.decide(&nonce, json!("AllowOnce"), 409).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn of_racing_answers_one_reaches_the_agent() -> Outcome {
    let mut stage = Stage::open(turns(asks)).await?;
    stage.begin("go").await?;
    let nonce = stage.asked().await?;
    let racing = (0..20).map(|number| {
        let decision = if number % 2 == 0 { json!("AllowOnce") } else { json!("Deny") };
        let (door, id, nonce) = (stage.door.clone(), stage.id.clone(), nonce.clone());
        tokio::spawn(
            async move { door.decide(&id, &nonce, decision).await.map(|answer| answer.status.as_u16()) },
        )
    });
    for racer in racing.collect::<Vec<_>>() {
        assert_eq!(racer.await??, 204);
    }
    stage.watch.turn_end(LIMIT).await?;
    let told = answers(&stage, 1);
    assert_eq!(told, [stage.outcomes()[0]["option_id"].clone()], "the log and the agent agree");
    Ok(())
}

fn asks_twice(turn: Steps) -> Steps {
    turn.permission(1, "t1", "first")
        .permission(2, "t2", "second")
        .note("asked")
        .await_answer(1)
        .await_answer(2)
        .end_turn()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_request_waits_for_the_first() -> Outcome {
    let mut stage = Stage::open(turns(asks_twice)).await?;
    stage.begin("go").await?;
    let first = stage.asked().await?;
    stage.record().wait_for_note(LIMIT, "asked")?;
    assert_eq!(stage.rows(TranscriptRowKind::Approval).len(), 1, "what waits has no row");
    stage.decide(&first, json!("Deny"), 204).await?;
    let second = stage.asked_after(Some(&first)).await?;
    stage.decide(&second, json!("AllowOnce"), 204).await?;
    stage.watch.turn_end(LIMIT).await?;
    assert_eq!(
        (answers(&stage, 1), answers(&stage, 2)),
        (vec![json!("reject-once")], vec![json!("allow-once")])
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn where_the_newest_wins_the_older_is_cancelled() -> Outcome {
    let builder = builder(turns(asks_twice)).agent_field(AGENT, "overlapping_approvals", "newest_wins");
    let mut stage = Stage::with(builder).await?;
    stage.begin("go").await?;
    stage
        .watch
        .until(LIMIT, "both requests", |watch| {
            watch.rows.iter().filter(|row| row.kind == TranscriptRowKind::Approval).count() == 2
        })
        .await?;
    let second = stage.asked().await?;
    stage.decide(&second, json!("AllowOnce"), 204).await?;
    stage.watch.turn_end(LIMIT).await?;
    assert_eq!(
        (answers(&stage, 1), answers(&stage, 2)),
        (vec![json!("cancelled")], vec![json!("allow-once")])
    );
    assert_eq!(stage.outcomes()[0]["because"], "superseded");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_agent_withdraws_a_live_and_a_waiting_request() -> Outcome {
    let script = turns(|turn| {
        let asked =
            turn.permission(1, "t1", "first").permission(2, "t2", "second").permission(3, "t3", "third");
        asked.withdraw(2).withdraw(1).await_answer(1).await_answer(2).await_answer(3).end_turn()
    });
    let mut stage = Stage::open(script).await?;
    stage.begin("go").await?;
    stage
        .watch
        .until(LIMIT, "the third to be live", |watch| {
            watch.nonce().is_some()
                && watch.rows.iter().any(|row| {
                    row.kind == TranscriptRowKind::Approval && row.data["toolCall"]["toolCallId"] == "t3"
                })
        })
        .await?;
    let nonce = stage.asked().await?;
    stage.decide(&nonce, json!("AllowOnce"), 204).await?;
    stage.watch.turn_end(LIMIT).await?;
    assert_eq!(
        (answers(&stage, 1), answers(&stage, 2)),
        (vec![json!("cancelled")], vec![json!("cancelled")])
    );
    assert_eq!(answers(&stage, 3), ["allow-once"]);
    assert_eq!(stage.outcomes()[0]["because"], "withdrawn");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_works_outside_of_turns() -> Outcome {
    let script = opened().then(|steps| steps.permission(1, "t1", "later").await_answer(1).chunk("thank you"));
    let mut stage = Stage::open(script).await?;
    let nonce = stage.asked().await?;
    stage.door.cancel(&stage.id).await?.expect(202);
    stage.decide(&nonce, json!("AllowOnce"), 204).await?;
    stage.says("thank you").await?;
    assert_eq!(answers(&stage, 1), ["allow-once"], "a cancel without a turn withdraws nothing");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_turn_withdraws_its_approvals() -> Outcome {
    let script = opened().on_prompt(|turn| {
        turn.permission(1, "t1", "a")
            .permission(2, "t2", "b")
            .await_cancel()
            .await_answer(1)
            .await_answer(2)
            .stop("cancelled")
    });
    let mut stage = Stage::open(script).await?;
    stage.begin("go").await?;
    let nonce = stage.asked().await?;
    stage.door.cancel(&stage.id).await?.expect(202);
    assert_eq!(stage.watch.turn_end(LIMIT).await?, "cancelled");
    stage.decide(&nonce, json!("AllowOnce"), 204).await?;
    maestro_testkit::wait_until(LIMIT, "both answers", || {
        !answers(&stage, 1).is_empty() && !answers(&stage, 2).is_empty()
    })
    .await?;
    assert_eq!(
        (answers(&stage, 1), answers(&stage, 2)),
        (vec![json!("cancelled")], vec![json!("cancelled")])
    );
    let outcomes = stage.outcomes();
    assert_eq!((outcomes.len(), &outcomes[0]["because"]), (1, &json!("turn_cancelled")));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_nonce_is_on_no_disk_and_in_no_replay() -> Outcome {
    let mut stage = Stage::open(turns(asks)).await?;
    stage.begin("go").await?;
    let nonce = stage.asked().await?;
    let replay = stage.door.replay(&stage.id, "limit=500").await?.expect(200).text();
    assert!(replay.contains("rm -rf build") && !replay.contains(&nonce));
    for directory in ["sessions", "run"] {
        for file in fs::read_dir(stage.daemon.data().join(directory))? {
            let path = file?.path();
            if path.is_file() {
                let content = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
                assert!(!content.contains(&nonce), "{} holds the nonce", path.display());
            }
        }
    }
    assert!(!stage.daemon.log().contains(&nonce), "the daemon's log holds the nonce");
    let told: String = stage.record().received().iter().map(|line| line.message().to_string()).collect();
    assert!(!told.contains(&nonce), "the agent was told the nonce");
    Ok(())
}
