//! Answers about a long transcript.

use crate::{
    eye::Eye,
    figure::{Bound, Figure},
    goals::lines,
    stage::{Bench, LIMIT, Stage},
    stats::median,
};
use anyhow::Result;
use serde_json::json;
use std::{fs, io::Write as _, path::Path, time::Instant};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
};

/// A live session with a log of a given length.
pub(super) struct Long {
    pub(super) stage: Stage,
    pub(super) rows: usize,
    /// Lines of the log.
    pub(super) lines: usize,
}

/// Makes one: the log is written at rest, and the session restarted.
pub(super) async fn with_log(bench: &Bench, bytes: usize) -> Result<Long> {
    let mut stage = bench.stage(1).await?;
    stage.prompt(0, "stream 1 0").await?;
    stage.settle().await?;
    let id = stage.ids[0].clone();
    stage.door.delete(&format!("/api/sessions/{id}")).await?.expect(204);
    stage.daemon.stop()?;
    let log = lines::log_of(bytes);
    fs::OpenOptions::new().append(true).open(stage.log_of(0))?.write_all(log.as_bytes())?;
    let rows = lines::rows_in(log.as_bytes());
    let lines = memchr::memchr_iter(b'\n', &fs::read(stage.log_of(0))?).count();
    stage.daemon.start()?;
    stage.door.post(&format!("/api/sessions/{id}/restart"), &json!({})).await?.expect(202);
    stage.door.running(&id, LIMIT).await?;
    Ok(Long { stage, rows, lines })
}

/// Milliseconds from connecting until the first row is here.
async fn connect_ms(stage: &Stage, runs: usize) -> Result<f64> {
    let mut times = Vec::new();
    for _ in 0..runs {
        let begin = Instant::now();
        let mut eye: Eye = stage.eye(0, "?deltas=text&tail=200").await?;
        eye.first_bytes().await?;
        times.push(begin.elapsed().as_secs_f64() * 1000.0);
    }
    Ok(median(&times))
}

/// Milliseconds of a request on a connection of its own, p50.
pub(super) async fn request_ms(socket: &Path, path: &str, runs: usize) -> Result<f64> {
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    let (mut times, mut answer) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        answer.clear();
        let begin = Instant::now();
        let mut stream = UnixStream::connect(socket).await?;
        stream.write_all(request.as_bytes()).await?;
        stream.read_to_end(&mut answer).await?;
        times.push(begin.elapsed().as_secs_f64() * 1000.0);
        anyhow::ensure!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
    }
    Ok(median(&times))
}

/// Milliseconds of a page of 100 events near the end of a log, p50.
async fn page_ms(long: &Long, runs: usize) -> Result<f64> {
    let path =
        format!("/api/sessions/{}/structured/replay?before={}&limit=100", long.stage.ids[0], long.lines);
    request_ms(long.stage.door.path(), &path, runs).await
}

pub(super) async fn replay(bench: Bench) -> Result<Vec<Figure>> {
    let (bytes, more) = (bench.size(1 << 20, 100 << 20), bench.size(4 << 20, 1 << 30));
    let runs = bench.runs() * 10;
    let long = with_log(&bench, bytes).await?;
    let page = page_ms(&long, runs).await?;
    let log = fs::read(long.stage.log_of(0))?;
    let begin = Instant::now();
    drop(std::hint::black_box(lines::refold(&log)));
    let refold = begin.elapsed().as_secs_f64() * 1000.0;
    drop((log, long));
    let longer = page_ms(&with_log(&bench, more).await?, runs).await?;
    let server = bench.page().await?;
    let floor = request_ms(&server.socket, "/", runs).await?;
    let mib = |bytes: usize| format!("{} MiB", bytes >> 20);
    let what = format!("a page of 100 events near the end of {}, p50", mib(bytes));
    Ok(vec![
        Figure::new("G9", what, page, "ms").at_most(1.0).beside("HTTP that does nothing", floor, None),
        Figure::new("G9", "the same, beside a fold of the whole log", page, "ms").beside(
            "fold",
            refold,
            Some(Bound::AtMost(1.0 / 300.0)),
        ),
        Figure::new("G9", format!("the same page of {}", mib(more)), longer, "ms").beside(
            "the shorter log",
            page,
            Some(Bound::AtMost(1.3)),
        ),
    ])
}

pub(super) async fn first_row(bench: Bench) -> Result<Vec<Figure>> {
    let runs = bench.runs() * 20;
    // Long enough for the same 200 rows.
    let short = with_log(&bench, 2 << 20).await?;
    let of_short = connect_ms(&short.stage, runs).await?;
    drop(short);
    let long = with_log(&bench, bench.size(4 << 20, 100 << 20)).await?;
    let of_long = connect_ms(&long.stage, runs).await?;
    let page = bench.page().await?;
    let floor = request_ms(&page.socket, "/", runs).await?;
    Ok(vec![
        Figure::new("G10", format!("connect to first row, {} rows", long.rows), of_long, "ms")
            .at_most(1.0)
            .beside("HTTP that does nothing", floor, Some(Bound::AtMost(5.0))),
        Figure::new("G10", "the same, beside a short transcript", of_long, "ms").beside(
            "short transcript",
            of_short,
            Some(Bound::AtMost(1.3)),
        ),
    ])
}
