//! A directory of sessions in a temporary place, with one session in the middle of the tests.

use maestro_log::{Committer, LogDir, OpenReport, Poisoned, SessionLog, Ticket, Touch};
use maestro_protocol::SessionId;
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};
use tempfile::TempDir;

pub(crate) struct Store {
    temp: TempDir,
    pub(crate) dir: LogDir,
    pub(crate) id: SessionId,
}

/// A log after it was opened, with all that its opening told.
pub(crate) struct Opened {
    pub(crate) log: SessionLog,
    pub(crate) report: OpenReport,
    /// What the callback got.
    pub(crate) lines: Vec<Vec<u8>>,
}

pub(crate) fn session_id() -> SessionId {
    "8f14e45f-ceea-467f-a8f3-1d6d0e3b2c11".parse().unwrap()
}

pub(crate) fn log_dir(path: &Path) -> LogDir {
    LogDir::open(path, &Committer::start().unwrap()).unwrap()
}

/// Opens a log as if every line touched some rows, a number that depends on its cursor.
pub(crate) fn open(dir: &LogDir, id: SessionId) -> Opened {
    let mut lines = Vec::new();
    let on_line = |cursor, line: &[u8]| {
        lines.push(line.to_vec());
        touches(cursor)
    };
    let (log, report) = dir.open_log(id, on_line).unwrap();
    Opened { log, report, lines }
}

pub(crate) fn touches(cursor: u64) -> Vec<Touch> {
    (0..cursor % 4).map(|prev| Touch { prev: cursor.saturating_sub(prev + 1) }).collect()
}

pub(crate) fn append(log: &mut SessionLog, line: &[u8]) -> u64 {
    let cursor = log.append(line).unwrap();
    log.index(cursor, &touches(cursor)).unwrap();
    cursor
}

pub(crate) fn wait(ticket: Ticket) -> Result<(), Poisoned> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let answer = async { tokio::time::timeout(Duration::from_secs(20), ticket).await };
    runtime.block_on(answer).expect("a flush is answered")
}

impl Store {
    /// With a log of these lines.
    pub(crate) fn with(lines: &[&[u8]]) -> Self {
        let temp = tempfile::tempdir().unwrap();
        let store = Self { dir: log_dir(temp.path()), temp, id: session_id() };
        let mut log = store.dir.create_log(store.id).unwrap();
        for line in lines {
            append(&mut log, line);
        }
        store
    }

    pub(crate) fn path(&self) -> &Path {
        self.temp.path()
    }

    pub(crate) fn file(&self, suffix: &str) -> PathBuf {
        self.temp.path().join(format!("{}.{suffix}", self.id))
    }

    pub(crate) fn log_bytes(&self) -> Vec<u8> {
        fs::read(self.file("events.jsonl")).unwrap()
    }

    pub(crate) fn index_bytes(&self) -> Vec<u8> {
        fs::read(self.file("index")).unwrap()
    }

    pub(crate) fn open(&self) -> Opened {
        open(&self.dir, self.id)
    }
}

impl Opened {
    pub(crate) fn read(&self) -> Vec<Vec<u8>> {
        self.log.reader().lines().collect::<Result<_, _>>().unwrap()
    }
}
