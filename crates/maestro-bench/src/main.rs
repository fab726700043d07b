//! Measures what maestro promises about speed and memory.
//!
//! *Is*: a program that runs the real daemon in a temporary place with an agent that stamps what it writes, and the
//! crates that have a goal of their own in process; each figure beside a floor that was measured in the same run; the
//! table of both. `cargo xtask bench` builds it and passes its arguments on.
//!
//! *Invariants*: a figure is the median of its runs; a goal is judged by its ratio where it has one; nothing is a test,
//! and no time makes it fail, only a loss does; all is bounded and happens on Unix sockets in a temporary directory.
//!
//! *Not here*: other people's programs; what is not built.
#![forbid(unsafe_code)]

mod agent;
mod eye;
mod figure;
mod goals;
mod page;
mod proc;
mod relay;
mod stage;
mod stats;

use anyhow::{Context as _, Result, bail};
use clap::Parser;
use figure::Report;
use goals::{GOALS, Goal};
use stage::Bench;
use std::{
    env, fs,
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};

#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench", about = "Measure what maestro promises, each figure beside its floor")]
struct Arguments {
    /// Only these goals, such as `G1` or `approvals`; all unless given
    goals: Vec<String>,
    /// One short run of each instead of five: enough to see that all works
    #[arg(long)]
    quick: bool,
    /// Also write the table as Markdown into this file
    #[arg(long)]
    markdown: Option<PathBuf>,
    /// Also write the figures as JSON into this file
    #[arg(long)]
    json: Option<PathBuf>,
}

fn main() -> ExitCode {
    let mut words = env::args_os().skip(1);
    let result = match words.next().as_deref().and_then(|word| word.to_str()) {
        Some(agent::ARG) => agent::main().map_err(Into::into),
        Some(relay::ARG) => relay::main(words.next()),
        Some(page::ARG) => page::main(words.next()),
        Some(maestro_process::GUARD_ARG) => return maestro_process::guard_main(words),
        _ => run(&Arguments::parse()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Where stderr is gone too, the exit code alone must tell.
            writeln!(io::stderr(), "error: {error:#}").map_or(ExitCode::FAILURE, |()| ExitCode::FAILURE)
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let chosen = choose(&arguments.goals)?;
    let bench = Bench::new(arguments.quick)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut report = Report::default();
    for goal in chosen {
        writeln!(io::stderr(), "{}: {}", goal.name, goal.what)?;
        let figures = runtime.block_on((goal.measure)(bench.clone()));
        report.figures.extend(figures.with_context(|| format!("{} could not be measured", goal.name))?);
    }
    let mut out = io::stdout().lock();
    writeln!(out, "{report}")?;
    if let Some(path) = &arguments.markdown {
        fs::write(path, report.markdown()).with_context(|| format!("could not write {}", path.display()))?;
    }
    if let Some(path) = &arguments.json {
        fs::write(path, report.json()).with_context(|| format!("could not write {}", path.display()))?;
    }
    let losses = report.losses();
    if losses.is_empty() { Ok(()) } else { bail!("something is lost: {}", losses.join("; ")) }
}

fn choose(names: &[String]) -> Result<Vec<&'static Goal>> {
    if names.is_empty() {
        return Ok(GOALS.iter().collect());
    }
    let find = |name: &String| {
        let found = GOALS.iter().find(|goal| goal.name.eq_ignore_ascii_case(name));
        let known = || GOALS.iter().map(|goal| goal.name).collect::<Vec<_>>().join(", ");
        found.map_or_else(|| bail!("there is no goal {name}; there are {}", known()), Ok)
    };
    names.iter().map(find).collect()
}
