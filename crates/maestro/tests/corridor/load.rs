//! Floods, readers that stop, and many sessions: what they cost the daemon, and whether the others notice.

use crate::stage::{AGENT, LIMIT, Outcome, Stage, builder, opened, turns};
use maestro_protocol::{Deltas, WatchQuery};
use maestro_testkit::{Door, Steps, Stream, Watch, WatchError};
use serde_json::json;
use std::{
    error::Error,
    fs,
    time::{Duration, Instant},
};

const MIB: u64 = 1024 * 1024;

/// What a flood may take on a busy machine.
const FLOOD_LIMIT: Duration = Duration::from_secs(100);

const TEXT: WatchQuery = WatchQuery { deltas: Some(Deltas::Text), tail: None };

/// The memory that a process holds now, and the most it held, in bytes.
fn memory(pid: u32) -> Result<(u64, u64), Box<dyn Error>> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let field = |name: &str| -> Option<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    let kib = |name: &str| field(name).ok_or_else(|| format!("no {name} in the status of {pid}"));
    Ok((kib("VmRSS:")? * 1024, kib("VmHWM:")? * 1024))
}

/// Forgets the most that a process held until now.
fn forget_peak(pid: u32) -> std::io::Result<()> {
    fs::write(format!("/proc/{pid}/clear_refs"), "5")
}

