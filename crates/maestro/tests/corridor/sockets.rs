use crate::stage::{LIMIT, Outcome, Stage, turns};
use maestro_protocol::{TranscriptDelta, TranscriptRow};
use maestro_testkit::{Steps, Watch};
use serde_json::Value;

fn chatters(turn: Steps) -> Steps {
    let turn = (0..40).fold(turn, |turn, number| turn.chunk_of("m", &format!("word{number} ")));
    turn.tool_call("t1", "look").tool_status("t1", "completed").plan(&["a", "b"]).thought("hm").end_turn()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_sockets_and_the_replay_tell_the_same() -> Outcome {
    let mut stage = Stage::open(turns(chatters)).await?;
    stage.turn("one").await?;
    let mut second = Watch::open(&stage.door, &stage.id).await?;
    assert_eq!((&second.rows, &second.state), (&stage.watch.rows, &stage.watch.state));
    stage.begin("two").await?;
    stage.watch.turn_end(LIMIT).await?;
    second.turn_end(LIMIT).await?;
    assert_eq!(
        (&second.rows, &second.state, &second.times),
        (&stage.watch.rows, &stage.watch.state, &stage.watch.times)
    );
    assert_eq!(replayed(&stage).await?, stage.watch.rows);
    Ok(())
}

/// The rows that all pages of the replay fold to.
async fn replayed(stage: &Stage) -> Result<Vec<TranscriptRow>, Box<dyn std::error::Error>> {
    let (mut rows, mut since): (Vec<TranscriptRow>, u64) = (Vec::new(), 0);
    loop {
        let page: Value =
            stage.door.replay(&stage.id, &format!("since={since}&limit=7")).await?.expect(200).json();
        for event in page["events"].as_array().into_iter().flatten() {
            for delta in event["transcript"].as_array().into_iter().flatten() {
                match serde_json::from_value(delta.clone())? {
                    TranscriptDelta::Append { row } => rows.push(row),
                    TranscriptDelta::Patch { row } => {
                        let at = rows.iter().position(|old| old.id == row.id).ok_or("a patch of no row")?;
                        rows[at] = row;
                    }
                    other => return Err(format!("not in the plain form: {other:?}").into()),
                }
            }
        }
        match page["next"].as_u64() {
            Some(next) => since = next,
            None => return Ok(rows),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_before_a_cursor_ascend_and_join() -> Outcome {
    let mut stage = Stage::open(turns(chatters)).await?;
    stage.turn("one").await?;
    let cursors = |page: &Value| -> Vec<u64> {
        page["events"].as_array().into_iter().flatten().filter_map(|event| event["cursor"].as_u64()).collect()
    };
    let (mut all, mut before) = (Vec::new(), stage.watch.cursor + 1);
    loop {
        let page: Value =
            stage.door.replay(&stage.id, &format!("before={before}&limit=9")).await?.expect(200).json();
        all = [cursors(&page), all].concat();
        match page["prev"].as_u64() {
            Some(prev) => before = prev,
            None => break,
        }
    }
    assert_eq!(all, (1..=stage.watch.cursor).collect::<Vec<_>>());
    stage.door.replay(&stage.id, "since=1&before=2").await?.expect(400);
    stage.door.replay(&stage.id, "since=x").await?.expect(400);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_says_why_it_closes() -> Outcome {
    let mut stage = Stage::open(turns(chatters)).await?;
    stage.kill().await?;
    assert_eq!(stage.watch.closed(LIMIT).await?, Some(4410));
    let mut stage = Stage::open(turns(chatters)).await?;
    stage.daemon.stop()?;
    assert_eq!(stage.watch.closed(LIMIT).await?, Some(1012));
    Ok(())
}
