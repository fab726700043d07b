//! The log's writes: appended, and made durable.

use crate::{
    figure::{Bound, Figure},
    stage::Bench,
    stats::{number, percentile},
};
use anyhow::Result;
use maestro_log::{Committer, IndexLine, LogDir, SessionLog};
use std::{
    fs::File,
    io::Write as _,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// As long as a chunk's line is.
const LINE: usize = 239;

/// How often a bulk of lines asks for a flush: as a turn's end, an approval or a decision among many chunks does.
const LINES_PER_FLUSH: u64 = 500;

fn open(place: &Path, committer: &Committer) -> Result<SessionLog> {
    let id = "00000000-0000-4000-8000-000000000001".parse()?;
    Ok(LogDir::open(place, committer)?.create_log(id)?)
}

/// Lines a second through one log, each indexed, with a flush now and then that is waited for at the end only.
async fn bulk(place: &Path, lines: u64) -> Result<f64> {
    let mut log = open(place, &Committer::start()?)?;
    let line = vec![b'x'; LINE];
    let begin = Instant::now();
    let mut last = None;
    for number in 0..lines {
        let cursor = log.append(&line)?;
        log.index(cursor, &IndexLine::default())?;
        if number % LINES_PER_FLUSH == 0 {
            last = Some(log.flush());
        }
    }
    if let Some(last) = last {
        last.await?;
    }
    Ok(number(lines) / begin.elapsed().as_secs_f64())
}

/// Lines a second where each is synced by itself.
fn synced(place: &Path, lines: u64) -> Result<f64> {
    let mut file = File::create(place.join("floor"))?;
    let line = vec![b'x'; LINE];
    let begin = Instant::now();
    for _ in 0..lines {
        file.write_all(&line)?;
        file.sync_data()?;
    }
    Ok(number(lines) / begin.elapsed().as_secs_f64())
}

/// Milliseconds until a decision's line is durable, p99; with lines of other sessions pouring in or without.
async fn barrier_ms(place: &Path, decisions: usize, busy: bool) -> Result<f64> {
    let committer = Committer::start()?;
    let mut log = open(place, &committer)?;
    let other =
        LogDir::open(place, &committer)?.create_log("00000000-0000-4000-8000-000000000002".parse()?)?;
    let stop = Arc::new(AtomicBool::new(!busy));
    let stopped = Arc::clone(&stop);
    let pouring = tokio::task::spawn_blocking(move || -> Result<()> {
        let mut other = other;
        let line = vec![b'x'; LINE];
        while !stopped.load(Ordering::Relaxed) {
            for _ in 0..LINES_PER_FLUSH {
                let cursor = other.append(&line)?;
                other.index(cursor, &IndexLine::default())?;
            }
            drop(other.flush());
        }
        Ok(())
    });
    let mut times = Vec::new();
    for _ in 0..decisions {
        let begin = Instant::now();
        log.append(b"{}")?;
        log.flush().await?;
        times.push(begin.elapsed().as_secs_f64() * 1000.0);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    stop.store(true, Ordering::Relaxed);
    pouring.await??;
    Ok(percentile(&times, 0.99))
}

pub(super) async fn writes(bench: Bench) -> Result<Vec<Figure>> {
    let (lines, decisions) = (bench.size(20_000, 500_000), bench.size(50, 500));
    let (mut rate, mut floor, mut idle, mut loaded) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..bench.runs() {
        let place = || tempfile::Builder::new().prefix("msb").tempdir();
        rate.push(bulk(place()?.path(), lines).await?);
        floor.push(synced(place()?.path(), bench.size(200, 2000))?);
        idle.push(barrier_ms(place()?.path(), decisions, false).await?);
        loaded.push(barrier_ms(place()?.path(), decisions, true).await?);
    }
    let middle = |samples: &[f64]| percentile(samples, 0.5);
    let sync_ms = 1000.0 / middle(&floor);
    let beside = |figure: Figure| figure.beside("a write and fdatasync", sync_ms, None);
    Ok(vec![
        Figure::new("G12", "lines a second, indexed, flushed in groups", middle(&rate), "/s")
            .at_least(500_000.0)
            .beside("fdatasync for each", middle(&floor), Some(Bound::AtLeast(60.0))),
        beside(Figure::new("G12", "a decision is durable, p99", middle(&idle), "ms").at_most(0.5)),
        beside(
            Figure::new("G12", "the same while another log is flooded, p99", middle(&loaded), "ms")
                .at_most(5.0),
        ),
    ])
}
