//! Answers, cancels, withdrawals and deaths that meet each other, and messages that no agent should send.

use crate::stage::{AGENT, LIMIT, Outcome, Stage, builder, opened, turns};
use maestro_protocol::{EndReason, TranscriptRow, TranscriptRowKind};
use maestro_testkit::{DaemonBuilder, Descent, Door, Steps, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::{error::Error, fs};

/// What the agent was answered to its requests with this id: the option, or `cancelled`.
fn answers(stage: &Stage, id: u64) -> Vec<Value> {
    let answer = |answer: Value| {
        let outcome = &answer["result"]["outcome"];
        outcome.get("optionId").unwrap_or(&outcome["outcome"]).clone()
    };
    stage.record().answers(id).into_iter().map(answer).collect()
}

/// The same as the log has it, and how often each row has an outcome.
fn logged(log: &str) -> Vec<Value> {
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let resolved = lines.filter(|line| line["maestroEvent"] == "approval_resolved");
    resolved
        .map(|line| line["outcome"].get("option_id").unwrap_or(&line["outcome"]["what"]).clone())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_answers_at_once_are_one_in_each_of_many_rounds() -> Outcome {
    const ROUNDS: usize = 60;
    let asks = |turn: Steps| turn.permission(1, "t1", "ls").await_answer(1).end_turn();
    let mut stage = Stage::open(turns(asks)).await?;
    let mut before = None;
    for round in 0..ROUNDS {
        stage.begin("go").await?;
        let nonce = stage.asked_after(before.as_deref()).await?;
        let answer = |decision: &'static str| stage.door.decide(&stage.id, &nonce, json!(decision));
        let (first, second) = if round % 2 == 0 { ("AllowOnce", "Deny") } else { ("Deny", "AllowOnce") };
        let (one, other) = tokio::join!(answer(first), answer(second));
        assert_eq!((one?.status.as_u16(), other?.status.as_u16()), (204, 204), "round {round}");
        stage.watch.turn_end(LIMIT).await?;
        before = Some(nonce);
    }
    let told = answers(&stage, 1);
    assert_eq!(told.len(), ROUNDS, "one answer for each request");
    assert_eq!(told, logged(&stage.log()?), "and it is the one in the log");
    Ok(())
}

/// One session of a daemon: prompts, waits to be asked, then allows, cancels and kills the agent at the same time.
async fn meets(stage: &mut Stage, kills: usize) -> Outcome {
    stage.begin("go").await?;
    let nonce = stage.asked().await?;
    let agent = *stage.record().processes().last().ok_or("no process")?;
    let agent = Pid::from_raw(i32::try_from(agent)?).ok_or("no pid")?;
    let decided = stage.door.decide(&stage.id, &nonce, json!("AllowOnce"));
    let cancelled = stage.door.cancel(&stage.id);
    // The place of the kill among the requests changes from round to round.
    if kills == 0 {
        kill_process(agent, Signal::KILL)?;
    }
    let killed = async {
        for _ in 1..kills {
            tokio::task::yield_now().await;
        }
        kill_process(agent, Signal::KILL)
    };
    let (decided, cancelled, _gone_already) = tokio::join!(decided, cancelled, killed);
    for (status, fine) in [(decided?.status.as_u16(), 204), (cancelled?.status.as_u16(), 202)] {
        assert!([fine, 409].contains(&status), "{status}");
    }
    assert_eq!(stage.watch.closed(LIMIT).await?, Some(4410));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_a_cancel_and_an_exit_that_meet_leave_one_end() -> Outcome {
    let asks = |turn: Steps| turn.permission(1, "t1", "ls").await_answer(1).hang();
    let mut stage = Stage::open(opened().on_prompt(asks)).await?;
    for round in 0..8 {
        meets(&mut stage, round).await?;
        let session = stage.dead().await?;
        assert!(
            matches!(session.end_reason, Some(EndReason::Exited | EndReason::CancelUnsettled)),
            "{session:?}"
        );
        let log = stage.log()?;
        assert_eq!(logged(&log).len(), 1, "one outcome in round {round}:\n{log}");
        assert_eq!(log.matches(r#""phase":"ended""#).count(), 1, "one end in round {round}:\n{log}");
        stage.id = stage.door.create_session(AGENT, &stage.daemon.work(), json!({})).await?.id.to_string();
        stage.door.running(&stage.id, LIMIT).await?;
        stage.watch = maestro_testkit::Watch::open(&stage.door, &stage.id).await?;
    }
    let told = stage.record().received().into_iter().map(|line| {
        let message = line.message();
        let outcome = message["result"]["outcome"]["outcome"].as_str().unwrap_or_default();
        (line.process, message["method"].as_str().unwrap_or(outcome).to_owned())
    });
    let told: Vec<_> = told.collect();
    let is_late = |pair: &[(usize, String)]| {
        pair[0].0 == pair[1].0 && pair[0].1 == "session/cancel" && pair[1].1 == "selected"
    };
    assert!(!told.windows(2).any(is_late), "nothing is allowed behind a cancel: {told:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn two_requests_about_calls_with_one_id_are_two() -> Outcome {
    let script = turns(|turn| {
        let asked = turn.permission(1, "t1", "of the parent").permission(2, "t1", "of the child");
        asked.await_answer(1).note("first").await_answer(2).end_turn()
    });
    let mut stage = Stage::open(script).await?;
    stage.begin("go").await?;
    let first = stage.asked().await?;
    stage.decide(&first, json!("AllowOnce"), 204).await?;
    stage.record().wait_for_note(LIMIT, "first")?;
    let second = stage.asked_after(Some(&first)).await?;
    assert_eq!(answers(&stage, 2), Vec::<Value>::new(), "the answer to one releases no other");
    stage.decide(&first, json!("AllowOnce"), 204).await?;
    assert_eq!(answers(&stage, 2), Vec::<Value>::new(), "nor does the old nonce");
    stage.decide(&second, json!("Deny"), 204).await?;
    stage.watch.turn_end(LIMIT).await?;
    assert_eq!(
        (answers(&stage, 1), answers(&stage, 2)),
        (vec![json!("allow-once")], vec![json!("reject-once")])
    );
    let command = |row: &TranscriptRow| row.data["toolCall"]["rawInput"]["command"].clone();
    let rows: Vec<_> = stage.rows(TranscriptRowKind::Approval).into_iter().map(command).collect();
    assert_eq!(rows, ["of the parent", "of the child"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_parallel_subagents_are_asked_one_after_the_other() -> Outcome {
    const SUBAGENTS: u64 = 5;
    let script = turns(|turn| {
        let asked = (1..=SUBAGENTS)
            .fold(turn, |turn, id| turn.permission(id, &format!("t{id}"), &format!("job {id}")));
        (1..=SUBAGENTS).fold(asked, Steps::await_answer).end_turn()
    });
    let mut stage = Stage::open(script).await?;
    stage.begin("go").await?;
    let mut before = None;
    for id in 1..=SUBAGENTS {
        let nonce = stage.asked_after(before.as_deref()).await?;
        let rows = stage.rows(TranscriptRowKind::Approval);
        assert_eq!(rows.len() as u64, id, "one more row for each");
        assert_eq!(rows.last().map(|row| &row.data["toolCall"]["title"]), Some(&json!(format!("job {id}"))));
        let decision = if id % 2 == 0 { "Deny" } else { "AllowOnce" };
        stage.decide(&nonce, json!(decision), 204).await?;
        before = Some(nonce);
    }
    assert_eq!(stage.watch.turn_end(LIMIT).await?, "end_turn");
    for id in 1..=SUBAGENTS {
        let expect = if id % 2 == 0 { "reject-once" } else { "allow-once" };
        assert_eq!(answers(&stage, id), [expect], "request {id}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn where_the_newest_wins_a_withdrawn_request_leaves_the_place_free() -> Outcome {
    let script = turns(|turn| {
        let asked = turn.permission(1, "t1", "first").permission(2, "t2", "second").await_answer(1);
        // The one that was superseded has its answer; withdrawing it changes nothing.
        let withdrawn = asked.withdraw(1).withdraw(2).await_answer(2);
        withdrawn.permission(3, "t3", "third").await_answer(3).end_turn()
    });
    let builder = builder(script).agent_field(AGENT, "overlapping_approvals", "newest_wins");
    let mut stage = Stage::with(builder).await?;
    stage.begin("go").await?;
    let third = |watch: &maestro_testkit::Watch| {
        let rows = watch.rows.iter().filter(|row| row.kind == TranscriptRowKind::Approval);
        watch.nonce().is_some() && rows.count() == 3
    };
    stage.watch.until(LIMIT, "the third request", third).await?;
    let nonce = stage.asked().await?;
    stage.decide(&nonce, json!("AllowOnce"), 204).await?;
    assert_eq!(stage.watch.turn_end(LIMIT).await?, "end_turn");
    let told: Vec<_> = (1..=3).map(|id| answers(&stage, id)).collect();
    assert_eq!(told, [vec![json!("cancelled")], vec![json!("cancelled")], vec![json!("allow-once")]]);
    let because: Vec<_> = stage.outcomes().iter().map(|outcome| outcome["because"].clone()).collect();
    assert_eq!(because, [json!("superseded"), json!("withdrawn"), Value::Null]);
    Ok(())
}

/// A session of a daemon whose agents have descendants that no signal ends but SIGKILL.
fn stubborn() -> DaemonBuilder {
    let descent = Descent { setsid: true, ignore_signals: true, ..Descent::default() };
    let deaf = move |turn: Steps| turn.ignore_signals().descend(descent).chunk("working").hang();
    builder(opened().on_prompt(deaf))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_ignores_a_cancel_is_ended_with_all_it_started() -> Outcome {
    let mut stage = Stage::with(stubborn()).await?;
    stage.begin("go").await?;
    stage.says("working").await?;
    assert!(
        stage.processes().len() >= 3,
        "the guard, the agent and what it started: {:?}",
        stage.processes()
    );
    stage.door.cancel(&stage.id).await?.expect(202);
    assert_eq!(stage.watch.turn_end(LIMIT).await?, "cancelled");
    assert_eq!(stage.dead().await?.end_reason, Some(EndReason::CancelUnsettled));
    assert_eq!(stage.processes(), Vec::<u32>::new());
    Ok(())
}

async fn frames(door: &Door, id: &str) -> Result<String, Box<dyn Error>> {
    Ok(door.replay(id, "limit=500").await?.expect(200).text())
}

#[tokio::test(flavor = "multi_thread")]
async fn each_bad_message_is_handled_once_and_no_bomb_is_relayed() -> Outcome {
    let script = opened().on_prompt(|turn| {
        let shapes =
            turn.send(json!({"jsonrpc": "2.0", "method": "session/update", "params": []})).stray_answer();
        let unknown =
            shapes.unknown_request("odd").unknown_request("odd").await_answer("odd").await_answer("odd");
        let unreadable = unknown.request(9, "session/request_permission", json!([])).await_answer(9);
        unreadable.nested(100_000).chunk("alive").end_turn()
    });
    let mut stage = Stage::open(script).await?;
    assert_eq!(stage.turn("go").await?, "end_turn");
    assert_eq!(stage.watch.text("agent"), "alive");
    let notice =
        |row: &TranscriptRow| (row.data["reason"].clone(), row.data["text"].as_str().map_or(0, str::len));
    let notices: Vec<_> = stage.rows(TranscriptRowKind::Notice).into_iter().map(notice).collect();
    let reasons: Vec<_> = notices.iter().map(|(reason, _)| reason.clone()).collect();
    assert_eq!(reasons, ["refused", "too_deep"], "one for each message that cannot be kept as it came");
    assert!(notices.iter().all(|(_, length)| *length <= 4096), "{notices:?}");
    let replayed = frames(&stage.door, &stage.id).await?;
    assert!(!replayed.contains(&"[".repeat(5_000)), "the bomb is cut");
    let codes = |id: Value| {
        stage.record().answers(id).iter().map(|answer| answer["error"]["code"].clone()).collect::<Vec<_>>()
    };
    assert_eq!((codes(json!("odd")), codes(json!(9))), (vec![json!(-32601); 2], vec![json!(-32601)]));
    assert_eq!(stage.rows(TranscriptRowKind::Approval).len(), 0);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_was_never_closed_is_closed_by_a_turns_end_and_by_a_load() -> Outcome {
    let place = tempfile::tempdir()?;
    let go = place.path().join("go");
    let script = opened()
        .on_prompt(|turn| turn.tool_call("t1", "make").tool_call("t2", "test").end_turn())
        .then(|steps| steps.await_file(&go).tool_status("t1", "completed").tool_call("t3", "left over"))
        .next_process()
        .initialize()
        .load_session(|steps| steps)
        .then(|steps| steps.expect("session/prompt", "prompt").tool_status("t3", "failed").end_turn());
    let mut stage = Stage::open(script).await?;
    stage.turn("go").await?;
    let settled = |stage: &Stage, call: &str| {
        stage.watch.row(&format!("tool:{call}")).map(|row| row.data["_meta"]["maestro"]["settled"].clone())
    };
    assert_eq!(stage.watch.state.turn.active_tool_calls, Vec::<String>::new());
    assert_eq!(settled(&stage, "t1"), Some(json!("interrupted")));
    fs::write(&go, "")?;
    stage.watch.until(LIMIT, "the third call", |watch| watch.state.turn.active_tool_calls == ["t3"]).await?;
    assert_eq!(settled(&stage, "t1"), Some(Value::Null), "a later final status removes the mark");
    assert_eq!(settled(&stage, "t2"), Some(json!("interrupted")));
    stage.daemon.stop()?;
    stage.daemon.start()?;
    stage.door.running(&stage.id, LIMIT).await?;
    stage.watch = maestro_testkit::Watch::open(&stage.door, &stage.id).await?;
    assert_eq!(stage.watch.state.turn.active_tool_calls, Vec::<String>::new());
    assert_eq!(settled(&stage, "t3"), Some(json!("interrupted")));
    stage.turn("again").await?;
    assert_eq!(settled(&stage, "t3"), Some(Value::Null));
    assert_eq!(stage.watch.row("tool:t3").map(|row| &row.data["status"]), Some(&json!("failed")));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn history_that_comes_after_the_answer_to_a_load_is_dropped_and_state_is_kept() -> Outcome {
    let late = |steps: Steps| {
        let first = steps.echo("hello").chunk_of("m1", "an answer").tool_call("t1", "make");
        let state = first.update(json!({"sessionUpdate": "usage_update", "used": 7, "size": 9}));
        // Shorter than the quiet that ends the drain, longer than the answer.
        state
            .wait(150)
            .plan(&["an old plan"])
            .chunk_of("m0", "older")
            .permission(1, "t1", "make")
            .await_answer(1)
    };
    let script = opened()
        .on_prompt(|turn| turn.chunk_of("m1", "an answer").end_turn())
        .next_process()
        .initialize()
        .load_session(|steps| steps)
        .then(late)
        .on_prompt(|turn| turn.chunk_of("m2", "live").end_turn());
    let mut stage = Stage::with(builder(script).agent_field(AGENT, "load_drain_ms", 2_000)).await?;
    stage.turn("hello").await?;
    let before = stage.watch.rows.clone();
    stage.daemon.stop()?;
    stage.daemon.start()?;
    stage.door.running(&stage.id, LIMIT).await?;
    stage.watch = maestro_testkit::Watch::open(&stage.door, &stage.id).await?;
    assert_eq!(stage.watch.rows, before);
    assert_eq!(stage.watch.state.context.map(|context| (context.used, context.size)), Some((7, 9)));
    assert_eq!((stage.watch.state.plan.clone(), stage.watch.state.turn.active_tool_calls.len()), (None, 0));
    wait_until(LIMIT, "the answer", || answers(&stage, 1) == ["cancelled"]).await?;
    stage.turn("again").await?;
    assert!(stage.watch.text("agent").ends_with("live"));
    Ok(())
}
