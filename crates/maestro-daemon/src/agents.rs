//! The agent table as this host can use it: which programs are there, and what to type where one is not.

mod version;

pub use version::package_version;

use maestro_acp::{AgentEntry, AgentTable, Overlap, Program};
use maestro_process::resolve_program;
use maestro_protocol::{AgentInfo, AgentKey, AgentList};
use std::{
    ffi::{OsStr, OsString},
    path::PathBuf,
    sync::Arc,
};

/// The table and how the built-in agent is started.
#[derive(Debug, Clone)]
pub(crate) struct Agents {
    table: Arc<AgentTable>,
    /// maestro's own program, for the demo agent.
    own_program: PathBuf,
}

/// What became of looking an agent's program up.
pub(crate) enum Resolution {
    Found { entry: Box<AgentEntry>, program: PathBuf, args: Vec<OsString> },
    Missing { detail: String },
}

impl Agents {
    pub(crate) fn new(table: AgentTable, own_program: PathBuf) -> Self {
        Self { table: Arc::new(table), own_program }
    }

    pub(crate) fn default_key(&self) -> AgentKey {
        self.table.default_entry().key.clone()
    }

    pub(crate) fn contains(&self, key: &AgentKey) -> bool {
        self.table.get(key).is_some()
    }

    /// The keys, for an error that says what there is.
    pub(crate) fn known(&self) -> String {
        self.table.iter().map(|entry| entry.key.as_str()).collect::<Vec<_>>().join(", ")
    }

    pub(crate) fn overlap(&self, key: &AgentKey) -> Overlap {
        self.table.get(key).map_or(Overlap::Wait, |entry| entry.overlapping_approvals)
    }

    pub(crate) fn sign_in(&self, key: &AgentKey) -> Option<&str> {
        self.table.get(key).and_then(|entry| entry.sign_in.as_deref())
    }

    /// Finds the agent's program on the session's own `PATH` if its request set one, else on the daemon's
    /// (CONTRACT §2.2).
    pub(crate) fn resolve(&self, key: &AgentKey, session_path: Option<&String>) -> Resolution {
        let Some(entry) = self.table.get(key) else {
            let detail = format!("no agent is called `{key}` any more: add it to config.toml, then restart");
            return Resolution::Missing { detail };
        };
        let path = session_path.map(OsString::from).or_else(daemon_path);
        match self.program(entry, path.as_deref()) {
            Some((program, args)) => Resolution::Found { entry: Box::new(entry.clone()), program, args },
            None => Resolution::Missing { detail: missing(entry) },
        }
    }

    /// What a person must do before the agent can be started, if anything.
    pub(crate) fn missing(&self, key: &AgentKey, session_path: Option<&String>) -> Option<String> {
        match self.resolve(key, session_path) {
            Resolution::Found { .. } => None,
            Resolution::Missing { detail } => Some(detail),
        }
    }

    fn program(&self, entry: &AgentEntry, path: Option<&OsStr>) -> Option<(PathBuf, Vec<OsString>)> {
        let args = entry.args.iter().map(OsString::from);
        match &entry.program {
            Program::BuiltInDemo => Some((self.own_program.clone(), vec![maestro_acp::DEMO_ARG.into()])),
            Program::Path(program) => resolve_program(program, path).map(|program| (program, args.collect())),
        }
    }

    /// The table for people.
    pub(crate) fn list(&self) -> AgentList {
        let path = daemon_path();
        let default = self.default_key();
        let info = |entry: &AgentEntry| {
            let program = self.program(entry, path.as_deref()).map(|(program, _)| program);
            AgentInfo {
                key: entry.key.clone(),
                name: entry.name.clone(),
                default: entry.key == default,
                install: entry.install.clone().filter(|_| program.is_none() && !is_path(entry)),
                missing: program.is_none().then(|| missing(entry)),
                version: program.as_deref().and_then(package_version),
                program: program.map(|program| program.display().to_string()),
                sign_in: entry.sign_in.clone(),
            }
        };
        let mut agents: Vec<AgentInfo> = self.table.iter().map(info).collect();
        agents.sort_by_key(|agent| !agent.default);
        AgentList { agents }
    }
}

fn daemon_path() -> Option<OsString> {
    std::env::var_os("PATH")
}

/// Whether a person said where the program is.
fn is_path(entry: &AgentEntry) -> bool {
    matches!(&entry.program, Program::Path(program) if program.contains('/'))
}

/// What is missing, and what to do.
fn missing(entry: &AgentEntry) -> String {
    let program = match &entry.program {
        Program::Path(program) => program.as_str(),
        Program::BuiltInDemo => "maestro",
    };
    if is_path(entry) {
        return format!(
            "`{program}` is not a program that can be run; correct `program` of `[agents.{}]` in config.toml",
            entry.key
        );
    }
    let not_found = format!("`{program}` was not found on PATH");
    match &entry.install {
        Some(install) => format!("{not_found}; install it with: {install}"),
        None => format!("{not_found}; install it or set its path in config.toml"),
    }
}
