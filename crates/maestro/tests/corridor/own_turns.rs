//! Turns that an agent starts by itself (CONTRACT §8.6).

use crate::stage::{AGENT, LIMIT, Outcome, Stage, builder, opened};
use maestro_protocol::{EndReason, Origin, TranscriptRowKind};
use maestro_testkit::{DaemonBuilder, Script, Steps, TestDaemon, wait_until};
use serde_json::{Value, json};
use std::{error::Error, path::Path};

/// A silence that a test can wait for, and that no agent keeps on a busy machine while it has something to say.
const QUIET_MS: u32 = 2_000;

/// How soon after a cancel nothing opens a turn (CONTRACT §8.6).
const HUSH_MS: i64 = 250;

/// An agent that starts turns by itself and marks no end.
fn unmarked(script: Script) -> DaemonBuilder {
    builder(script).agent_field(AGENT, "own_turns", true).agent_field(AGENT, "own_turn_quiet_ms", QUIET_MS)
}

/// One turn of a person, then, when the file is there, `work` that nobody asked for.
fn later(file: &Path, work: impl FnOnce(Steps) -> Steps) -> Script {
    let turn = |turn: Steps| turn.chunk_of("m1", "started").end_turn();
    opened().on_prompt(turn).then(|steps| work(steps.await_file(file)))
}

impl Stage {
    async fn own_turn(&mut self) -> Outcome {
        let own = |watch: &maestro_testkit::Watch| {
            watch.state.turn.active && watch.state.turn.origin == Some(Origin::Agent)
        };
        Ok(self.watch.until(LIMIT, "a turn of the agent's own", own).await?)
    }

    /// Phase, origin and reason of all turn lines.
    fn turn_lines(&self) -> Result<Vec<String>, Box<dyn Error>> {
        let lines = self.log()?;
        let lines = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let turns = lines.filter(|line| line["maestroEvent"] == "turn");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok(turns
            .map(|line| {
                format!("{} {} {}", text(&line["origin"]), text(&line["phase"]), text(&line["reason"]))
            })
            .map(|line| line.trim().to_owned())
            .collect())
    }
}

const PERSONS: [&str; 2] = ["person started", "person ended end_turn"];

