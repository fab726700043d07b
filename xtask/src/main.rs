//! The project's own commands, called as `cargo xtask …`.
//!
//! *Is*: `up` (a machine made ready and the product started), `test` (everything that must hold, ending in one line),
//! `tidy` (the rules a compiler does not check), `codegen` (files written from the code), `e2e` (real agents),
//! `faults` (daemons killed at random moments), `bench` (what is promised about speed and memory).
//!
//! *Invariants*: every command can be run again; it says what it does as it does it; what is missing is named with the
//! command that mends it; caches live in one directory that may be deleted at any time.
//!
//! *Not here*: anything that the product needs when it runs.
#![forbid(unsafe_code)]

mod bench;
mod codegen;
mod e2e;
mod faults;
mod layout;
mod need;
mod shell;
mod suite;
mod tidy;
mod up;

use clap::Parser;
use std::{
    io::{self, Write as _},
    process::ExitCode,
};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The project's own commands")]
enum Task {
    /// Make this machine ready, build maestro, start the daemon, and say what to type next
    Up,
    /// Make this machine ready for all tests, run them, and end with one line of counts
    Test {
        /// Only these stages, in the order of the full run
        #[arg(value_enum)]
        only: Vec<suite::Stage>,
    },
    /// Check the rules that no compiler checks
    Tidy,
    /// Write the files that come from code
    Codegen {
        /// Change nothing; fail if a file is not what the code says
        #[arg(long)]
        check: bool,
    },
    /// Install the real agents into the cache, run the tests that drive them, and say what became of each
    E2e {
        /// Only these agents of tools/agents.json
        #[arg(value_name = "AGENT", conflicts_with = "all")]
        agents: Vec<String>,
        /// Every agent that can be installed here, not only those that every run of the tests needs
        #[arg(long)]
        all: bool,
    },
    /// Kill daemons at random moments and hold what is left to what was acknowledged
    Faults(faults::Faults),
    /// Measure what is promised about speed and memory, each figure beside its floor
    #[command(disable_help_flag = true)]
    Bench {
        /// Goals, `--quick`, `--markdown FILE`, `--json FILE`, `--help`; or `replay`, `--large`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

fn main() -> ExitCode {
    let went_well = match Task::parse() {
        Task::Up => up::run().map(|()| true),
        Task::Test { only } => suite::run(&only),
        Task::Tidy => tidy::run().map(|()| true),
        Task::Codegen { check } => codegen::run(codegen::Aim::from_check(check)).map(|()| true),
        Task::E2e { agents, all } => e2e::run(&match (all, agents.is_empty()) {
            (true, _) => e2e::Wanted::All,
            (false, true) => e2e::Wanted::Required,
            (false, false) => e2e::Wanted::Named(agents),
        }),
        Task::Faults(faults) => faults.run().map(|()| true),
        Task::Bench { arguments } => bench::run(&arguments).map(|()| true),
    };
    match went_well {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        // Where stderr is gone too, the exit code alone must tell.
        Err(error) => {
            writeln!(io::stderr(), "error: {error:#}").map_or(ExitCode::FAILURE, |()| ExitCode::FAILURE)
        }
    }
}
