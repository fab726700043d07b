//! From an agent's write to a reader's eyes.

use crate::{
    agent,
    eye::Eye,
    figure::{Bound, Figure},
    proc,
    stage::{Bench, LIMIT, TEXT},
    stats::{median, number, percentile},
};
use anyhow::{Context as _, Result};
use futures_util::future::try_join_all;
use std::{process::Stdio, time::Duration};
use tokio::{
    io::AsyncWriteExt as _,
    process::{Child, Command},
    time::Instant,
};

/// One run of some chunks to some readers.
#[derive(Debug, Default)]
struct Run {
    p50_us: f64,
    p99_us: f64,
    /// Chunks a second, each counted once for each reader.
    deliveries: f64,
    /// Processor time of the daemon or the floor for each of them.
    cpu_us: f64,
    lost: f64,
}

impl Run {
    fn of(eyes: &[Eye], sent: u64, seconds: f64, cpu_ns: f64) -> Self {
        let times: Vec<f64> = eyes.iter().flat_map(|eye| eye.seen.times_us.iter().copied()).collect();
        let seen: u64 = eyes.iter().map(|eye| eye.seen.chunks).sum();
        Self {
            p50_us: percentile(&times, 0.5),
            p99_us: percentile(&times, 0.99),
            deliveries: number(seen) / seconds,
            cpu_us: cpu_ns / 1000.0 / number(seen.max(1)),
            lost: number(sent * number_of(eyes)) - number(seen),
        }
    }
}

fn number_of(eyes: &[Eye]) -> u64 {
    u64::try_from(eyes.len()).unwrap_or(u64::MAX)
}

fn middle(runs: &[Run], of: impl Fn(&Run) -> f64) -> f64 {
    median(&runs.iter().map(of).collect::<Vec<_>>())
}

/// The worst of all runs: a loss is a loss.
fn worst(runs: &[Run], of: impl Fn(&Run) -> f64) -> f64 {
    runs.iter().map(of).fold(0.0, f64::max)
}

/// So many chunks at a rate (0: as fast as they go).
#[derive(Debug, Clone, Copy)]
struct Load {
    chunks: u64,
    rate: u64,
}

impl Load {
    fn words(self) -> String {
        format!("stream {} {}", self.chunks, self.rate)
    }
}

async fn follow_all(eyes: &mut [Eye], chunks: u64) -> Result<()> {
    try_join_all(eyes.iter_mut().map(|eye| eye.follow(chunks, LIMIT))).await.map(drop)
}

/// Through the daemon, to `readers` of one session, beside one more that does not read if `stuck`.
async fn through_daemon(bench: &Bench, load: Load, readers: usize, stuck: bool) -> Result<Run> {
    let stage = bench.stage(1).await?;
    let blind = if stuck { Some(stage.eye(0, TEXT).await?) } else { None };
    let mut eyes = Vec::new();
    for _ in 0..readers {
        eyes.push(keeping(stage.eye(0, TEXT).await?, load));
    }
    let (cpu, begin) = (proc::cpu_ns(stage.pid()?)?, Instant::now());
    stage.prompt(0, &load.words()).await?;
    follow_all(&mut eyes, load.chunks).await?;
    let (seconds, cpu) = (begin.elapsed().as_secs_f64(), proc::cpu_ns(stage.pid()?)? - cpu);
    drop(blind);
    Ok(Run::of(&eyes, load.chunks, seconds, cpu))
}

fn keeping(eye: Eye, load: Load) -> Eye {
    if load.rate > 0 { eye.keep_times() } else { eye }
}

/// Through the bare relay.
async fn through_relay(bench: &Bench, load: Load, readers: usize) -> Result<Run> {
    let mut relay = bench.relay().await?;
    let mut eyes = Vec::new();
    for _ in 0..readers {
        eyes.push(keeping(Eye::of_relay(&relay.socket).await?, load));
    }
    let (cpu, begin) = (proc::cpu_ns(relay.pid()?)?, Instant::now());
    relay.prompt(readers, &load.words()).await?;
    follow_all(&mut eyes, load.chunks).await?;
    let (seconds, cpu) = (begin.elapsed().as_secs_f64(), proc::cpu_ns(relay.pid()?)? - cpu);
    Ok(Run::of(&eyes, load.chunks, seconds, cpu))
}

