use crate::{CANCEL_GRACE, DEFAULT_AGENT, OWN_TURN_QUIET, TurnMark, quirks};
use maestro_protocol::AgentKey;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The longest cancel grace an entry may ask for, in milliseconds (CONTRACT §8.3).
const CANCEL_GRACE_MS_MAX: u64 = 5_000;

/// The longest quiet an entry may wait for after a load, in milliseconds. The handshake's bound holds all the same.
const LOAD_DRAIN_MS_MAX: u64 = 10_000;

/// The longest silence an entry may wait for before its agent's own turn is over, in milliseconds. Prompts are refused
/// meanwhile, so a person should not have to wait for more.
const OWN_TURN_QUIET_MS_MAX: u64 = 60_000;

/// What is run to get an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// A name to look for on `PATH`, or a path if it has a `/` (CONTRACT §2.2).
    Path(String),
    /// maestro's own program; its arguments make it the demo agent.
    BuiltInDemo,
}

/// What becomes of a permission request that comes while another is live (CONTRACT §7.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// It waits, unanswered, until the live one settles.
    Wait,
    /// The live one is cancelled and the newest takes its place.
    NewestWins,
}

/// How one agent is started and what is peculiar to it (CONTRACT §2.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentEntry {
    /// Its name in the table.
    pub key: AgentKey,
    /// What people call it.
    pub name: String,
    /// What is run.
    pub program: Program,
    /// With these arguments.
    pub args: Vec<String>,
    /// Environment variables it may inherit besides those that every agent inherits: exact names, or a prefix and
    /// `*` (CONTRACT §2.4).
    pub env_names: Vec<String>,
    /// The command that installs it.
    pub install: Option<String>,
    /// The command that signs a person in.
    pub sign_in: Option<String>,
    /// The mode in which it asks before it acts; `None` if it has no such mode (CONTRACT §3.4).
    pub asking_mode: Option<String>,
    /// How long a cancelled turn may take to settle, in milliseconds (CONTRACT §8.3).
    pub cancel_grace_ms: u64,
    /// Quiet to wait for after the answer to `session/load`, in milliseconds; 0 where the whole history comes before
    /// the answer (CONTRACT §3.3).
    pub load_drain_ms: u64,
    /// Whether it starts turns by itself when background work ends (CONTRACT §8.6).
    pub own_turns: bool,
    /// With what it ends such a turn; `None` where only silence does.
    pub own_turn_end: Option<TurnMark>,
    /// The silence that ends such a turn all the same, in milliseconds.
    pub own_turn_quiet_ms: u64,
    /// What becomes of overlapping permission requests.
    pub overlapping_approvals: Overlap,
}

impl AgentEntry {
    /// An agent about which nothing is peculiar.
    pub(crate) fn plain(key: AgentKey, program: Program) -> Self {
        Self {
            name: key.to_string(),
            key,
            program,
            args: Vec::new(),
            env_names: Vec::new(),
            install: None,
            sign_in: None,
            asking_mode: None,
            cancel_grace_ms: u64::try_from(CANCEL_GRACE.as_millis()).unwrap_or(CANCEL_GRACE_MS_MAX),
            load_drain_ms: 0,
            own_turns: false,
            own_turn_end: None,
            own_turn_quiet_ms: u64::try_from(OWN_TURN_QUIET.as_millis()).unwrap_or(OWN_TURN_QUIET_MS_MAX),
            overlapping_approvals: Overlap::Wait,
        }
    }

    /// A built-in agent about which nothing is peculiar.
    pub(crate) fn built_in(key: &str, name: &str, program: &str) -> Self {
        let key = key.parse().expect("built-in keys are well formed");
        Self { name: name.into(), ..Self::plain(key, Program::Path(program.into())) }
    }
}

/// One `[agents.<key>]` of `config.toml`: every field that is there replaces the one of the built-in entry, or of a
/// plain entry for a new key. An empty text takes away what may be missing, and else changes nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentOverride {
    /// What is run; needed for a new key.
    pub program: Option<String>,
    /// With these arguments.
    pub args: Option<Vec<String>>,
    /// What people call it.
    pub name: Option<String>,
    /// Environment variables it may inherit besides those that every agent inherits.
    pub env_names: Option<Vec<String>>,
    /// The command that installs it.
    pub install: Option<String>,
    /// The command that signs a person in.
    pub sign_in: Option<String>,
    /// The mode in which it asks before it acts.
    pub asking_mode: Option<String>,
    /// How long a cancelled turn may take to settle, in milliseconds, at most 5000.
    pub cancel_grace_ms: Option<u64>,
    /// Quiet to wait for after the answer to `session/load`, in milliseconds, at most 10000.
    pub load_drain_ms: Option<u64>,
    /// Whether it starts turns by itself when background work ends.
    pub own_turns: Option<bool>,
    /// The silence that ends such a turn, in milliseconds, at most 60000.
    pub own_turn_quiet_ms: Option<u64>,
    /// What becomes of overlapping permission requests.
    pub overlapping_approvals: Option<Overlap>,
}

