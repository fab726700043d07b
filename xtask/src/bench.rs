//! What maestro promises about speed and memory, measured by a program of its own: this one stays small, and without a
//! runtime.

use crate::{layout, shell};
use anyhow::Result;

/// The benchmark that measures the daemon's history from inside, page by page.
const REPLAY: &str = "replay";

/// Builds the measuring program and maestro as they are released, and runs it with these arguments. `replay`, first, is
/// the benchmark of the daemon's history.
///
/// # Errors
/// If they cannot be built, something cannot be measured, or something that was sent is lost.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    if let Some((REPLAY, rest)) = arguments.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        let bench = ["bench", "--locked", "--package", "maestro-daemon", "--bench", REPLAY, "--"];
        return shell::run(shell::cargo(bench).args(rest));
    }
    let packages = ["--package", "maestro", "--package", "maestro-bench"];
    shell::run(shell::cargo(["build", "--release", "--locked"]).args(packages))?;
    shell::run(&mut shell::command(layout::target().join("release/maestro-bench"), arguments))
}
