//! Starting an agent below a daemon that has grown large.

use crate::{
    agent,
    figure::{Bound, Figure},
    stage::Bench,
    stats::median,
};
use anyhow::{Context as _, Result};
use maestro_process::{GuardProgram, Marker, ProcessDefaults, SpawnRequest, Spawner};
use std::{
    hint::black_box,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::process::CommandExt as _,
    process::{Command, Stdio},
    time::Instant,
};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _};

const INITIALIZE: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{}}\n";

/// Milliseconds until the agent runs, and until it has answered `initialize`.
#[derive(Debug, Default)]
struct Times {
    running: Vec<f64>,
    ready: Vec<f64>,
}

fn ms(begin: Instant) -> f64 {
    begin.elapsed().as_secs_f64() * 1000.0
}

/// Started by the guard, as the daemon does.
async fn guarded(bench: &Bench, runs: usize) -> Result<Times> {
    let spawner = Spawner::start(GuardProgram::this_executable()?, ProcessDefaults::replace())?;
    let mut times = Times::default();
    for number in 0..runs {
        let request = SpawnRequest {
            program: bench.own.clone(),
            args: vec![agent::ARG.into()],
            cwd: std::env::temp_dir(),
            env: Vec::new(),
            marker: Marker {
                session: "00000000-0000-4000-8000-000000000001".parse()?,
                token: format!("00000000-0000-4000-8000-{number:012x}").parse()?,
            },
            grace_ms: 100,
        };
        let begin = Instant::now();
        let mut child = spawner.spawn(request).await?;
        times.running.push(ms(begin));
        child.stdin.write_all(INITIALIZE).await?;
        let mut answer = String::new();
        tokio::io::BufReader::new(&mut child.stdout).read_line(&mut answer).await?;
        times.ready.push(ms(begin));
        child.terminator.end_tree();
        child.terminator.ended().await;
    }
    Ok(times)
}

/// Started directly. Asking for a user id, even its own, makes the standard library fork instead of `posix_spawn`, as
/// any closure before the exec does.
fn direct(bench: &Bench, runs: usize, forks: bool) -> Result<Times> {
    let mut times = Times::default();
    for _ in 0..runs {
        let mut command = Command::new(&bench.own);
        command.arg(agent::ARG).stdin(Stdio::piped()).stdout(Stdio::piped());
        if forks {
            command.uid(rustix::process::getuid().as_raw());
        }
        let begin = Instant::now();
        let mut child = command.spawn()?;
        times.running.push(ms(begin));
        child.stdin.as_mut().context("no stdin")?.write_all(INITIALIZE)?;
        let mut answer = String::new();
        BufReader::new(child.stdout.take().context("no stdout")?).read_line(&mut answer)?;
        times.ready.push(ms(begin));
        child.kill()?;
        child.wait()?;
    }
    Ok(times)
}

pub(super) async fn large_parent(bench: Bench) -> Result<Vec<Figure>> {
    let size: usize = bench.size(64 << 20, 1 << 30);
    let runs = bench.runs() * 4;
    // Touched, so that the kernel has pages to copy the tables of.
    let ballast = vec![1_u8; size];
    let guarded = guarded(&bench, runs).await?;
    let copy = bench.clone();
    let (plain, forked) = tokio::task::spawn_blocking(move || -> Result<(Times, Times)> {
        Ok((direct(&copy, runs, false)?, direct(&copy, runs, true)?))
    })
    .await??;
    black_box(&ballast);
    let running = median(&guarded.running);
    let overhead = median(&guarded.ready) - median(&plain.ready);
    let at = format!("at {} MiB", size >> 20);
    Ok(vec![
        Figure::new("G13", format!("spawn through the guard {at}"), running, "ms").at_most(1.0).beside(
            "posix_spawn without one",
            median(&plain.running),
            None,
        ),
        Figure::new("G13", "the same, beside a fork", running, "ms").beside(
            "fork and exec",
            median(&forked.running),
            Some(Bound::AtMost(0.02)),
        ),
        Figure::new("G13", "agent answers later than without a guard by", overhead, "ms").at_most(2.0),
    ])
}