fn with_persons(own: &[&str]) -> Vec<String> {
    PERSONS.iter().chain(own).map(|line| (*line).to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_nobody_asked_for_is_a_turn_of_the_agents_own() -> Outcome {
    let place = tempfile::tempdir()?;
    let go = place.path().join("go");
    let script = later(&go, |steps| {
        let asked = steps.tool_call("t2", "touch").permission(1, "t2", "touch x").await_answer(1);
        asked.tool_status("t2", "completed").chunk_of("m2", "it ended")
    });
    let script = script.on_every_prompt(|turn| turn.chunk_of("m3", "hello again").end_turn());
    let mut stage = Stage::with(unmarked(script)).await?;
    assert_eq!(stage.turn("go").await?, "end_turn");
    std::fs::write(&go, "")?;
    let nonce = stage.asked().await?;
    assert_eq!(stage.watch.state.turn.origin, Some(Origin::Agent));
    assert_eq!(stage.watch.state.turn.active_tool_calls, ["t2"]);
    let refused = stage.door.prompt(&stage.id, "now").await?.expect(409);
    assert_eq!(refused.json()["code"], "turn_in_flight");
    stage.decide(&nonce, json!("AllowOnce"), 204).await?;
    assert_eq!(stage.watch.turn_end(LIMIT).await?, "quiet");
    assert!(stage.watch.text("agent").ends_with("it ended"));
    assert_eq!(stage.turn("now").await?, "end_turn");
    let own = ["agent started", "agent ended quiet"];
    assert_eq!(stage.turn_lines()?, [&with_persons(&own)[..], &with_persons(&[])[..]].concat());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_of_the_agents_own_ends_at_the_agents_mark() -> Outcome {
    let usage = |kind: &str| json!({"sessionUpdate": "usage_update", "used": 1, "size": 2, "_meta": {"_claude/origin": {"kind": kind}}});
    let marks = [
        (
            "claude-agent-acp",
            json!({"jsonrpc": "2.0", "method": "session/update", "params": {
            "sessionId": "acp-1", "update": usage("task-notification")}}),
        ),
        (
            "qwen",
            json!({"jsonrpc": "2.0", "method": "_qwencode/end_turn", "params": {"sessionId": "acp-1", "reason": "end_turn"}}),
        ),
    ];
    for (agent, mark) in marks {
        let place = tempfile::tempdir()?;
        let go = place.path().join("go");
        let script = later(&go, |steps| {
            let between = steps.thought("hm").update(usage("human")).chunk_of("m2", "it ended");
            between.send(mark)
        });
        let script = script.on_prompt(Steps::end_turn);
        let daemon = TestDaemon::builder(env!("CARGO_BIN_EXE_maestro")).scripted(agent, script);
        // Silence would take longer than anything here may.
        let daemon =
            daemon.agent_field(agent, "own_turn_quiet_ms", 60_000).agent_field(agent, "asking_mode", "");
        let mut stage = Stage::of(agent, daemon, json!({})).await?;
        stage.turn("go").await?;
        std::fs::write(&go, "")?;
        assert_eq!(stage.watch.turn_end(LIMIT).await?, "end_turn", "{agent}");
        assert!(stage.watch.text("agent").contains("it ended"), "{agent}");
        assert_eq!(stage.turn_lines()?, with_persons(&["agent started", "agent ended end_turn"]), "{agent}");
        assert_eq!(stage.turn("again").await?, "end_turn", "{agent}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn silence_with_a_call_open_ends_nothing() -> Outcome {
    let place = tempfile::tempdir()?;
    let go = place.path().join("go");
    let script = later(&go, |steps| {
        let working = steps.tool_call("t2", "make").wait(2 * u64::from(QUIET_MS));
        working.tool_status("t2", "completed")
    });
    let mut stage = Stage::with(unmarked(script)).await?;
    stage.turn("go").await?;
    std::fs::write(&go, "")?;
    stage.own_turn().await?;
    assert_eq!(stage.watch.turn_end(LIMIT).await?, "quiet");
    let call = stage.watch.row("tool:t2").ok_or("no row")?;
    assert_eq!((&call.data["status"], &call.data["_meta"]), (&json!("completed"), &Value::Null));
    assert_eq!(stage.turn_lines()?, with_persons(&["agent started", "agent ended quiet"]));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn silence_while_a_person_is_asked_ends_nothing() -> Outcome {
    let place = tempfile::tempdir()?;
    let go = place.path().join("go");
    let script = later(&go, |steps| {
        let asked = steps.permission(1, "t2", "ls").wait(2 * u64::from(QUIET_MS)).note("waited");
        asked.await_answer(1).tool_status("t2", "completed")
    });
    let mut stage = Stage::with(unmarked(script)).await?;
    stage.turn("go").await?;
    std::fs::write(&go, "")?;
    let nonce = stage.asked().await?;
    stage.record().wait_for_note(LIMIT, "waited")?;
    stage.decide(&nonce, json!("Deny"), 204).await?;
    assert_eq!(stage.watch.turn_end(LIMIT).await?, "quiet");
    assert_eq!(stage.turn_lines()?, with_persons(&["agent started", "agent ended quiet"]));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_ends_the_agents_own_turn_at_once_and_nothing_dies_of_it() -> Outcome {
    let place = tempfile::tempdir()?;
    let go = place.path().join("go");
    let script = later(&go, |steps| {
        let asked = steps.tool_call("t2", "touch").permission(1, "t2", "touch x").permission(2, "t3", "rm x");
        asked.note("asked").expect("session/cancel", "c").await_answer(1).await_answer(2)
    });
    // A prompt that takes longer than the grace of a cancelled one: nobody waits for an answer to the agent's own work.
    let script = script.on_prompt(|turn| turn.wait(1_000).chunk_of("m3", "hello again").end_turn());
    let mut stage = Stage::with(unmarked(script)).await?;
    stage.turn("go").await?;
    std::fs::write(&go, "")?;
    let nonce = stage.asked().await?;
    stage.record().wait_for_note(LIMIT, "asked")?;
    stage.door.cancel(&stage.id).await?.expect(202);
    assert_eq!(stage.watch.turn_end(LIMIT).await?, "cancelled");
    assert_eq!(stage.watch.state.pending_approval, None);
    stage.decide(&nonce, json!("AllowOnce"), 204).await?;
    assert_eq!(stage.turn("now").await?, "end_turn");
    let told = |id: u64| {
        let answers = stage.record().answers(id).into_iter();
        answers.map(|answer| answer["result"]["outcome"]["outcome"].clone()).collect::<Vec<_>>()
    };
    assert_eq!((told(1), told(2)), (vec![json!("cancelled")], vec![json!("cancelled")]));
    assert_eq!(stage.record().calls("session/cancel").len(), 1);
    let own = ["agent started", "agent ended cancelled"];
    assert_eq!(stage.turn_lines()?, [&with_persons(&own)[..], &with_persons(&[])[..]].concat());
    let outcomes: Vec<_> = stage.outcomes().into_iter().map(|outcome| outcome["because"].clone()).collect();
    assert_eq!(outcomes, ["turn_cancelled"], "what only waited has no row");
    assert_eq!(
        stage.watch.row("tool:t2").ok_or("no row")?.data["_meta"]["maestro"]["settled"],
        "interrupted"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_ignores_the_cancel_of_its_own_turn_has_another_after_the_hush() -> Outcome {
    let place = tempfile::tempdir()?;
    let go = place.path().join("go");
    let script = later(&go, |steps| steps.repeat(None, |steps| steps.chunk_of("m2", ".").wait(20)));
    let mut stage = Stage::with(unmarked(script)).await?;
    stage.turn("go").await?;
    std::fs::write(&go, "")?;
    stage.own_turn().await?;
    stage.door.cancel(&stage.id).await?.expect(202);
    assert_eq!(stage.watch.turn_end(LIMIT).await?, "cancelled");
    stage.own_turn().await?;
    let ended = stage.watch.state.turn.last_end.as_ref().ok_or("no end")?.at;
    let started = stage.watch.state.turn.started_at.ok_or("no start")?;
    let hush = started.as_millisecond() - ended.as_millisecond();
    // Both are read from a clock of whole milliseconds.
    assert!(hush >= HUSH_MS - 1, "the next turn opened after {hush} ms");
    assert_eq!(stage.door.session(&stage.id).await?.end_reason, None);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_follows_a_cancelled_answer_or_belongs_to_a_known_call_opens_no_turn() -> Outcome {
    let script = opened()
        .on_prompt(|turn| {
            // The answer and what follows it come as one.
            let last = concat!(
                r#"{"jsonrpc":"2.0","id":{{id:prompt}},"result":{"stopReason":"cancelled"}}"#,
                "\n",
                r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"acp-1","update":{"#,
                r#""sessionUpdate":"agent_message_chunk","messageId":"m1","content":{"type":"text","text":" no more"}}}}"#,
                "\n"
            );
            turn.tool_call("t1", "make").chunk_of("m1", "working").await_cancel().raw(last)
        })
        .on_prompt(|turn| {
            let over = turn.tool_call("t2", "make").end_turn();
            over.tool_status("t2", "completed").plan(&["a plan"]).echo("late echo").chunk("").note("late")
        });
    let mut stage = Stage::with(unmarked(script)).await?;
    stage.begin("one").await?;
    stage.says("working").await?;
    stage.door.cancel(&stage.id).await?.expect(202);
    assert_eq!(stage.watch.turn_end(LIMIT).await?, "cancelled");
    stage.says("working no more").await?;
    assert_eq!(stage.turn("two").await?, "end_turn");
    stage.watch.until(LIMIT, "the late echo", |watch| watch.text("user").contains("late echo")).await?;
    let call = stage.watch.row("tool:t2").ok_or("no row")?;
    assert_eq!((&call.data["status"], stage.watch.state.turn.active), (&json!("completed"), false));
    let persons = ["person started", "person ended cancelled", "person started", "person ended end_turn"];
    assert_eq!(stage.turn_lines()?, persons);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_dies_in_a_turn_of_its_own_leaves_none_open() -> Outcome {
    let place = tempfile::tempdir()?;
    let go = place.path().join("go");
    let script = later(&go, |steps| steps.chunk_of("m2", "hm").exit(3));
    let mut stage = Stage::with(unmarked(script)).await?;
    stage.turn("go").await?;
    std::fs::write(&go, "")?;
    assert_eq!(stage.watch.closed(LIMIT).await?, Some(4410));
    assert_eq!(stage.dead().await?.end_reason, Some(EndReason::Exited));
    assert_eq!(stage.turn_lines()?, with_persons(&["agent started", "agent ended interrupted"]));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_is_not_marked_has_no_turns_of_its_own() -> Outcome {
    let place = tempfile::tempdir()?;
    let go = place.path().join("go");
    let script = later(&go, |steps| {
        let asked = steps.chunk_of("m2", "hm").permission(1, "t2", "ls").await_answer(1);
        asked.tool_status("t2", "completed").chunk_of("m2", " done")
    });
    let mut stage = Stage::open(script).await?;
    stage.turn("go").await?;
    std::fs::write(&go, "")?;
    let nonce = stage.asked().await?;
    assert!(!stage.watch.state.turn.active);
    stage.decide(&nonce, json!("AllowOnce"), 204).await?;
    stage.says("hm done").await?;
    assert_eq!(stage.turn_lines()?, PERSONS);
    assert_eq!(stage.rows(TranscriptRowKind::Approval).len(), 1);
    wait_until(LIMIT, "the answer", || stage.record().answers(1).len() == 1).await?;
    Ok(())
}
