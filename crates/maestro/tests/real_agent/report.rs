//! What `cargo xtask e2e` tells of a run: one file for each test, in the directory that it names.

use crate::agent::Agent;
use serde_json::json;
use std::{env, fs, io, path::PathBuf, time::Duration};

pub(crate) fn write(agent: &Agent, scenario: &str, passed: bool, took: Duration) -> io::Result<()> {
    let Some(directory) = env::var_os("MAESTRO_E2E_REPORT").map(PathBuf::from) else { return Ok(()) };
    let record = json!({
        "agent": agent.key,
        "scenario": scenario,
        "passed": passed,
        "seconds": took.as_secs_f64(),
        "measured": *agent.measured.borrow(),
    });
    fs::write(directory.join(format!("{}::{scenario}.json", agent.key)), record.to_string())
}
