use crate::{
    queue::comes_back,
    stage::{LIMIT, Outcome, Stage},
};
use maestro_testkit::{Steps, wait_until};
use serde_json::{Value, json};
use std::{error::Error, time::Duration};

/// Moments after the first message may go at which the daemon is killed, in microseconds. A dispatch takes a few
/// milliseconds, so these fall before, into and behind it.
const MOMENTS_US: [u64; 14] =
    [0, 200, 500, 1_000, 1_500, 2_000, 3_000, 4_000, 6_000, 8_000, 12_000, 18_000, 30_000, 60_000];

/// The texts of the prompts in the log, in order.
pub(crate) fn logged(stage: &Stage) -> Result<Vec<String>, Box<dyn Error>> {
    let log = stage.log()?;
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let prompts = lines.filter(|line| line["update"]["sessionUpdate"] == "user_message_chunk");
    Ok(prompts.filter_map(|line| line["update"]["content"]["text"].as_str().map(str::to_owned)).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_daemon_neither_loses_nor_doubles_a_message() -> Outcome {
    let mut stage = Stage::open(comes_back(|turn| turn.chunk("done").end_turn())).await?;
    let mut added: Vec<String> = Vec::new();
    for (round, moment) in MOMENTS_US.into_iter().enumerate() {
        for number in 0..3 {
            let text = format!("{round}-{number}");
            let body = json!({"text": text});
            stage.door.post(&stage.queue_path(), &body).await?.expect(201);
            added.push(text);
        }
        stage.go_on().await?;
        tokio::time::sleep(Duration::from_micros(moment)).await;
        stage.daemon.kill()?;
        stage.daemon.start()?;

        // In the queue or in the log, each once.
        let mut found = [logged(&stage)?, stage.waiting().await?].concat();
        let mut expect = added.clone();
        found.sort();
        expect.sort();
        assert_eq!(found, expect, "killed {moment} µs after the go");
        let mut received = stage.received();
        received.sort();
        let n_received = received.len();
        received.dedup();
        assert_eq!(received.len(), n_received, "no message reaches the agent twice");
        stage.restart().await?;
    }
    stage.go_on().await?;
    let sent = wait_until(LIMIT, "everything to be sent", || {
        logged(&stage).is_ok_and(|log| log.len() >= added.len())
    });
    let sent = sent.await;
    assert!(sent.is_ok(), "{sent:?}; there waits {:#}, the log is\n{}", stage.queue().await?, stage.log()?);
    assert_eq!(logged(&stage)?, added, "in their order");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_without_its_prompt_leaves_the_message_waiting() -> Outcome {
    let mut stage = Stage::open(comes_back(Steps::end_turn)).await?;
    stage.kill().await?;
    let body = json!({"text": "one"});
    let added = stage.door.post(&stage.queue_path(), &body).await?.expect(201).json();
    stage.daemon.stop()?;
    // As a crash between the two lines leaves it.
    let path = stage.daemon.data().join(format!("sessions/{}.events.jsonl", stage.id));
    let started = json!({
        "maestroEvent": "turn", "phase": "started", "origin": "person", "message_id": "m",
        "queue_item": added["id"], "at": "2026-12-01T00:00:00Z"
    });
    let log = std::fs::read_to_string(&path)?;
    std::fs::write(&path, format!("{log}{started}\n{{\"sessionId\": \"acp-1\", \"upda"))?;
    stage.daemon.start()?;
    assert_eq!(stage.waiting().await?, ["one"]);
    stage.restart().await?;
    stage.go_on().await?;
    wait_until(LIMIT, "the message", || stage.received() == ["one"]).await?;
    Ok(())
}
