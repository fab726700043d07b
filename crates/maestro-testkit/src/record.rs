//! What a scripted agent received and saw, as a test reads it.

use crate::wait::{TimedOut, wait_until_blocking};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

/// One line of a record file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Entry {
    Started { process: usize, pid: u32 },
    Received(Received),
    InputClosed { process: usize },
    Noted { process: usize, text: String },
    Descended(Descendant),
    Inspected(Inspection),
}

impl Entry {
    /// The entries of a record; a last line that is still being written is left out.
    pub(crate) fn parse_all(record: &[u8]) -> serde_json::Result<Vec<Self>> {
        record
            .split_inclusive(|byte| *byte == b'\n')
            .filter(|line| line.ends_with(b"\n"))
            .map(serde_json::from_slice)
            .collect()
    }
}

/// A line that a scripted agent read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Received {
    /// Which process of the script, from 1.
    pub process: usize,
    /// The line without its newline; bytes that are no UTF-8 are replaced.
    pub line: String,
}

impl Received {
    /// The line as JSON; `null` if it is none.
    pub fn message(&self) -> Value {
        serde_json::from_str(&self.line).unwrap_or(Value::Null)
    }
}

/// A process that a script left behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Descendant {
    /// Which process of the script made it.
    pub process: usize,
    /// Its id.
    pub pid: u32,
}

/// What a scripted agent was started with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inspection {
    /// Which process of the script.
    pub process: usize,
    /// Its environment.
    pub environment: BTreeMap<String, String>,
    /// Its open file descriptors and what they lead to, lowest first.
    pub descriptors: Vec<(u32, String)>,
    /// Its working directory.
    pub cwd: String,
    /// Its umask in octal, as `0022`.
    pub umask: String,
    /// Its soft limit of open files.
    pub open_files: String,
    /// Its own id.
    pub pid: u32,
    /// Its parent's id.
    pub parent: u32,
    /// Its process group.
    pub group: u32,
}

/// The record of one script.
#[derive(Debug, Clone)]
pub struct Record {
    path: PathBuf,
}

impl Record {
    /// The record of the script in this file.
    pub fn of_script(script: &Path) -> Self {
        Self { path: crate::agent::record_path(script) }
    }

    /// The record in this file.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    fn entries(&self) -> Vec<Entry> {
        let read = match fs::read(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
            read => read.and_then(|record| Ok(Entry::parse_all(&record)?)),
        };
        read.unwrap_or_else(|error| panic!("the record {} cannot be read: {error}", self.path.display()))
    }

    fn pick<T>(&self, choose: impl FnMut(Entry) -> Option<T>) -> Vec<T> {
        self.entries().into_iter().filter_map(choose).collect()
    }

    /// Every line that was read, by all processes, in order.
    pub fn received(&self) -> Vec<Received> {
        self.pick(|entry| if let Entry::Received(received) = entry { Some(received) } else { None })
    }

    /// The messages whose method is this one.
    pub fn calls(&self, method: &str) -> Vec<Value> {
        let messages = self.received().into_iter().map(|received| received.message());
        messages.filter(|message| message["method"] == method).collect()
    }

    /// The answers to the request of the agent's that has this id.
    pub fn answers(&self, id: impl Into<Value>) -> Vec<Value> {
        let id: Value = id.into();
        let messages = self.received().into_iter().map(|received| received.message());
        messages.filter(|message| message.get("method").is_none() && message["id"] == id).collect()
    }

    /// The ids of the processes that played the script, oldest first.
    pub fn processes(&self) -> Vec<u32> {
        self.pick(|entry| if let Entry::Started { pid, .. } = entry { Some(pid) } else { None })
    }

    /// The words that steps noted.
    pub fn notes(&self) -> Vec<String> {
        self.pick(|entry| if let Entry::Noted { text, .. } = entry { Some(text) } else { None })
    }

    /// The processes that the script left behind.
    pub fn descendants(&self) -> Vec<Descendant> {
        self.pick(|entry| if let Entry::Descended(descendant) = entry { Some(descendant) } else { None })
    }

    /// What the processes were started with.
    pub fn inspections(&self) -> Vec<Inspection> {
        self.pick(|entry| if let Entry::Inspected(inspection) = entry { Some(inspection) } else { None })
    }

    /// How many processes saw their stdin close.
    pub fn inputs_closed(&self) -> usize {
        self.entries().iter().filter(|entry| matches!(entry, Entry::InputClosed { .. })).count()
    }

    /// Waits, blocking, until a step noted this word.
    pub fn wait_for_note(&self, limit: Duration, word: &str) -> Result<(), TimedOut> {
        wait_until_blocking(limit, &format!("the note {word:?}"), || {
            self.notes().iter().any(|note| note == word)
        })
    }

    /// Waits, blocking, until a call of this method was read.
    pub fn wait_for_call(&self, limit: Duration, method: &str) -> Result<(), TimedOut> {
        wait_until_blocking(limit, &format!("a call of {method}"), || !self.calls(method).is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_up_to_its_last_whole_line() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let record = Record::at(file.path());
        let entry = Entry::Inspected(Inspection {
            process: 1,
            environment: BTreeMap::from([("A".into(), "b".into())]),
            descriptors: vec![(0, "pipe:[1]".into())],
            cwd: "/".into(),
            umask: "0022".into(),
            open_files: "1024".into(),
            pid: 2,
            parent: 1,
            group: 2,
        });
        let note = Entry::Noted { process: 1, text: "here".into() };
        let line = |entry: &Entry| serde_json::to_string(entry).unwrap();
        fs::write(file.path(), format!("{}\n{}\n{}", line(&entry), line(&note), line(&note))).unwrap();
        assert_eq!(record.notes(), ["here"]);
        assert_eq!(record.inspections().len(), 1);
        assert!(record.received().is_empty());
    }

    #[test]
    fn a_record_that_is_not_there_yet_is_empty() {
        assert!(Record::at("/nonexistent/record").processes().is_empty());
    }
}