/// A turn that streams one text of 256 KiB in 1024 pieces, a few in each millisecond.
fn streams(turn: Steps) -> Steps {
    let piece = "x".repeat(256);
    let burst = |turn: Steps| (0..8).fold(turn.wait(5), |turn, _| turn.chunk_of("m", &piece));
    (0..128).fold(turn, |turn, _| burst(turn)).end_turn()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_costs_a_text_socket_its_length_and_a_plain_one_a_small_multiple() -> Outcome {
    let mut stage = Stage::open(turns(streams)).await?;
    let mut text = Watch::open_as(&stage.door, &stage.id, TEXT).await?;
    let (plain_before, text_before) = (stage.watch.bytes, text.bytes);
    stage.begin("go").await?;
    let (plain_end, text_end) = tokio::join!(stage.watch.turn_end(LIMIT), text.turn_end(LIMIT));
    assert_eq!((plain_end?.as_str(), text_end?.as_str()), ("end_turn", "end_turn"));
    assert_eq!((text.rows.len(), &text.rows), (stage.watch.rows.len(), &stage.watch.rows));
    let length = 256 * 1024;
    assert_eq!(text.text("agent").len(), length);
    let (plain, text) = (stage.watch.bytes - plain_before, text.bytes - text_before);
    // Each of at most 1024 frames has some 500 bytes around its text.
    assert!(text < 4 * length as u64, "{text} bytes in the text form");
    // A frame for each piece would be 500 times the length.
    assert!(plain < 30 * length as u64, "{plain} bytes in the plain form");
    Ok(())
}

/// A socket that was opened, and read only when it is told to.
async fn stopped(door: &Door, id: &str) -> Result<Watch, WatchError> {
    Watch::open_as(door, id, TEXT).await
}

/// How much the daemon grew by a session that streams `mebibytes` while `readers` sockets do not read; then they do.
async fn growth(stage: &Stage, mebibytes: u64, readers: usize) -> Result<u64, Box<dyn Error>> {
    let pid = stage.daemon.pid().ok_or("the daemon does not run")?;
    let id = stage.door.create_session(AGENT, &stage.daemon.work(), json!({})).await?.id.to_string();
    stage.door.running(&id, LIMIT).await?;
    let mut reading = Watch::open_as(&stage.door, &id, WatchQuery { tail: Some(0), ..TEXT }).await?;
    let mut waiting = Vec::new();
    for _ in 0..readers {
        waiting.push(stopped(&stage.door, &id).await?);
    }
    let (before, _) = memory(pid)?;
    forget_peak(pid)?;
    stage.door.prompt(&id, "go").await?.expect(202);
    reading.turn_end(FLOOD_LIMIT).await?;
    let (_, peak) = memory(pid)?;

    let length = usize::try_from(mebibytes * MIB)?;
    let expect = Watch::open_as(&stage.door, &id, TEXT).await?;
    assert_eq!(expect.text("agent").len(), length);
    for mut watch in waiting {
        // One that was dropped meanwhile comes back, as clients do.
        match watch.turn_end(LIMIT).await {
            Ok(_) => {}
            Err(WatchError::Closed(_) | WatchError::Door(_)) => watch = stopped(&stage.door, &id).await?,
            Err(error) => return Err(error.into()),
        }
        assert_eq!(watch.rows, expect.rows, "everything once");
        assert!(watch.frames < 1000, "{} frames for what was missed", watch.frames);
    }
    stage.door.delete(&format!("/api/sessions/{id}")).await?.expect(204);
    Ok(peak.saturating_sub(before))
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_that_stop_cost_no_more_than_an_answer_each_and_miss_nothing() -> Outcome {
    const FLOOD: u64 = 4;
    let script = turns(|turn| turn.flood_stdout(FLOOD).end_turn());
    let stage = Stage::open(script).await?;
    let alone = growth(&stage, FLOOD, 0).await?;
    let watched = growth(&stage, FLOOD, 16).await?;
    // An answer holds what came since the one before it; a queue for each would hold the whole flood.
    assert!(watched <= alone + 16 * MIB + 8 * MIB, "{watched} bytes with readers, {alone} without");
    Ok(())
}

/// The time of one look at each of these sessions, the middle one of all.
async fn median(door: &Door, ids: &[String]) -> Result<Duration, Box<dyn Error>> {
    let mut times = Vec::new();
    for id in ids {
        let start = Instant::now();
        door.get(&format!("/api/sessions/{id}")).await?.expect(200);
        door.replay(id, "limit=1").await?.expect(200);
        times.push(start.elapsed());
    }
    times.sort_unstable();
    Ok(times[times.len() / 2])
}

/// A turn that replaces the output of one command over and over, at full speed.
fn floods(turn: Steps, mebibytes: u64) -> Steps {
    let output = "x".repeat(64 * 1024);
    let update = json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "rawOutput": output});
    let mut line = json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "acp-1"}});
    line["params"]["update"] = update;
    let line = format!("{line}\n");
    turn.bytes(Stream::Stdout, line.as_bytes(), mebibytes * 16)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_floods_takes_neither_memory_nor_answers_from_fifty_others() -> Outcome {
    const FLOOD: u64 = 64;
    let script = opened().on_every_prompt(|turn| turn.chunk("here").end_turn());
    let flood = opened().on_prompt(|turn| floods(turn, FLOOD).end_turn());
    let stage = Stage::with(builder(flood).scripted("quiet", script)).await?;
    let mut ids = Vec::new();
    for _ in 0..50 {
        let session = stage.door.create_session("quiet", &stage.daemon.work(), json!({})).await?;
        ids.push(session.id.to_string());
    }
    let mut watches = Vec::new();
    for id in &ids {
        stage.door.running(id, LIMIT).await?;
        watches.push(Watch::open_as(&stage.door, id, TEXT).await?);
    }
    let pid = stage.daemon.pid().ok_or("the daemon does not run")?;
    let (idle, _) = memory(pid)?;
    assert!(idle < 128 * MIB, "{idle} bytes for fifty sessions that do nothing");
    let calm = median(&stage.door, &ids[..10]).await?;

    forget_peak(pid)?;
    stage.begin("go").await?;
    let Stage { daemon, door, id, mut watch } = stage;
    let flooding = tokio::spawn(async move { watch.turn_end(FLOOD_LIMIT).await });
    let (mut rounds, mut slowest) = (0, Duration::ZERO);
    while !flooding.is_finished() && rounds < 20 {
        slowest = slowest.max(median(&door, &ids[..10]).await?);
        rounds += 1;
        // A whole turn of another session, from its prompt to its end.
        let quiet = &mut watches[rounds % 50];
        door.prompt(&ids[rounds % 50], "hello").await?.expect(202);
        assert_eq!(quiet.turn_end(LIMIT).await?, "end_turn");
    }
    assert!(rounds > 0, "the flood was over before anybody could notice");
    assert_eq!(flooding.await??, "end_turn");
    let (_, peak) = memory(pid)?;
    assert!(peak - idle < 32 * MIB, "{} bytes more for a flood of {FLOOD} MiB", peak - idle);
    assert!(
        slowest < calm * 20 + Duration::from_millis(250),
        "an answer took {slowest:?} during the flood and {calm:?} before"
    );
    let log = fs::metadata(daemon.data().join(format!("sessions/{id}.events.jsonl")))?;
    assert!(log.len() > FLOOD * MIB, "all of it is in the log");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_what_is_of_no_use_is_a_few_lines_in_the_daemons_log() -> Outcome {
    const EACH: u64 = 1000;
    let script = opened().on_prompt(|turn| {
        let messages = concat!(
            "no message at all\n",
            "{\"jsonrpc\":\"2.0\",\"id\":\"odd\",\"method\":\"no/such\",\"params\":{}}\n",
            "{\"jsonrpc\":\"2.0\",\"method\":\"no/such/word\",\"params\":{}}\n",
            "{\"jsonrpc\":\"2.0\",\"id\":987654321,\"result\":{}}\n",
        );
        turn.bytes(Stream::Stdout, messages.as_bytes(), EACH).chunk("alive").end_turn()
    });
    let mut stage = Stage::with(builder(script).env("MAESTRO_LOG", "maestro_daemon::session=debug")).await?;
    let before = stage.daemon.log().lines().count();
    assert_eq!(stage.turn("go").await?, "end_turn");
    assert_eq!(stage.watch.text("agent"), "alive");
    assert_eq!(stage.rows(maestro_protocol::TranscriptRowKind::Notice).len() as u64, EACH, "all are shown");
    let log = stage.daemon.log();
    let told = log.lines().skip(before).collect::<Vec<_>>();
    assert!(told.len() < 40, "{} lines for {} messages: {told:#?}", told.len(), 4 * EACH);
    for count in [1, 10, 100, 1000] {
        let said = format!(", {count} so far");
        assert_eq!(told.iter().filter(|line| line.contains(&said)).count(), 4, "{told:#?}");
    }
    assert!(!log.contains("no/such") && !log.contains("no message at all"), "no output of an agent is there");
    Ok(())
}
