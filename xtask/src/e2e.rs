//! Real agents: installed from npm at a fixed version into the cache, talking to the scripted model server.

use crate::{
    layout,
    need::{self, Installer},
    shell::{self, say},
};
use anyhow::{Context as _, Result};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The packages, with the versions whose traffic the tests know.
const ADAPTERS: [(&str, &str); 1] = [("@zed-industries/claude-code-acp", "0.16.2")];

/// The variable that tells the tests where the agents are: a directory with `bin/<agent>`. Empty: they run
/// elsewhere.
pub(crate) const ADAPTERS_VAR: &str = "MAESTRO_E2E_ADAPTERS";

/// The tests that drive real agents.
pub(crate) const FILTER: &str = "binary(real_agent)";

/// Makes everything ready for the tests with real agents and returns the directory of the agents.
///
/// # Errors
/// If something is missing; the message ends with the command that mends it.
pub(crate) fn prepare(installer: &Installer) -> Result<PathBuf> {
    for need in [&need::PYTHON, &need::NODE, &need::NPM] {
        installer.ensure(need)?;
    }
    let home = layout::cache()?.join("adapters");
    for (package, version) in ADAPTERS {
        if installed_version(&home, package).as_deref() == Some(version) {
            say(format_args!("{package} {version}: {}", home.display()))?;
        } else {
            install(&home, package, version)?;
        }
    }
    Ok(home)
}

pub(crate) fn run() -> Result<()> {
    let adapters = prepare(&Installer::default())?;
    shell::run(command().env(ADAPTERS_VAR, adapters))
}

/// The runner of the tests with real agents; the variable is the caller's to set.
pub(crate) fn command() -> Command {
    match need::cargo_tool("cargo-nextest") {
        Ok(program) => shell::command(
            program,
            ["nextest", "run", "--profile", "agents", "--locked", "--workspace", "-E", FILTER],
        ),
        // One at a time, as the profile has it.
        Err(_) => shell::cargo([
            "test",
            "--locked",
            "--workspace",
            "--test",
            "real_agent",
            "--",
            "--test-threads=1",
        ]),
    }
}

fn install(home: &Path, package: &str, version: &str) -> Result<()> {
    let spec = format!("{package}@{version}");
    let mut npm =
        shell::command("npm", ["install", "--global", "--no-fund", "--no-audit", "--loglevel=error"]);
    npm.arg("--prefix").arg(home).arg("--cache").arg(layout::cache()?.join("npm")).arg(&spec);
    shell::run(&mut npm).with_context(|| format!("{spec} is missing: npm install --global {spec}"))
}

fn installed_version(home: &Path, package: &str) -> Option<String> {
    let manifest = fs::read(home.join("lib/node_modules").join(package).join("package.json")).ok()?;
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).ok()?;
    manifest.get("version")?.as_str().map(str::to_owned)
}
