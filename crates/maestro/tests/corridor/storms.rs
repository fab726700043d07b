//! Many readers of a long history at once.

use crate::stage::{LIMIT, Outcome, Stage, opened};
use maestro_testkit::Answer;
use serde_json::{Value, json};
use std::fs;

const READERS: usize = 40;
const PAGE: usize = 4 * 1024 * 1024;

/// Memory that the daemon may need for all pages of the storm, in bytes: about a hundred MB for pages that are not read yet
/// and those that are made. If each reader had the whole log buffered, it would be more than 600.
const MEMORY_MAX: u64 = 256 * 1024 * 1024;

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_of_replays_is_served_in_pages_and_costs_no_more_than_these() -> Outcome {
    let output = "o".repeat(20 * 1024);
    let turn = opened().on_prompt(|turn| {
        let calls = |turn, number: u64| {
            let content = json!([{"type": "content", "content": {"type": "text", "text": output}}]);
            maestro_testkit::Steps::update(
                turn,
                json!({"sessionUpdate": "tool_call_update", "toolCallId": format!("t{number}"),
                    "status": "in_progress", "content": content}),
            )
        };
        turn.repeat(Some(40), |turn| (0..20).fold(turn, calls)).end_turn()
    });
    let mut stage = Stage::open(turn).await?;
    stage.turn("go").await?;
    let pid = stage.daemon.pid().expect("a daemon");
    // Forgets the peak so far: what the session itself needed.
    fs::write(format!("/proc/{pid}/clear_refs"), "5")?;
    let before = peak(pid)?;
    let readers: Vec<_> = (0..READERS)
        .map(|number| {
            let (door, id) = (stage.door.clone(), stage.id.clone());
            let query = ["since=0&limit=100", "before=9999999&limit=100"][number % 2];
            tokio::spawn(async move { door.replay(&id, query).await })
        })
        .collect();
    // Meanwhile others are served.
    tokio::time::timeout(LIMIT, stage.door.session(&stage.id)).await??;
    let mut pages = Vec::new();
    for reader in readers {
        let answer: Answer = reader.await??.expect(200);
        pages.push(answer.text());
    }
    assert!(pages.iter().step_by(2).all(|page| *page == pages[0]));
    assert!(pages.iter().skip(1).step_by(2).all(|page| *page == pages[1]));
    let longest = stage.door.replay(&stage.id, "since=0&limit=500").await?.expect(200);
    assert!(longest.text().len() < PAGE + 1024, "a page ends at 4 MiB");
    let newest: Value = serde_json::from_str(&pages[1])?;
    assert_eq!(newest["next"], Value::Null);
    assert_eq!(newest["events"].as_array().map(Vec::len), Some(100));
    let used = peak(pid)? - before;
    assert!(used < MEMORY_MAX, "the storm took {used} bytes");
    Ok(())
}

/// The most memory that a process had at once, in bytes.
fn peak(pid: u32) -> Result<u64, Box<dyn std::error::Error>> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).ok_or("no peak")?;
    let kibibytes: u64 = line.split_whitespace().nth(1).ok_or("no number")?.parse()?;
    Ok(kibibytes * 1024)
}
