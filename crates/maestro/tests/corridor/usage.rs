use crate::stage::{LIMIT, Outcome, Stage, turns};
use maestro_protocol::UsageReport;
use maestro_testkit::Steps;
use serde_json::{Value, json};
use std::fs;

/// A turn that tells what it used: tokens in its answer, the cumulative cost before.
fn tells(turn: Steps) -> Steps {
    let cost = json!({"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": {"amount": 0.25, "currency": "USD"}});
    let usage = json!({"inputTokens": 5, "outputTokens": 7, "totalTokens": 12});
    turn.update(cost).reply("prompt", json!({"stopReason": "end_turn", "usage": usage}))
}

impl Stage {
    async fn usage(&self) -> Result<UsageReport, Box<dyn std::error::Error>> {
        Ok(self.door.get("/api/usage").await?.expect(200).read())
    }
}

#[track_caller]
fn check(report: &UsageReport, turns: u64) {
    let [entry] = &report.usage[..] else { panic!("{report:?}") };
    let spending = &entry.spending;
    assert_eq!(
        (spending.turns, spending.tokens.input, spending.tokens.output),
        (turns, 5 * turns, 7 * turns)
    );
    assert_eq!((entry.agent.as_str(), spending.cost["USD"]), ("scripted", 0.25));
    assert_eq!(report.uncounted_sessions, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn usage_is_there_while_a_session_runs_and_after_its_end() -> Outcome {
    let mut stage = Stage::open(turns(tells)).await?;
    stage.turn("one").await?;
    stage.turn("two").await?;
    check(&stage.usage().await?, 2);
    stage.kill().await?;
    stage.dead().await?;
    check(&stage.usage().await?, 2);
    stage.daemon.stop()?;
    stage.daemon.start()?;
    check(&stage.usage().await?, 2);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn usage_survives_a_kill_of_the_daemon() -> Outcome {
    let mut stage = Stage::open(turns(tells)).await?;
    stage.turn("one").await?;
    stage.daemon.kill()?;
    stage.daemon.start()?;
    stage.door.dead(&stage.id, LIMIT).await?;
    check(&stage.usage().await?, 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_without_a_count_is_counted_when_first_asked() -> Outcome {
    let mut stage = Stage::open(turns(tells)).await?;
    stage.turn("one").await?;
    stage.kill().await?;
    stage.dead().await?;
    stage.daemon.stop()?;
    let path = stage.daemon.data().join(format!("sessions/{}.json", stage.id));
    let stored =
        || -> Result<Value, Box<dyn std::error::Error>> { Ok(serde_json::from_slice(&fs::read(&path)?)?) };
    let mut without = stored()?;
    assert!(without.as_object_mut().and_then(|fields| fields.remove("ledger")).is_some());
    let before = without["session"].clone();
    fs::write(&path, without.to_string())?;
    stage.daemon.start()?;
    check(&stage.usage().await?, 1);
    stage.daemon.stop()?;
    let after = stored()?;
    assert!(after["ledger"].is_object(), "the count is kept: {after}");
    assert_eq!(after["session"], before, "a look changes nothing");
    Ok(())
}
