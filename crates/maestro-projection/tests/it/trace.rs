//! Recordings of agents: every message that crossed their stdin and stdout.

use serde::Deserialize;
use std::path::PathBuf;

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Message {
    pub(crate) dir: Direction,
    /// Milliseconds since the recording began.
    pub(crate) ms: f64,
    /// Counts the agent's processes from 1.
    pub(crate) proc: u64,
    pub(crate) line: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Direction {
    /// From the agent.
    In,
    /// To the agent.
    Out,
}

pub(crate) struct Trace {
    pub(crate) name: String,
    pub(crate) messages: Vec<Message>,
}

pub(crate) fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/traces")
}

/// All recordings, by name.
pub(crate) fn all() -> Vec<Trace> {
    let entries = std::fs::read_dir(directory()).expect("the recordings are there");
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut paths =
        paths.filter(|path| path.extension().is_some_and(|ext| ext == "ndjson")).collect::<Vec<_>>();
    paths.sort();
    assert!(paths.len() >= 246, "only {} recordings", paths.len());
    paths.iter().map(Trace::read).collect()
}

impl Trace {
    fn read(path: &PathBuf) -> Self {
        let text = std::fs::read_to_string(path).unwrap();
        let messages = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        Self { name: path.file_stem().unwrap().to_string_lossy().into_owned(), messages }
    }
}