/// The agent's own pipe, read by nothing but the eye.
async fn through_pipe(bench: &Bench, load: Load) -> Result<Run> {
    let mut agent = Command::new(&bench.own)
        .arg(agent::ARG)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut eye = keeping(Eye::of_pipe(agent.stdout.take().context("no stdout")?), load);
    let begin = Instant::now();
    tell(&mut agent, load).await?;
    eye.follow(load.chunks, LIMIT).await?;
    Ok(Run::of(&[eye], load.chunks, begin.elapsed().as_secs_f64(), 0.0))
}

async fn tell(agent: &mut Child, load: Load) -> Result<()> {
    let prompt = serde_json::json!({
        "id": 1, "method": "session/prompt", "params": {"prompt": [{"type": "text", "text": load.words()}]}
    });
    let input = agent.stdin.as_mut().context("no stdin")?;
    Ok(input.write_all(format!("{prompt}\n").as_bytes()).await?)
}

pub(super) async fn steady(bench: Bench) -> Result<Vec<Figure>> {
    let load = Load { chunks: bench.size(100, 600), rate: 200 };
    let (mut daemon, mut relay, mut pipe) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..bench.runs() {
        pipe.push(through_pipe(&bench, load).await?);
        relay.push(through_relay(&bench, load, 1).await?);
        daemon.push(through_daemon(&bench, load, 1, false).await?);
    }
    let of = |runs: &[Run]| (middle(runs, |run| run.p50_us), middle(runs, |run| run.p99_us));
    let ((p50, p99), (relay_p50, relay_p99), (pipe_p50, _)) = (of(&daemon), of(&relay), of(&pipe));
    Ok(vec![
        Figure::new("G1", "chunk to reader, p50", p50, "µs").at_most(45.0).beside(
            "raw pipe",
            pipe_p50,
            Some(Bound::AtMost(8.0)),
        ),
        Figure::new("G1", "the same, beside a relay that keeps nothing", p50, "µs").beside(
            "bare relay",
            relay_p50,
            None,
        ),
        Figure::new("G1", "chunk to reader, p99", p99, "µs").at_most(150.0).beside(
            "bare relay",
            relay_p99,
            None,
        ),
        Figure::new("G1", "chunks lost", worst(&daemon, |run| run.lost), "").at_most(0.0),
    ])
}

pub(super) async fn watched(bench: Bench) -> Result<Vec<Figure>> {
    let load = Load { chunks: bench.size(500, 3000), rate: 1000 };
    let (mut daemon, mut relay) = (Vec::new(), Vec::new());
    for _ in 0..bench.runs() {
        relay.push(through_relay(&bench, load, 20).await?);
        daemon.push(through_daemon(&bench, load, 20, false).await?);
    }
    let cpu = |runs: &[Run]| middle(runs, |run| run.cpu_us);
    let p99 = |runs: &[Run]| middle(runs, |run| run.p99_us);
    Ok(vec![
        Figure::new("G2", "chunk to each of 20 readers, p99", p99(&daemon), "µs").at_most(250.0).beside(
            "bare relay",
            p99(&relay),
            None,
        ),
        Figure::new("G2", "processor time of a delivery", cpu(&daemon), "µs").at_most(6.0).beside(
            "bare relay",
            cpu(&relay),
            None,
        ),
        Figure::new("G2", "chunks lost", worst(&daemon, |run| run.lost), "").at_most(0.0),
    ])
}

