//! Rounds in which the daemon is killed: as many as wished, from a seed that is told.

use crate::{need, shell};
use anyhow::Result;
use clap::Args;
use std::{
    hash::{BuildHasher as _, RandomState},
    process::Command,
};

/// The tests that kill daemons. They run in a stage of their own, in which their number is chosen.
pub(crate) const FILTER: &str = "binary(crash)";

/// The rounds of a full run of the tests.
pub(crate) const ROUNDS_IN_SUITE: u64 = 200;

#[derive(Debug, Args)]
pub(crate) struct Faults {
    /// How many rounds; ten make a story with a data directory of its own
    #[arg(long, default_value_t = 1000)]
    rounds: u64,
    /// Fixes every choice, and the moments as far as timing allows; random unless given
    #[arg(long)]
    seed: Option<u64>,
    /// The first story, to tell one again that went wrong
    #[arg(long, default_value_t = 0)]
    first: u64,
}

impl Faults {
    /// So many rounds of a random seed.
    pub(crate) fn of(rounds: u64) -> Self {
        Self { rounds, seed: None, first: 0 }
    }

    pub(crate) fn run(&self) -> Result<()> {
        shell::run(&mut self.command())
    }

    /// The runner, which prints what is done and how it ended.
    pub(crate) fn command(&self) -> Command {
        // The whole workspace, so that the build of the other tests is the same.
        let mut command = match need::cargo_tool("cargo-nextest") {
            Ok(program) => shell::command(
                program,
                ["nextest", "run", "--locked", "--workspace", "--no-capture", "-E", FILTER],
            ),
            Err(_) => {
                shell::cargo(["test", "--locked", "--workspace", "--test", "crash", "--", "--nocapture"])
            }
        };
        // The hasher's keys are the system's randomness.
        let seed = self.seed.unwrap_or_else(|| RandomState::new().hash_one(0) >> 32);
        command.env("MAESTRO_CRASH_SEED", seed.to_string());
        command.env("MAESTRO_CRASH_ROUNDS", self.rounds.to_string());
        command.env("MAESTRO_CRASH_FIRST", self.first.to_string());
        command
    }
}
