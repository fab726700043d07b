//! `tools/agents.json`, as far as it concerns what is installed and driven.

use crate::layout;
use anyhow::{Context as _, Result};
use serde_json::Value;
use std::{collections::BTreeMap, fs};

pub(super) const FILE: &str = "tools/agents.json";

/// An agent that tests can drive.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Agent {
    pub(super) key: String,
    pub(super) source: Source,
    /// Whether runs do without it unless it is asked for.
    pub(super) optional: bool,
    /// Scenarios that it cannot do, with the reason.
    pub(super) lacks: BTreeMap<String, String>,
    /// Whether only the basic scenarios are asked of it.
    pub(super) basic: bool,
}

/// What it is installed from: packages with their versions, its own first.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Source {
    Npm(Vec<String>),
    Pip(Vec<String>),
}

impl Agent {
    pub(super) fn specs(&self) -> &[String] {
        match &self.source {
            Source::Npm(specs) | Source::Pip(specs) => specs,
        }
    }

    /// The version of its own package.
    pub(super) fn version(&self) -> &str {
        self.specs().first().and_then(|spec| spec.rsplit(['@', '=']).next()).unwrap_or_default()
    }
}

/// All agents, in the order of their keys.
pub(super) fn read() -> Result<Vec<Agent>> {
    let path = layout::root().join(FILE);
    let text = fs::read(&path).with_context(|| format!("could not read {}", path.display()))?;
    let text: BTreeMap<String, Value> =
        serde_json::from_slice(&text).with_context(|| format!("{FILE} is not JSON"))?;
    text.into_iter().map(|(key, entry)| agent(key, &entry)).collect()
}

fn agent(key: String, entry: &Value) -> Result<Agent> {
    let specs = |source: &str| -> Option<Vec<String>> {
        entry[source].as_array()?.iter().map(|spec| spec.as_str().map(str::to_owned)).collect()
    };
    let source = match (specs("npm"), specs("pip")) {
        (Some(specs), None) => Source::Npm(specs),
        (None, Some(specs)) => Source::Pip(specs),
        _ => anyhow::bail!("{FILE}: {key} has neither `npm` nor `pip`, or both"),
    };
    let facts = &entry["e2e"];
    let lacks = facts["lacks"].as_object().into_iter().flatten();
    let lacks = lacks.map(|(name, why)| (name.clone(), why.as_str().unwrap_or_default().to_owned()));
    Ok(Agent {
        key,
        source,
        optional: facts["optional"] == true,
        lacks: lacks.collect(),
        basic: facts["scenarios"] == "basic",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_agent_has_an_exact_version() {
        let agents = read().expect("the file is well-formed");
        assert!(agents.iter().any(|agent| agent.key == "claude-code-acp" && !agent.optional));
        for spec in agents.iter().flat_map(Agent::specs) {
            let version = spec.rsplit(['@', '=']).next().unwrap_or_default();
            let exact = !version.is_empty() && version.chars().all(|c| c.is_ascii_digit() || c == '.');
            assert!(exact && version.contains('.'), "{spec}");
        }
        assert!(agents.iter().all(|agent| agent.lacks.values().all(|why| !why.is_empty())));
    }
}
