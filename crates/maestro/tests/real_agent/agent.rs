//! What `tools/agents.json` says of an agent.

use crate::scenarios::{BASIC, Scenario};
use serde::Deserialize;
use std::{
    cell::RefCell,
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
};

/// An agent, and what was measured of it on the way.
#[derive(Debug, Clone)]
pub(crate) struct Agent {
    pub(crate) key: String,
    pub(crate) spec: Spec,
    /// The directory of its program; empty until it is known where the agents are.
    pub(crate) bin: PathBuf,
    pub(crate) measured: RefCell<Measured>,
}

/// Figures for the report.
#[derive(Debug, Clone, Default, serde::Serialize)]
pub(crate) struct Measured {
    /// From the request that creates a session until the session runs.
    pub(crate) start_ms: Vec<u64>,
    /// Of all processes of a session after its first turn, in MiB.
    pub(crate) rss_mib: Option<u64>,
}

/// What the tests need of an agent's entry; `cargo xtask e2e` and `acp_drive.py` read the rest.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Spec {
    /// Added to the daemon's environment; `{mock}` is the model server's address.
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    /// Written below the home directory before the daemon starts.
    #[serde(default)]
    pub(crate) home_files: BTreeMap<String, HomeFile>,
    /// What is left out of `env` to have no credentials.
    #[serde(default)]
    pub(crate) no_auth_env: Vec<String>,
    pub(crate) e2e: Facts,
}

/// A file as text, or as the JSON that it holds.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum HomeFile {
    Text(String),
    Json(serde_json::Value),
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Facts {
    scenarios: Extent,
    /// Only where it is asked for by name.
    #[serde(default)]
    optional: bool,
    /// `[agents.<key>]` in `config.toml`, for an agent that is not built in.
    pub(crate) entry: Option<toml::Table>,
    /// Scenarios that it cannot do, with the reason.
    #[serde(default)]
    lacks: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) ways: Ways,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Extent {
    /// Those without which a person cannot work.
    Basic,
    All,
}

/// In what agents differ where both ways are right.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Ways {
    /// How a turn ends in which a person refused.
    pub(crate) refusal_ends: String,
    /// Whether a running command lives on when its turn is cancelled.
    pub(crate) commands_outlive_cancel: bool,
    /// Whether it shows what it writes as a diff.
    pub(crate) diffs: bool,
    /// Whether a thing allowed for the session is asked for again all the same.
    pub(crate) asks_again: bool,
    /// What it says without credentials.
    pub(crate) without_credentials: String,
    /// The mode in which it plans.
    pub(crate) plan_mode: String,
}

impl Default for Ways {
    fn default() -> Self {
        Self {
            refusal_ends: "end_turn".into(),
            commands_outlive_cancel: false,
            diffs: true,
            asks_again: false,
            without_credentials: "sign in".into(),
            plan_mode: "plan".into(),
        }
    }
}

/// Where the agents are.
pub(crate) enum Installed {
    /// A directory with `<agent>/bin`.
    At(PathBuf),
    /// These tests run in another run.
    Elsewhere,
    /// Nowhere, and this is a run in which nothing may be left out.
    Needed,
    /// Nowhere, as on most machines.
    NotNeeded,
}

pub(crate) fn installed() -> Installed {
    match env::var_os("MAESTRO_E2E_ADAPTERS") {
        Some(home) if home.is_empty() => Installed::Elsewhere,
        Some(home) => Installed::At(home.into()),
        None if env::var_os("CI").is_some_and(|value| value == "true") => Installed::Needed,
        None => Installed::NotNeeded,
    }
}

/// The agents of this run: those named in `MAESTRO_E2E_AGENTS`, else all that are not optional.
pub(crate) fn chosen() -> Vec<Agent> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/agents.json");
    let text = fs::read(&path).expect("tools/agents.json is there");
    let all: BTreeMap<String, Spec> =
        serde_json::from_slice(&text).expect("tools/agents.json is well-formed");
    let named = env::var("MAESTRO_E2E_AGENTS").ok();
    let is_named = |key: &str| named.as_deref().map(|named| named.split(',').any(|name| name == key));
    all.into_iter()
        .filter(|(key, spec)| is_named(key).unwrap_or(!spec.e2e.optional))
        .map(|(key, spec)| Agent { key, spec, bin: PathBuf::new(), measured: RefCell::default() })
        .collect()
}

impl Agent {
    /// Whether this scenario is one of its tests.
    pub(crate) fn does(&self, scenario: &Scenario) -> bool {
        let facts = &self.spec.e2e;
        let in_extent = facts.scenarios == Extent::All || BASIC.contains(&scenario.name);
        in_extent && !facts.lacks.contains_key(scenario.name)
    }

    pub(crate) fn installed_at(mut self, home: &Path) -> Self {
        self.bin = home.join(&self.key).join("bin");
        self
    }

    /// The mode in which it asks, by the built-in table or by the entry that stands in for it.
    pub(crate) fn asking_mode(&self) -> Option<String> {
        let table = maestro_acp::AgentTable::built_in();
        if let Some(built_in) = table.iter().find(|entry| entry.key.as_str() == self.key) {
            return built_in.asking_mode.clone();
        }
        self.spec.e2e.entry.as_ref()?.get("asking_mode")?.as_str().map(str::to_owned)
    }

    pub(crate) fn ways(&self) -> &Ways {
        &self.spec.e2e.ways
    }
}
