//! How long until a daemon or a command answers.

use crate::{
    figure::{Bound, Figure},
    goals::lines,
    stage::{Bench, bytes_in, log_of},
    stats::{median, number},
};
use anyhow::{Context as _, Result, bail};
use maestro_testkit::TestDaemon;
use serde_json::Value;
use std::{
    fs,
    hint::black_box,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};

const MS: f64 = 1000.0;

/// Milliseconds until a daemon on this directory accepts connections; it is ended by SIGKILL.
fn ready_ms(daemon: &TestDaemon) -> Result<f64> {
    let mut command = daemon.command();
    command.args(["serve", "--data-path"]).arg(daemon.data());
    let begin = Instant::now();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().context("no stdout")?).read_line(&mut line)?;
    let taken = begin.elapsed().as_secs_f64() * MS;
    child.kill()?;
    child.wait()?;
    if line.starts_with("maestro is ready") { Ok(taken) } else { bail!("the daemon said {line:?}") }
}

/// Milliseconds that a program takes from its start to its end.
fn run_ms(command: &mut Command) -> Result<f64> {
    let begin = Instant::now();
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    let taken = begin.elapsed().as_secs_f64() * MS;
    if status.success() {
        Ok(taken)
    } else {
        bail!("{} ended with {status}", command.get_program().display())
    }
}

fn repeated(times: usize, mut measure: impl FnMut() -> Result<f64>) -> Result<f64> {
    Ok(median(&(0..times).map(|_| measure()).collect::<Result<Vec<_>>>()?))
}

/// A daemon's directory with so many dead sessions, each with a log of so many bytes.
async fn filled(bench: &Bench, sessions: usize, log_bytes: usize) -> Result<TestDaemon> {
    let mut stage = bench.stage(1).await?;
    let id = stage.ids.remove(0);
    let mut daemon = stage.daemon;
    daemon.stop()?;
    let data = daemon.data();
    let folder = data.join("sessions");
    let sidecar = folder.join(format!("{id}.json"));
    let mut stored: Value = serde_json::from_slice(&fs::read(&sidecar)?)?;
    stored["session"]["end_reason"] = "killed".into();
    let log = lines::log_of(log_bytes);
    for name in ["recover", "index"] {
        // A session that was stopped has a marker, and it may have an index.
        fs::remove_file(folder.join(format!("{id}.{name}"))).ok();
    }
    for number in 0..sessions {
        let copy = format!("00000000-0000-4000-8000-{number:012x}");
        stored["session"]["id"] = copy.clone().into();
        fs::write(folder.join(format!("{copy}.json")), serde_json::to_vec(&stored)?)?;
        fs::write(log_of(&data, &copy), &log)?;
    }
    fs::remove_file(sidecar)?;
    fs::remove_file(log_of(&data, &id))?;
    Ok(daemon)
}

/// Seconds that folding all logs of a directory takes: what a start costs a daemon that folds them.
fn refold_all(folder: &Path) -> Result<f64> {
    let begin = Instant::now();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            drop(black_box(lines::refold(&fs::read(path)?)));
        }
    }
    Ok(begin.elapsed().as_secs_f64())
}

pub(super) async fn long_logs(bench: Bench) -> Result<Vec<Figure>> {
    let sessions = bench.size(50, 1000);
    let short = filled(&bench, sessions, 4 << 10).await?;
    let long = filled(&bench, sessions, bench.size(64 << 10, 1 << 20)).await?;
    tokio::task::spawn_blocking(move || {
        let folder = long.data().join("sessions");
        let size = number(bytes_in(&folder)?) / 1e9;
        let short = repeated(bench.runs(), || ready_ms(&short))?;
        let ready = repeated(bench.runs(), || ready_ms(&long))?;
        let refold = refold_all(&folder)? * MS;
        let what = format!("ready with {sessions} sessions, {} GB of logs", crate::figure::short(size));
        Ok(vec![
            Figure::new("G8", what, ready, "ms").at_most(100.0).beside(
                "fold of all logs",
                refold,
                Some(Bound::AtMost(0.01)),
            ),
            Figure::new("G8", "the same, beside logs of 4 KiB each", ready, "ms").beside(
                "short logs",
                short,
                Some(Bound::AtMost(1.3)),
            ),
        ])
    })
    .await?
}

pub(super) async fn ready(bench: Bench) -> Result<Vec<Figure>> {
    let sessions = bench.size(50, 1000);
    let mut daemon = filled(&bench, sessions, 4 << 10).await?;
    tokio::task::spawn_blocking(move || {
        let many = bench.runs() * 4;
        let floor = repeated(many, || run_ms(&mut Command::new("/bin/true")))?;
        let ready = repeated(bench.runs(), || ready_ms(&daemon))?;
        let version = repeated(many, || run_ms(daemon.command().arg("--version")))?;
        daemon.start()?;
        let listed = repeated(many, || run_ms(daemon.command().args(["ls", "--json", "--no-start"])))?;
        let figure = |what: String, value| Figure::new("G14", what, value, "ms");
        let beside = |figure: Figure| figure.beside("/bin/true", floor, None);
        Ok(vec![
            beside(figure(format!("daemon ready with {sessions} sessions"), ready).at_most(15.0)),
            beside(figure("maestro --version".into(), version).at_most(3.0)),
            beside(figure(format!("maestro ls of {sessions} sessions"), listed).at_most(5.0)),
        ])
    })
    .await?
}
