//! A directory of sessions in a temporary place, with one session in the middle of the tests.

use maestro_log::{
    Committer, IndexLine, LogDir, OpenReport, Poisoned, SessionLog, StoredTouch, Ticket, Touch,
};
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

/// Opens a log as if every line had done what [`indexed`] says.
pub(crate) fn open(dir: &LogDir, id: SessionId) -> Opened {
    let mut lines = Vec::new();
    let on_line = |cursor, line: &[u8]| {
        lines.push(line.to_vec());
        indexed(cursor)
    };
    let (log, report) = dir.open_log(id, on_line).unwrap();
    Opened { log, report, lines }
}

/// What is indexed of a line: a number of touches that depends on its cursor, and with some of them a checkpoint.
pub(crate) fn indexed(cursor: u64) -> IndexLine {
    let touch = |place: u64| Touch {
        prev: cursor.saturating_sub(place + 1),
        prev_place: u32::try_from(place * cursor).unwrap(),
        tag: u8::try_from(cursor % 7).unwrap(),
        checkpoint: (cursor % 5 == place).then(|| vec![b'r'; usize::try_from(cursor).unwrap()]),
    };
    IndexLine {
        is_event: !cursor.is_multiple_of(3),
        is_quiet: cursor.is_multiple_of(2),
        touches: (0..cursor % 4).map(touch).collect(),
        checkpoint: cursor.is_multiple_of(8).then(|| cursor.to_le_bytes().to_vec()),
    }
}

pub(crate) fn append(log: &mut SessionLog, line: &[u8]) -> u64 {
    let cursor = log.append(line).unwrap();
    log.index(cursor, &indexed(cursor)).unwrap();
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

    pub(crate) fn side_bytes(&self) -> Vec<u8> {
        fs::read(self.file("checkpoints")).unwrap()
    }

    pub(crate) fn open(&self) -> Opened {
        open(&self.dir, self.id)
    }
}

impl Opened {
    pub(crate) fn read(&self) -> Vec<Vec<u8>> {
        self.log.reader().lines().collect::<Result<_, _>>().unwrap()
    }

    /// The lines as they are found by their cursors, in descending order; of each is known what was indexed.
    pub(crate) fn look_up(&self) -> Vec<Vec<u8>> {
        let mut log = self.log.reader().indexed().expect("an index");
        let found = (1..=log.last()).rev().map(|cursor| {
            let expect = indexed(cursor);
            assert_eq!(log.is_event(cursor).unwrap(), expect.is_event);
            assert_eq!(log.is_quiet(cursor).unwrap(), expect.is_quiet);
            assert_eq!(log.checkpoint(cursor).unwrap(), expect.checkpoint);
            for (place, touch) in (0..).zip(&expect.touches) {
                let (prev, prev_place, tag) = (touch.prev, touch.prev_place, touch.tag);
                let stored = StoredTouch { prev, prev_place, tag, is_stored: touch.checkpoint.is_some() };
                assert_eq!(log.touch(cursor, place).unwrap(), Some(stored));
                assert_eq!(log.touch_checkpoint(cursor, place).unwrap(), touch.checkpoint);
            }
            let places = u32::try_from(expect.touches.len()).unwrap();
            assert_eq!(log.touch(cursor, places).unwrap(), None);
            log.line(cursor).unwrap().to_vec()
        });
        found.collect()
    }
}
