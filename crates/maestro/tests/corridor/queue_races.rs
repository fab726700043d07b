use crate::{
    queue::comes_back,
    queue_crash::logged,
    stage::{LIMIT, Outcome, Stage},
};
use maestro_testkit::Door;
use serde_json::{Value, json};
use std::{collections::BTreeMap, error::Error};
use tokio::task::JoinSet;

/// What one client does to the session.
#[derive(Debug, Clone)]
enum Deed {
    Prompt(String),
    /// Adds a message and, perhaps, takes it out again at once.
    Queue {
        text: String,
        regret: bool,
    },
    Cancel,
    Resume,
    Kill,
    Restart,
}

/// What is to be found of a text afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expect {
    /// In the log or in the queue, once.
    Once,
    /// Nowhere.
    Never,
}

async fn act(door: Door, id: String, deed: Deed) -> Result<Option<(String, Expect)>, String> {
    let session = format!("/api/sessions/{id}");
    let post = async |path: &str, body: Value| {
        door.post(&format!("{session}/{path}"), &body).await.map_err(|error| error.to_string())
    };
    match deed {
        Deed::Prompt(text) => {
            let answer = post("structured/prompt", json!({"text": text})).await?;
            let code = answer.json()["code"].as_str().unwrap_or_default().to_owned();
            let expect = match (answer.status.as_u16(), code.as_str()) {
                (202, _) => Expect::Once,
                (409, "turn_in_flight" | "starting" | "not_structured") | (503, "busy") => Expect::Never,
                other => return Err(format!("a prompt was answered {other:?}")),
            };
            Ok(Some((text, expect)))
        }
        Deed::Queue { text, regret } => {
            let answer = post("queue", json!({"text": text})).await?;
            if answer.status == 503 {
                return Ok(Some((text, Expect::Never)));
            }
            let item = answer.expect(201).json()["id"].as_str().unwrap_or_default().to_owned();
            if !regret {
                return Ok(Some((text, Expect::Once)));
            }
            let removed = door.delete(&format!("{session}/queue/{item}")).await;
            match removed.map_err(|error| error.to_string())?.status.as_u16() {
                204 => Ok(Some((text, Expect::Never))),
                404 | 503 => Ok(Some((text, Expect::Once))),
                other => Err(format!("a removal was answered {other}")),
            }
        }
        Deed::Cancel => post("structured/cancel", json!({})).await.map(|_any| None),
        Deed::Resume => post("queue/resume", json!({})).await.map(|_any| None),
        Deed::Restart => post("restart", json!({})).await.map(|_any| None),
        Deed::Kill => door.delete(&session).await.map(|_any| None).map_err(|error| error.to_string()),
    }
}

/// Numbers that look random and are the same in every run.
fn dice(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move |sides| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % sides
    }
}

fn deeds(seed: u64) -> Vec<Deed> {
    let mut roll = dice(seed);
    let deed = |number: u64| {
        let text = format!("{seed}-{number}");
        match roll(12) {
            0..=2 => Deed::Prompt(text),
            3..=5 => Deed::Queue { text, regret: false },
            6 => Deed::Queue { text, regret: true },
            7 => Deed::Cancel,
            8..=9 => Deed::Resume,
            10 => Deed::Restart,
            _ => Deed::Kill,
        }
    };
    (0..16).map(deed).collect()
}

async fn round(
    stage: &Stage,
    seed: u64,
    expected: &mut BTreeMap<String, Expect>,
) -> Result<(), Box<dyn Error>> {
    let mut clients = JoinSet::new();
    for deed in deeds(seed) {
        clients.spawn(act(stage.door.clone(), stage.id.clone(), deed));
    }
    while let Some(done) = clients.join_next().await {
        expected.extend(done??);
    }
    Ok(())
}

/// Prompts, cancels, messages, removals, kills and restarts of one session, all at once.
#[tokio::test(flavor = "multi_thread")]
async fn whatever_crosses_no_row_is_lost_or_doubled_and_no_process_stays() -> Outcome {
    let mut stage = Stage::open(comes_back(|turn| turn.chunk("done").end_turn())).await?;
    let mut expected = BTreeMap::new();
    for seed in 1..=12 {
        round(&stage, seed, &mut expected).await?;
        stage.kill().await?;
        assert_eq!(stage.processes(), Vec::<u32>::new(), "seed {seed}");
        stage.restart().await?;
    }
    stage.door.running(&stage.id, LIMIT).await?;
    stage.kill().await?;

    let log = logged(&stage)?;
    let places = [log.clone(), stage.waiting().await?].concat();
    for (text, expect) in &expected {
        let found = places.iter().filter(|place| *place == text).count();
        let fits = match expect {
            Expect::Once => found == 1,
            Expect::Never => found == 0,
        };
        assert!(fits, "{text} is there {found} times, expected {expect:?}");
        assert!(stage.received().iter().filter(|received| *received == text).count() <= 1, "{text}");
    }
    let lines = stage.log()?;
    let count = |phase: &str| lines.matches(&format!(r#""phase":"{phase}""#)).count();
    assert_eq!(count("started"), count("ended"), "every turn has ended");
    assert_eq!(count("started"), log.len(), "every turn has its prompt");
    Ok(())
}
