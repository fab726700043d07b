//! Real agents: installed at fixed versions into the cache, talking to the scripted model server.

mod catalogue;
mod report;

use crate::{
    layout,
    need::{self, Installer},
    shell::{self, say},
};
use anyhow::{Context as _, Result};
use catalogue::{Agent, Source};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The variable that tells the tests where the agents are: a directory with `<agent>/bin`. Empty: they run elsewhere.
pub(crate) const ADAPTERS_VAR: &str = "MAESTRO_E2E_ADAPTERS";
/// The variable that names the agents to be driven, where they are not those of every run.
const AGENTS_VAR: &str = "MAESTRO_E2E_AGENTS";
/// The variable that names the directory in which each test leaves its record.
const REPORT_VAR: &str = "MAESTRO_E2E_REPORT";

/// The tests that drive real agents.
pub(crate) const FILTER: &str = "binary(real_agent)";

/// Which agents are wanted.
pub(crate) enum Wanted {
    /// Those that every run of the tests needs.
    Required,
    /// Every agent that can be installed here.
    All,
    /// These.
    Named(Vec<String>),
}

/// Installed agents, and those that could not be.
pub(crate) struct Prepared {
    home: PathBuf,
    here: Vec<Agent>,
    missing: Vec<(Agent, String)>,
    record: tempfile::TempDir,
}

/// Makes everything ready for the tests with real agents.
///
/// # Errors
/// If something is missing that must be there; the message ends with the command that mends it. Of `Wanted::All` an
/// agent may be missing.
pub(crate) fn prepare(installer: &Installer, wanted: &Wanted) -> Result<Prepared> {
    for need in [&need::PYTHON, &need::NODE, &need::NPM, &need::GIT] {
        installer.ensure(need)?;
    }
    let home = layout::cache()?.join("adapters");
    let (mut here, mut missing) = (Vec::new(), Vec::new());
    for agent in catalogue::read()?.into_iter().filter(|agent| wanted.has(agent)) {
        match (make_sure(&home, &agent), wanted) {
            (Ok(()), _) => here.push(agent),
            (Err(error), Wanted::All) => missing.push((agent, format!("{error:#}"))),
            (Err(error), Wanted::Required | Wanted::Named(_)) => return Err(error),
        }
    }
    if let Wanted::Named(names) = wanted {
        let unknown = names.iter().find(|name| here.iter().all(|agent| agent.key != **name));
        anyhow::ensure!(
            unknown.is_none(),
            "{} is not in {}",
            unknown.map_or("", |name| name),
            catalogue::FILE
        );
    }
    let record = tempfile::tempdir().context("could not make a directory for the report")?;
    Ok(Prepared { home, here, missing, record })
}

/// Installs the agents, runs their tests and prints what became of each. Tells whether all went well.
pub(crate) fn run(wanted: &Wanted) -> Result<bool> {
    let prepared = prepare(&Installer::default(), wanted)?;
    let went_well = shell::watch(&mut prepared.command(), |_| ())?;
    prepared.report()?;
    Ok(went_well)
}

impl Wanted {
    fn has(&self, agent: &Agent) -> bool {
        match self {
            Self::Required => !agent.optional,
            Self::All => true,
            Self::Named(names) => names.contains(&agent.key),
        }
    }
}

impl Prepared {
    /// The runner of the tests with these agents, one at a time.
    pub(crate) fn command(&self) -> Command {
        let mut command = match need::cargo_tool("cargo-nextest") {
            Ok(program) => shell::command(
                program,
                [
                    "nextest",
                    "run",
                    "--profile",
                    "agents",
                    "--no-fail-fast",
                    "--locked",
                    "--workspace",
                    "-E",
                    FILTER,
                ],
            ),
            Err(_) => shell::cargo([
                "test",
                "--locked",
                "--workspace",
                "--test",
                "real_agent",
                "--",
                "--test-threads=1",
            ]),
        };
        let keys: Vec<&str> = self.here.iter().map(|agent| agent.key.as_str()).collect();
        command.env(ADAPTERS_VAR, &self.home).env(AGENTS_VAR, keys.join(","));
        command.env(REPORT_VAR, self.record.path());
        command
    }

    /// Prints what became of each agent.
    pub(crate) fn report(&self) -> Result<()> {
        say(report::text(&self.here, &self.missing, &report::read(self.record.path())?))
    }
}

/// Installs an agent, unless it is there in this version.
fn make_sure(home: &Path, agent: &Agent) -> Result<()> {
    let home = home.join(&agent.key);
    let stamp = home.join("installed");
    let wanted = agent.specs().join("\n");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return say(format_args!("{} {}: {}", agent.key, agent.version(), home.display()));
    }
    say(format_args!("{} {}: installing it into {}", agent.key, agent.version(), home.display()))?;
    fs::create_dir_all(&home).with_context(|| format!("could not make {}", home.display()))?;
    match &agent.source {
        Source::Npm(specs) => npm(&home, specs),
        Source::Pip(specs) => pip(&home, specs),
    }
    .with_context(|| format!("{} is missing", agent.key))?;
    fs::write(&stamp, wanted).with_context(|| format!("could not write {}", stamp.display()))
}

fn npm(home: &Path, specs: &[String]) -> Result<()> {
    let mut npm =
        shell::command("npm", ["install", "--global", "--no-fund", "--no-audit", "--loglevel=error"]);
    npm.arg("--prefix").arg(home).arg("--cache").arg(layout::cache()?.join("npm")).args(specs);
    shell::run(&mut npm).with_context(|| format!("npm install --global {}", specs.join(" ")))
}

fn pip(home: &Path, specs: &[String]) -> Result<()> {
    // The agents of this kind need Python 3.12, which is not everywhere the default.
    let python = ["python3.13", "python3.12", "python3"].into_iter().find_map(layout::find_program);
    let python = python.context("python3 is missing")?;
    shell::run(shell::command(python, ["-m", "venv"]).arg(home))?;
    let mut pip = shell::command(home.join("bin/pip"), ["install", "--quiet", "--disable-pip-version-check"]);
    shell::run(pip.args(specs)).with_context(|| format!("pip install {}", specs.join(" ")))
}
