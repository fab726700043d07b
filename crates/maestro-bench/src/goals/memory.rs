//! What sessions, sockets and rows take.

use crate::{
    eye::Eye,
    figure::{Bound, Figure},
    goals::pages::with_log,
    proc,
    stage::{Bench, LIMIT, TEXT},
    stats::number,
};
use anyhow::Result;
use futures_util::future::try_join_all;
use std::time::Duration;
use tokio::time::Instant;

const KIB: f64 = 1024.0;
const MIB: f64 = 1024.0 * 1024.0;

/// Sockets that leave the daemon some of its 512 connections for requests.
const SOCKETS_MAX: usize = 440;

pub(super) async fn many_live(bench: Bench) -> Result<Vec<Figure>> {
    const RATE: u64 = 20;
    let sessions = bench.size(20, 1000);
    let chunks = bench.size(20, 300);
    let stage = bench.stage(sessions).await?;
    let watched = sessions.min(SOCKETS_MAX);
    let mut eyes = try_join_all((0..watched).map(|number| stage.eye(number, TEXT))).await?;
    let words = format!("stream {chunks} {RATE}");
    // One after the other, so that their chunks do not come at the same moments.
    let prompts = async {
        for number in 0..sessions {
            stage.prompt(number, &words).await?;
        }
        Ok(())
    };
    let (cpu, begin) = (proc::cpu_ns(stage.pid()?)?, Instant::now());
    let followed = try_join_all(eyes.iter_mut().map(|eye| eye.follow(chunks, LIMIT)));
    tokio::try_join!(prompts, followed)?;
    let cores = (proc::cpu_ns(stage.pid()?)? - cpu) / 1e9 / begin.elapsed().as_secs_f64();
    let memory = proc::memory_with_files(stage.pid()?)? / MIB;
    let lost: u64 = eyes.iter().map(|eye| chunks.saturating_sub(eye.seen.chunks)).sum();
    let what = format!("{sessions} sessions, {RATE} chunks a second each, {watched} readers");
    Ok(vec![
        Figure::new("G6", format!("{what}: processor"), cores, "cores").at_most(0.35),
        Figure::new("G6", format!("{what}: memory"), memory, "MiB").at_most(64.0),
        Figure::new("G6", "chunks lost", number(lost), "").at_most(0.0),
    ])
}

/// Memory that nothing has used for a moment.
async fn settled(pid: u32) -> Result<f64> {
    tokio::time::sleep(Duration::from_millis(500)).await;
    proc::memory(pid)
}

pub(super) async fn idle(bench: Bench) -> Result<Vec<Figure>> {
    let sessions = bench.size(20, 200);
    let mut stage = bench.stage(1).await?;
    let pid = stage.pid()?;
    let before = settled(pid).await?;
    stage.add(sessions).await?;
    let with_sessions = settled(pid).await?;
    let sockets = bench.size(20, 200);
    let eyes: Vec<Eye> = try_join_all((0..sockets).map(|_| stage.eye(0, TEXT))).await?;
    let with_sockets = settled(pid).await?;
    drop(eyes);
    let session = (with_sessions - before) / number(sessions) / KIB;
    let socket = (with_sockets - with_sessions) / number(sockets) / KIB;

    let bytes = bench.size(1 << 20, 32 << 20);
    let long = with_log(&bench, bytes).await?;
    let rows = number(long.rows);
    let row = (settled(long.stage.pid()?).await? - before) / rows;
    Ok(vec![
        Figure::new("G11", format!("an idle session, of {sessions}, without its guard"), session, "KiB")
            .at_most(16.0),
        Figure::new("G11", format!("a socket, of {sockets}"), socket, "KiB").at_most(20.0),
        Figure::new("G11", format!("a row of a live session, of {}", long.rows), row, "B")
            .at_most(700.0)
            .beside("its lines in the log", number(bytes) / rows, Some(Bound::AtMost(0.2))),
    ])
}
