use crate::stage::{LIMIT, Outcome, Stage, turns};
use maestro_protocol::{Deltas, RowHunks, TranscriptDelta, TranscriptRow, WatchQuery};
use maestro_testkit::{DoorError, Steps, Watch};
use serde_json::{Value, json};

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

/// What streams in wide characters, splits letters from their marks, and goes on after others.
fn speaks_wide(turn: Steps) -> Steps {
    let pieces = ["\u{1F980}", "e", "\u{301}", "\u{10FFFF}", "z", "\u{1F468}\u{200D}", "\u{1F469}", "\n"];
    let turn = (0..60).fold(turn, |turn, n| {
        let turn = turn.chunk_of("m", pieces[n % pieces.len()]).thought(pieces[(n + 3) % pieces.len()]);
        if n % 20 == 7 { turn.tool_call(&format!("t{n}"), "look").plan(&["a"]) } else { turn }
    });
    turn.chunk_of("m", " done").end_turn()
}

#[tokio::test(flavor = "multi_thread")]
async fn all_forms_of_a_socket_tell_the_same() -> Outcome {
    let mut stage = Stage::open(turns(speaks_wide)).await?;
    stage.turn("one").await?;
    let text = WatchQuery { deltas: Some(Deltas::Text), tail: None };
    let mut whole = Watch::open_as(&stage.door, &stage.id, text).await?;
    let mut tail = Watch::open_as(&stage.door, &stage.id, WatchQuery { tail: Some(2), ..text }).await?;
    assert_eq!((&whole.rows, &whole.state, whole.older), (&stage.watch.rows, &stage.watch.state, false));
    assert_eq!((&tail.rows[..], tail.older), (&stage.watch.rows[stage.watch.rows.len() - 2..], true));
    stage.begin("two").await?;
    stage.watch.turn_end(LIMIT).await?;
    for watch in [&mut whole, &mut tail] {
        watch.turn_end(LIMIT).await?;
        assert_eq!((watch.cursor, &watch.state), (stage.watch.cursor, &stage.watch.state));
        let held = &stage.watch.rows[stage.watch.rows.len() - watch.rows.len()..];
        assert_eq!(watch.rows, held, "{:?}", watch.older);
    }
    assert_eq!((whole.rows.len(), &whole.times), (stage.watch.rows.len(), &stage.watch.times));
    for query in ["deltas=odd", "tail=-1", "tail=1&tail=2", "since=1"] {
        let refused = stage.door.socket(&format!("/api/structured/{}?{query}", stage.id)).await;
        let Err(DoorError::Refused(answer)) = refused else { panic!("{query}: {refused:?}") };
        assert_eq!(
            (answer.status.as_u16(), &answer.json()["code"]),
            (400, &"invalid_request".into()),
            "{query}"
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_with_a_diff_is_shown_as_hunks() -> Outcome {
    let edit = json!({"sessionUpdate": "tool_call", "toolCallId": "t/1 a", "title": "Edit", "content": [
        {"type": "diff", "path": "/w/a", "oldText": "one\ntwo\n", "newText": "one\n2\n"}]});
    let mut stage = Stage::open(turns(|turn| turn.update(edit).tool_call("t2", "look").end_turn())).await?;
    stage.turn("go").await?;
    let at = |row: &str| format!("/api/sessions/{}/structured/rows/{row}/hunks", stage.id);
    let hunks: RowHunks = stage.door.get(&at("tool%3At%2F1%20a")).await?.expect(200).read();
    assert_eq!((hunks.row_id.as_str(), hunks.cursor), ("tool:t/1 a", stage.watch.cursor));
    let [diff] = &hunks.diffs[..] else { panic!("{hunks:?}") };
    assert_eq!((diff.path.as_str(), diff.is_new, diff.hunks.len()), ("/w/a", false, 1));
    assert_eq!(diff.hunks[0].lines.len(), 3, "{diff:?}");
    for row in ["tool%3At2", "tool%3At3", "%FF"] {
        assert_eq!(stage.door.get(&at(row)).await?.expect(404).json()["code"], "not_found", "{row}");
    }
    let path = at("tool%3At2");
    stage.kill().await?;
    assert_eq!(stage.door.get(&path).await?.expect(409).json()["code"], "not_structured");
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