/// Why an override cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AgentTableError {
    /// A new agent without a program.
    #[error("agents.{key}: no built-in agent has this key, so `program` must name what to run")]
    NoProgram {
        /// The agent.
        key: AgentKey,
    },
    /// The demo agent is maestro itself.
    #[error(
        "agents.{key}: the demo agent is built in; choose another key for a `program` or `args` of your own"
    )]
    DemoIsBuiltIn {
        /// The agent.
        key: AgentKey,
    },
    /// A time beyond what is allowed.
    #[error("agents.{key}: `{field}` is {value} ms; at most {max} ms are allowed")]
    TooLong {
        /// The agent.
        key: AgentKey,
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
        /// The most that is allowed.
        max: u64,
    },
    /// Not the name of an environment variable.
    #[error(
        "agents.{key}: `env_names` has {name:?}; a name is letters, digits and `_`, and may end in one `*` after at \
         least one of them"
    )]
    BadEnvName {
        /// The agent.
        key: AgentKey,
        /// What stands there.
        name: String,
    },
}

/// All agents, the default first, then the other built-in ones, then new ones in the order of their keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentTable {
    entries: Vec<AgentEntry>,
}

impl AgentTable {
    /// The built-in agents.
    pub fn built_in() -> Self {
        Self { entries: quirks::built_in() }
    }

    /// The table changed by what `config.toml` says.
    ///
    /// # Errors
    /// The first override that cannot be used.
    pub fn with_overrides(
        mut self,
        overrides: BTreeMap<AgentKey, AgentOverride>,
    ) -> Result<Self, AgentTableError> {
        for (key, change) in overrides {
            if let Some(entry) = self.entries.iter_mut().find(|entry| entry.key == key) {
                change.apply(entry)?;
            } else {
                let program = change.program.clone().filter(|program| !program.is_empty());
                let program = program.ok_or_else(|| AgentTableError::NoProgram { key: key.clone() })?;
                let mut entry = AgentEntry::plain(key, Program::Path(program));
                change.apply(&mut entry)?;
                self.entries.push(entry);
            }
        }
        Ok(self)
    }

    /// The agent of this key.
    pub fn get(&self, key: &AgentKey) -> Option<&AgentEntry> {
        self.entries.iter().find(|entry| entry.key == *key)
    }

    /// The agent that a session gets if nobody chose another.
    pub fn default_entry(&self) -> &AgentEntry {
        let default = self.entries.iter().find(|entry| entry.key.as_str() == DEFAULT_AGENT);
        default.expect("the default agent is built in and nothing removes entries")
    }

    /// All agents, in the order of the table.
    pub fn iter(&self) -> impl Iterator<Item = &AgentEntry> {
        self.entries.iter()
    }
}

impl AgentOverride {
    fn apply(self, entry: &mut AgentEntry) -> Result<(), AgentTableError> {
        self.validate(entry)?;
        replace(&mut entry.program, self.program.filter(|program| !program.is_empty()).map(Program::Path));
        replace(&mut entry.args, self.args);
        replace(&mut entry.name, self.name.filter(|name| !name.is_empty()));
        replace(&mut entry.env_names, self.env_names);
        replace(&mut entry.install, self.install.map(unless_empty));
        replace(&mut entry.sign_in, self.sign_in.map(unless_empty));
        replace(&mut entry.asking_mode, self.asking_mode.map(unless_empty));
        replace(&mut entry.cancel_grace_ms, self.cancel_grace_ms);
        replace(&mut entry.load_drain_ms, self.load_drain_ms);
        replace(&mut entry.own_turns, self.own_turns);
        replace(&mut entry.own_turn_quiet_ms, self.own_turn_quiet_ms);
        replace(&mut entry.overlapping_approvals, self.overlapping_approvals);
        Ok(())
    }

    fn validate(&self, entry: &AgentEntry) -> Result<(), AgentTableError> {
        let key = || entry.key.clone();
        if entry.program == Program::BuiltInDemo && (self.program.is_some() || self.args.is_some()) {
            return Err(AgentTableError::DemoIsBuiltIn { key: key() });
        }
        let times = [
            ("cancel_grace_ms", self.cancel_grace_ms, CANCEL_GRACE_MS_MAX),
            ("load_drain_ms", self.load_drain_ms, LOAD_DRAIN_MS_MAX),
            ("own_turn_quiet_ms", self.own_turn_quiet_ms, OWN_TURN_QUIET_MS_MAX),
        ];
        for (field, value, max) in times {
            if let Some(value) = value.filter(|value| *value > max) {
                return Err(AgentTableError::TooLong { key: key(), field, value, max });
            }
        }
        match self.env_names.iter().flatten().find(|name| !is_env_name(name)) {
            Some(name) => Err(AgentTableError::BadEnvName { key: key(), name: name.clone() }),
            None => Ok(()),
        }
    }
}

/// Whether `name` names one variable or a family of them. A bare `*` would hand an agent the whole environment.
fn is_env_name(name: &str) -> bool {
    let stem = name.strip_suffix('*').unwrap_or(name);
    let well_formed = stem.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    well_formed && stem.starts_with(|c: char| !c.is_ascii_digit())
}

fn replace<T>(field: &mut T, by: Option<T>) {
    if let Some(value) = by {
        *field = value;
    }
}

fn unless_empty(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests;
