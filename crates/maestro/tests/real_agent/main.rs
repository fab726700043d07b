//! Sessions of real agents with a scripted model behind them: every scenario with every agent that can do it.
//!
//! What is installed, how it runs without a network, and what an agent lacks stands in `tools/agents.json`; `cargo xtask
//! e2e` installs the agents and runs this. Each test is named `<agent>::<scenario>`.

mod agent;
mod report;
mod scenarios;
mod stage;

use agent::{Agent, Installed};
use libtest_mimic::{Arguments, Failed, Trial};
use scenarios::{SCENARIOS, Scenario};
use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    process::ExitCode,
    time::Instant,
};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    libtest_mimic::run(&arguments, trials()).exit_code()
}

/// Where no agent is installed and need not be, the tests are listed and left out.
fn trials() -> Vec<Trial> {
    let installed = match agent::installed() {
        Installed::At(home) => Some(home),
        Installed::NotNeeded => None,
        Installed::Elsewhere => return Vec::new(),
        Installed::Needed => {
            let failed =
                || Err("no real agents here: `cargo xtask e2e` installs them and runs these tests".into());
            return vec![Trial::test("the_agents_are_installed", failed)];
        }
    };
    let mut trials = Vec::new();
    for agent in agent::chosen() {
        for scenario in SCENARIOS.iter().filter(|scenario| agent.does(scenario)) {
            let (agent, home) = (agent.clone(), installed.clone());
            let name = format!("{}::{}", agent.key, scenario.name);
            let trial = Trial::test(name, move || drive(agent, home.as_deref(), scenario));
            trials.push(trial.with_ignored_flag(installed.is_none()));
        }
    }
    trials
}

fn drive(agent: Agent, home: Option<&std::path::Path>, scenario: &Scenario) -> Result<(), Failed> {
    let home = home.ok_or("the agent is not installed: `cargo xtask e2e` installs it")?;
    let agent = agent.installed_at(home);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let start = Instant::now();
    let outcome = catch_unwind(AssertUnwindSafe(|| runtime.block_on((scenario.run)(&agent))));
    report::write(&agent, scenario.name, matches!(outcome, Ok(Ok(()))), start.elapsed())?;
    match outcome {
        Ok(outcome) => outcome.map_err(|error| Failed::from(error.to_string())),
        Err(panic) => resume_unwind(panic),
    }
}
