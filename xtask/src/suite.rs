//! `cargo xtask test`: everything that must hold, in stages, ending in one line of counts.

mod first_run;
mod tally;

use crate::{
    e2e,
    faults::{self, Faults},
    layout,
    need::{self, Installer},
    shell::{self, say},
    tidy,
};
use anyhow::Result;
use clap::ValueEnum;
use std::{process::Command, time::Instant};
use tally::Tally;

/// A part of the full run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Stage {
    /// The code is formatted
    Fmt,
    /// The rules of `cargo xtask tidy`
    Tidy,
    /// No lint fires
    Clippy,
    /// The documentation builds without a warning
    Doc,
    /// Dependencies have allowed licences, sources and versions
    Deny,
    /// All tests of the workspace but those with stages of their own; among them, that generated files are current
    Tests,
    /// Daemons are killed at random moments
    Faults,
    /// The examples in the documentation
    Doctests,
    /// The scripted model server does what its script says, and so does the recorder of agents
    ModelServer,
    /// The tests that drive real agents
    Agents,
    /// `cargo xtask up` and a first session, in an empty home directory
    FirstRun,
}

/// How a stage went.
enum Outcome {
    Counted(Tally),
    /// It needs something that is not here; says what, and the command that brings it.
    Missing(String),
}

/// Runs all stages, or those named, and prints the counts of all together. A stage counts as one, a test runner as many
/// as it ran. Nothing is printed after the counts. Tells whether all went well.
///
/// # Errors
/// If nothing can be printed.
pub(crate) fn run(only: &[Stage]) -> Result<bool> {
    let mut total = Tally::default();
    let mut skipped = Vec::new();
    let installer = Installer::default();
    for stage in Stage::value_variants().iter().filter(|stage| only.is_empty() || only.contains(stage)) {
        let name = stage.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
        say(format_args!("\n== {name}"))?;
        let start = Instant::now();
        let (tally, word) = match stage.run(&installer) {
            Ok(Outcome::Counted(tally)) if tally.failed == 0 => (tally, "ok"),
            Ok(Outcome::Counted(tally)) => (tally, "FAILED"),
            Ok(Outcome::Missing(what)) if !layout::is_ci() => {
                skipped.push(format!("skipped: {name}: {what}"));
                (Tally { skipped: 1, ..Tally::default() }, "skipped")
            }
            Ok(Outcome::Missing(what)) => {
                say(format_args!("error: {what}"))?;
                (Tally::default().settle(false), "FAILED")
            }
            Err(error) => {
                say(format_args!("error: {error:#}"))?;
                (Tally::default().settle(false), "FAILED")
            }
        };
        total.add(tally);
        say(format_args!("== {name}: {word} in {:.1} s ({tally})", start.elapsed().as_secs_f64()))?;
    }
    say("")?;
    skipped.iter().try_for_each(say)?;
    if total.failed > 0 {
        say("error: something failed: the lines above that say FAILED name the stages")?;
    }
    say(total)?;
    Ok(total.failed == 0)
}

impl Stage {
    fn run(self, installer: &Installer) -> Result<Outcome> {
        match self {
            Self::Fmt => check(&mut shell::cargo(["fmt", "--all", "--", "--check", "--files-with-diff"])),
            Self::Tidy => tidy::run().map(|()| one_passed()),
            Self::Clippy => check(&mut shell::cargo([
                "clippy",
                "--quiet",
                "--locked",
                "--workspace",
                "--all-targets",
                "--",
                "-D",
                "warnings",
            ])),
            Self::Doc => check(
                shell::cargo([
                    "doc",
                    "--quiet",
                    "--locked",
                    "--workspace",
                    "--no-deps",
                    "--document-private-items",
                ])
                .env("RUSTDOCFLAGS", "-D warnings"),
            ),
            Self::Deny => match need::cargo_tool("cargo-deny") {
                Ok(program) => {
                    let args = ["--locked", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"];
                    check(&mut shell::command(program, args))
                }
                Err(error) => Ok(Outcome::Missing(format!("{error:#}"))),
            },
            Self::Tests => {
                installer.ensure(&need::GIT)?;
                if let Err(error) = installer.ensure(&need::STRACE) {
                    say(format_args!("{error:#}"))?;
                }
                count(&mut tests_command()?)
            }
            Self::Faults => count(&mut Faults::of(faults::ROUNDS_IN_SUITE).command()),
            Self::Doctests => count(&mut shell::cargo(["test", "--locked", "--workspace", "--doc"])),
            Self::ModelServer => match installer.ensure(&need::PYTHON) {
                Ok(python) => count(&mut shell::command(
                    python,
                    ["-m", "unittest", "discover", "--start-directory", "tools", "--buffer"],
                )),
                Err(error) => Ok(Outcome::Missing(format!("{error:#}"))),
            },
            Self::Agents => match e2e::prepare(installer, &e2e::Wanted::Required) {
                Ok(prepared) => {
                    let counted = count(&mut prepared.command())?;
                    prepared.report()?;
                    Ok(counted)
                }
                Err(error) => Ok(Outcome::Missing(format!("{error:#}"))),
            },
            Self::FirstRun => first_run::run().map(|()| one_passed()),
        }
    }
}

/// All tests but those that have a stage of their own.
fn tests_command() -> Result<Command> {
    match need::cargo_tool("cargo-nextest") {
        Ok(program) => {
            let filter = format!("not ({} or {})", e2e::FILTER, faults::FILTER);
            Ok(shell::command(program, ["nextest", "run", "--locked", "--workspace", "-E", &filter]))
        }
        Err(error) => {
            say(format_args!("{error:#}\nusing `cargo test` instead"))?;
            let args = ["test", "--locked", "--workspace", "--no-fail-fast", "--lib", "--bins", "--tests"];
            let mut command = shell::cargo(args);
            // It cannot leave a binary out; empty, the variable says that the tests with real agents run elsewhere.
            command.env(e2e::ADAPTERS_VAR, "");
            Ok(command)
        }
    }
}

fn one_passed() -> Outcome {
    Outcome::Counted(Tally { passed: 1, ..Tally::default() })
}

/// A program that is right or wrong as a whole.
fn check(command: &mut Command) -> Result<Outcome> {
    shell::run(command).map(|()| one_passed())
}

/// A test runner, counted by what it prints.
fn count(command: &mut Command) -> Result<Outcome> {
    let mut tally = Tally::default();
    let succeeded = shell::watch(command, |line| tally.read_line(line))?;
    Ok(Outcome::Counted(tally.settle(succeeded)))
}
