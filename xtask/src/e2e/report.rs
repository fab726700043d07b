//! What became of each agent, from the records that the tests left.

use super::catalogue::Agent;
use anyhow::{Context as _, Result};
use serde_json::Value;
use std::{fmt::Write as _, fs, path::Path};

/// One test of one agent.
#[derive(Debug)]
pub(super) struct Record {
    agent: String,
    scenario: String,
    passed: bool,
    start_ms: Vec<u64>,
    rss_mib: Option<u64>,
}

/// The records in a directory.
pub(super) fn read(directory: &Path) -> Result<Vec<Record>> {
    let entries = fs::read_dir(directory).context("could not read the records of the tests")?;
    let mut records = Vec::new();
    for entry in entries {
        let path = entry.context("could not read the records of the tests")?.path();
        let text = fs::read(&path).with_context(|| format!("could not read {}", path.display()))?;
        let record: Value =
            serde_json::from_slice(&text).with_context(|| format!("{} is not JSON", path.display()))?;
        records.push(record_of(&record));
    }
    records.sort_by(|a, b| a.scenario.cmp(&b.scenario));
    Ok(records)
}

fn record_of(record: &Value) -> Record {
    let text = |key: &str| record[key].as_str().unwrap_or_default().to_owned();
    let measured = &record["measured"];
    let start_ms = measured["start_ms"].as_array().into_iter().flatten().filter_map(Value::as_u64);
    Record {
        agent: text("agent"),
        scenario: text("scenario"),
        passed: record["passed"] == true,
        start_ms: start_ms.collect(),
        rss_mib: measured["rss_mib"].as_u64(),
    }
}

/// A table of all agents, then what failed and what was left out.
pub(super) fn text(here: &[Agent], missing: &[(Agent, String)], records: &[Record]) -> String {
    let mut out = format!(
        "\n{:<22} {:<10} {:<9} {:>6} {:>6} {:>7} {:>8} {:>7}\n",
        "agent", "version", "installed", "passed", "failed", "skipped", "start ms", "RSS MiB"
    );
    let mut notes = Vec::new();
    for agent in here {
        let of_agent = || records.iter().filter(|record| record.agent == agent.key);
        let failed: Vec<&str> =
            of_agent().filter(|record| !record.passed).map(|record| record.scenario.as_str()).collect();
        let figure = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
        let start = median(of_agent().flat_map(|record| &record.start_ms).copied().collect());
        let rss = of_agent().find_map(|record| record.rss_mib);
        let passed = of_agent().count() - failed.len();
        let row = (agent.key.as_str(), agent.version(), passed, failed.len(), agent.lacks.len());
        writeln!(
            out,
            "{:<22} {:<10} {:<9} {:>6} {:>6} {:>7} {:>8} {:>7}",
            row.0,
            row.1,
            "yes",
            row.2,
            row.3,
            row.4,
            figure(start),
            figure(rss)
        )
        .expect("a string takes everything");
        for scenario in failed {
            notes.push(format!("{}: {scenario} failed", agent.key));
        }
        for (scenario, why) in &agent.lacks {
            notes.push(format!("{}: {scenario} skipped: {why}", agent.key));
        }
        if agent.basic {
            notes.push(format!("{}: only the basic scenarios are asked of it", agent.key));
        }
    }
    for (agent, why) in missing {
        writeln!(out, "{:<22} {:<10} no", agent.key, agent.version()).expect("a string takes everything");
        notes.push(format!("{}: not installed: {why}", agent.key));
    }
    out + &notes.join("\n")
}

fn median(mut values: Vec<u64>) -> Option<u64> {
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::e2e::catalogue::Source;
    use serde_json::json;

    #[test]
    fn a_run_is_a_table_and_the_reasons_below_it() {
        let agent = |key: &str, basic| Agent {
            key: key.into(),
            source: Source::Npm(vec![format!("@some/{key}@1.2.3")]),
            optional: false,
            lacks: if basic { [].into() } else { [("todo".to_owned(), "it has no plans".to_owned())].into() },
            basic,
        };
        let record = |scenario: &str, passed: bool, start_ms: u64| {
            record_of(&json!({"agent": "one", "scenario": scenario, "passed": passed,
                "measured": {"start_ms": [start_ms], "rss_mib": 70}}))
        };
        let records = [record("hello", true, 80), record("load", false, 100), record("long", true, 90)];
        let text = text(&[agent("one", false)], &[(agent("two", true), "no node".into())], &records);
        let lines: Vec<String> =
            text.trim().lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(
            lines,
            [
                "agent version installed passed failed skipped start ms RSS MiB",
                "one 1.2.3 yes 2 1 1 90 70",
                "two 1.2.3 no",
                "one: load failed",
                "one: todo skipped: it has no plans",
                "two: not installed: no node",
            ]
        );
    }
}
