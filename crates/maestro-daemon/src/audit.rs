//! The audit log: what was done for whom, and what was refused (CONTRACT §12.1).
//!
//! *Is*: the notes that the rest of the daemon makes, the file, its chain of hashes, pages of it.
//!
//! *Invariants*: nothing waits for it; what it cannot hold is counted; a line that was changed is found by its
//! successor.
//!
//! *Not here*: who may read it.

mod chain;
mod file;
mod pace;

use crate::clock::Clock;
use file::AuditFile;
use maestro_protocol::{AuditEvent, AuditPage, AuditQuery, Cursor, Timestamp};
use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

/// Notes that may wait for the disk. More come only while it stands still; they are counted.
const WAITING: usize = 1024;

/// How long a reader waits for the newest entries.
const WRITING_TIME: Duration = Duration::from_secs(2);

/// Entries of a page, unless its query says otherwise, and the most.
const LIMIT: usize = 100;
const LIMIT_MAX: u64 = 500;

/// What is to be written.
#[derive(Debug, Clone)]
struct Note {
    at: Timestamp,
    account: String,
    event: AuditEvent,
}

/// What the thread is told.
#[derive(Debug)]
enum Word {
    Note(Note),
    /// Say when what was noted before is written, or will not be.
    Tell(oneshot::Sender<()>),
    /// Write what was noted before, and end.
    End,
}

/// Notes, and reads. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Audit {
    words: mpsc::Sender<Word>,
    /// Notes that found no place.
    lost: Arc<AtomicU64>,
    path: Arc<PathBuf>,
    clock: Arc<dyn Clock>,
}

impl fmt::Debug for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Audit").finish_non_exhaustive()
    }
}

/// The thread that writes.
#[derive(Debug)]
pub(crate) struct AuditThread {
    words: mpsc::Sender<Word>,
    thread: JoinHandle<()>,
}

impl AuditThread {
    /// Waits until everything that was noted is written. What is noted later is lost. Blocks.
    pub(crate) fn end(self) {
        let told = self.words.blocking_send(Word::End);
        if told.is_err() || self.thread.join().is_err() {
            tracing::error!("The audit log's thread broke off");
        }
    }
}

impl Audit {
    /// Opens the log at `path`.
    pub(crate) fn open(path: &Path, clock: Arc<dyn Clock>) -> io::Result<(Self, AuditThread)> {
        let file = AuditFile::open(path)?;
        let (words, waiting) = mpsc::channel(WAITING);
        let lost = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&lost);
        let serve = move || file::serve(file, waiting, &counted);
        let thread = thread::Builder::new().name("audit".into()).spawn(serve)?;
        let ending = AuditThread { words: words.clone(), thread };
        Ok((Self { words, lost, path: Arc::new(path.into()), clock }, ending))
    }

    /// Notes what was done for an account.
    pub(crate) fn note(&self, account: &str, event: AuditEvent) {
        let note = Note { at: self.clock.now(), account: account.into(), event };
        if self.words.try_send(Word::Note(note)).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until what was noted before is written, so that a reader sees what it has just done. A disk that stands still
    /// is not waited for.
    pub(crate) async fn written(&self) {
        let (told, written) = oneshot::channel();
        let asking = async {
            if self.words.send(Word::Tell(told)).await.is_ok() {
                // A thread that ends drops the question, and then there is nothing to wait for.
                drop(written.await);
            }
        };
        if timeout(WRITING_TIME, asking).await.is_err() {
            tracing::warn!("The audit log is read without its newest entries: the disk takes long");
        }
    }

    /// A page of the account's entries. Blocks on the disk.
    pub(crate) fn page(&self, account: &str, query: AuditQuery) -> io::Result<AuditPage> {
        let limit =
            query.limit.map_or(LIMIT, |limit| usize::try_from(limit.clamp(1, LIMIT_MAX)).unwrap_or(LIMIT));
        file::page(&self.path, account, query.before.unwrap_or(Cursor::MAX), limit)
    }
}
