//! What people feel: how fast their click counts, and that nothing is missing.

use crate::{
    agent::now_ns,
    figure::Figure,
    goals::pages::request_ms,
    stage::{Bench, LIMIT, Stage},
    stats::{number, percentile},
};
use anyhow::{Context as _, Result};
use maestro_testkit::Watch;
use serde_json::json;
use std::{collections::BTreeSet, time::Duration};

/// The stamps in a text, in their order.
fn stamps(text: &str) -> Vec<u64> {
    let parts = text.split('@').skip(1);
    parts.filter_map(|part| part.split_once(';')?.0.parse().ok()).collect()
}

async fn watch(stage: &Stage) -> Result<Watch> {
    Ok(Watch::open(&stage.door, &stage.ids[0]).await?)
}

pub(super) async fn approvals(bench: Bench) -> Result<Vec<Figure>> {
    let count = bench.size(20, 300);
    let stage = bench.stage(1).await?;
    let mut watch = watch(&stage).await?;
    stage.prompt(0, &format!("ask {count}")).await?;
    let mut clicks = Vec::new();
    let mut last = None;
    for _ in 0..count {
        watch
            .until(LIMIT, "the next request", |watch| watch.nonce().is_some() && watch.nonce() != last)
            .await?;
        let nonce = watch.nonce().context("no nonce")?;
        clicks.push(now_ns());
        stage.door.decide(&stage.ids[0], &nonce, json!("AllowOnce")).await?.expect(204);
        last = Some(nonce);
    }
    watch.until(LIMIT, "the end", |watch| !watch.state.turn.active).await?;
    let answers = stamps(&watch.text("agent"));
    let waits: Vec<f64> = clicks
        .iter()
        .zip(&answers)
        .map(|(click, answer)| number(answer.saturating_sub(*click)) / 1e6)
        .collect();
    let page = bench.page().await?;
    let floor = request_ms(&page.socket, "/", bench.runs() * 20).await?;
    let figure = |what, share| {
        Figure::new("approvals", what, percentile(&waits, share), "ms").beside(
            "HTTP that does nothing",
            floor,
            None,
        )
    };
    let missing = number(clicks.len()) - number(answers.len());
    Ok(vec![
        figure("from the click to the agent, on disk in between, p50", 0.5),
        figure("the same, p99", 0.99),
        Figure::new("approvals", "answers that did not arrive", missing, "").at_most(0.0),
    ])
}

pub(super) async fn reconnects(bench: Bench) -> Result<Vec<Figure>> {
    let reconnects = bench.size(10, 200);
    let chunks: u64 = bench.size(500, 12_000);
    let stage = bench.stage(1).await?;
    stage.prompt(0, &format!("stream {chunks} 1000")).await?;
    let (mut gaps, mut seen) = (0_u64, Vec::new());
    for _ in 0..reconnects {
        let mut watch = watch(&stage).await?;
        let frames = watch.frames;
        watch
            .until(LIMIT, "some frames", |watch| watch.frames >= frames + 2 || !watch.state.turn.active)
            .await?;
        let now = stamps(&watch.text("agent"));
        gaps += u64::from(!now.starts_with(&seen));
        seen = now;
    }
    let mut last = watch(&stage).await?;
    last.until(LIMIT, "the end", |watch| !watch.state.turn.active).await?;
    let all = stamps(&last.text("agent"));
    gaps += u64::from(!all.starts_with(&seen));
    Ok(vec![
        Figure::new("reconnects", format!("gaps over {reconnects} reconnects in a stream"), number(gaps), "")
            .at_most(0.0),
        Figure::new(
            "reconnects",
            format!("chunks of {chunks} that are missing at the end"),
            number(chunks) - number(all.len()),
            "",
        )
        .at_most(0.0),
    ])
}

pub(super) async fn restarts(bench: Bench) -> Result<Vec<Figure>> {
    let restarts = bench.size(3, 20);
    let mut stage = bench.stage(1).await?;
    let path = format!("/api/sessions/{}/restart", stage.ids[0]);
    let (mut lost, mut shown) = (0_usize, 0);
    for _ in 0..restarts {
        let mut watch = watch(&stage).await?;
        stage.prompt(0, "stream 100000 2000").await?;
        let rows = watch.frames + 5;
        watch.until(LIMIT, "some frames", |watch| watch.frames >= rows).await?;
        tokio::time::sleep(Duration::from_millis(50)).await;
        stage.daemon.kill()?;
        // What had come to this side before the kill counts as shown.
        while watch.until(LIMIT, "the end of the socket", |_| false).await.is_ok() {}
        let before = stamps(&watch.text("agent"));
        stage.daemon.start()?;
        stage.door.post(&path, &json!({})).await?.expect(202);
        stage.door.running(&stage.ids[0], LIMIT).await?;
        let after: BTreeSet<u64> = stamps(&self::watch(&stage).await?.text("agent")).into_iter().collect();
        lost += before.iter().filter(|stamp| !after.contains(stamp)).count();
        shown = before.len();
    }
    Ok(vec![
        Figure::new(
            "restarts",
            format!("of {shown} shown chunks, lost over {restarts} kills of the daemon"),
            number(lost),
            "",
        )
        .at_most(0.0),
    ])
}