pub(super) async fn flat_out(bench: Bench) -> Result<Vec<Figure>> {
    let load = Load { chunks: bench.size(20_000, 1_000_000), rate: 0 };
    let (mut daemon, mut relay, mut pipe) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..bench.runs() {
        pipe.push(through_pipe(&bench, load).await?);
        relay.push(through_relay(&bench, load, 1).await?);
        daemon.push(through_daemon(&bench, load, 1, false).await?);
    }
    let rate = |runs: &[Run]| middle(runs, |run| run.deliveries);
    Ok(vec![
        Figure::new("G3", "chunks a second", rate(&daemon), "/s").at_least(600_000.0).beside(
            "raw pipe",
            rate(&pipe),
            Some(Bound::AtLeast(0.4)),
        ),
        Figure::new("G3", "the same, beside a frame for each chunk", rate(&daemon), "/s").beside(
            "bare relay",
            rate(&relay),
            None,
        ),
        Figure::new("G3", "processor time of a chunk", middle(&daemon, |run| run.cpu_us), "µs").beside(
            "bare relay",
            middle(&relay, |run| run.cpu_us),
            None,
        ),
        Figure::new("G3", "chunks lost", worst(&daemon, |run| run.lost), "").at_most(0.0),
    ])
}

pub(super) async fn many_flat_out(bench: Bench) -> Result<Vec<Figure>> {
    const SESSIONS: usize = 16;
    let load = Load { chunks: bench.size(2000, 60_000), rate: 0 };
    let (mut daemon, mut relay) = (Vec::new(), Vec::new());
    for _ in 0..bench.runs() {
        let relays = try_join_all((0..SESSIONS).map(|_| through_relay(&bench, load, 1))).await?;
        relay.push(relays.iter().map(|run| run.deliveries).sum::<f64>());
        daemon.push(sessions_at_once(&bench, load, SESSIONS).await?);
    }
    Ok(vec![
        Figure::new("G4", "chunks a second, 16 sessions", middle(&daemon, |run| run.deliveries), "/s")
            .at_least(900_000.0)
            .beside("16 bare relays", median(&relay), None),
        Figure::new("G4", "processor time of a chunk", middle(&daemon, |run| run.cpu_us), "µs").at_most(1.2),
        Figure::new("G4", "chunks lost", worst(&daemon, |run| run.lost), "").at_most(0.0),
    ])
}

async fn sessions_at_once(bench: &Bench, load: Load, sessions: usize) -> Result<Run> {
    let stage = bench.stage(sessions).await?;
    let mut eyes = try_join_all((0..sessions).map(|number| stage.eye(number, TEXT))).await?;
    let (cpu, begin) = (proc::cpu_ns(stage.pid()?)?, Instant::now());
    let words = load.words();
    let prompts = try_join_all((0..sessions).map(|number| stage.prompt(number, &words)));
    let followed = follow_all(&mut eyes, load.chunks);
    tokio::try_join!(prompts, followed)?;
    let (seconds, cpu) = (begin.elapsed().as_secs_f64(), proc::cpu_ns(stage.pid()?)? - cpu);
    Ok(Run::of(&eyes, load.chunks, seconds, cpu))
}

pub(super) async fn fan_out(bench: Bench) -> Result<Vec<Figure>> {
    // The daemon takes 512 connections; some are for requests.
    let readers = bench.size(50, 480);
    let load = Load { chunks: bench.size(2000, 100_000), rate: 0 };
    // A frame for each of them takes its time.
    let few = Load { chunks: bench.size(200, 2000), ..load };
    let (mut daemon, mut relay) = (Vec::new(), Vec::new());
    for _ in 0..bench.runs() {
        relay.push(through_relay(&bench, few, readers).await?);
        daemon.push(through_daemon(&bench, load, readers, true).await?);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let rate = |runs: &[Run]| middle(runs, |run| run.deliveries);
    Ok(vec![
        Figure::new("G5", format!("deliveries a second to {readers} readers"), rate(&daemon), "/s")
            .at_least(4_000_000.0)
            .beside("bare relay", rate(&relay), Some(Bound::AtLeast(20.0))),
        Figure::new("G5", "deliveries lost", worst(&daemon, |run| run.lost), "").at_most(0.0),
    ])
}
