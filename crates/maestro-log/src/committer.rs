//! The one thread that makes appended lines durable.

use crate::log::Shared;
use std::{
    fmt,
    future::Future,
    io,
    path::PathBuf,
    pin::Pin,
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    task::{Context, Poll},
    thread::{self, JoinHandle},
};
use thiserror::Error;
use tokio::sync::oneshot;

/// Flushes that can wait for the thread. Every session waits for its own flushes, so this many come only from as many
/// sessions at once; then the next one blocks for the time of one `fdatasync`, which is how the disk slows sessions.
const QUEUE: usize = 1024;

/// A log that can no longer be trusted to keep what it is given: every later append and flush of it is refused.
///
/// After a failed `fdatasync` the kernel may have thrown the data away, so a second one that succeeds proves nothing.
#[derive(Debug, Clone, Error)]
#[error("{fault} the event log {}; check the disk, then restart the session", path.display())]
pub struct Poisoned {
    /// What failed first.
    pub(crate) fault: Fault,
    pub(crate) path: PathBuf,
    #[source]
    pub(crate) source: Arc<io::Error>,
}

/// The step that poisoned a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Flush,
    RollBack,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flush => "the disk did not confirm what was written to",
            Self::RollBack => "a failed write could not be undone in",
        })
    }
}

/// The thread could not be started.
#[derive(Debug, Error)]
#[error("the thread that flushes the event logs cannot be started; raise the limit on processes")]
pub struct StartCommitterError(#[source] io::Error);

/// A handle to the thread. The last one to be dropped waits until everything that was asked for is on disk.
///
/// The thread never delays a flush to gather more: what arrives while it syncs makes the next group, and a group costs
/// one `fdatasync` per log that has lines which none has covered yet (CONTRACT §5.3).
#[derive(Debug, Clone)]
pub struct Committer(Arc<Worker>);

#[derive(Debug)]
struct Worker {
    requests: Option<SyncSender<Request>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Request {
    log: Arc<Shared>,
    waiter: oneshot::Sender<Result<(), Poisoned>>,
}

/// Resolves when an `fdatasync` that began after the flush was asked for has succeeded, or has failed. It may be
/// dropped: the flush happens all the same.
#[derive(Debug)]
#[must_use = "nothing is known to be on disk before this resolves"]
pub struct Ticket {
    answer: oneshot::Receiver<Result<(), Poisoned>>,
    log: Arc<Shared>,
}

impl Committer {
    /// Starts the thread.
    pub fn start() -> Result<Self, StartCommitterError> {
        let (requests, queue) = sync_channel(QUEUE);
        let thread = thread::Builder::new()
            .name("log-committer".into())
            .spawn(move || serve(&queue))
            .map_err(StartCommitterError)?;
        Ok(Self(Arc::new(Worker { requests: Some(requests), thread: Some(thread) })))
    }

    pub(crate) fn flush(&self, log: &Arc<Shared>) -> Ticket {
        let (waiter, answer) = oneshot::channel();
        let request = Request { log: Arc::clone(log), waiter };
        if let Some(requests) = &self.0.requests {
            // A thread that is gone drops the request and with it the waiter: the ticket then says so.
            drop(requests.send(request));
        }
        Ticket { answer, log: Arc::clone(log) }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            // It ends by itself; had it panicked, its waiters have been told and the panic has been printed.
            drop(thread.join());
        }
    }
}

impl Future for Ticket {
    type Output = Result<(), Poisoned>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = Pin::new(&mut self.answer).poll(context);
        answer.map(|answer| {
            answer.unwrap_or_else(|gone| Err(self.log.poison(Fault::Flush, io::Error::other(gone))))
        })
    }
}

fn serve(queue: &Receiver<Request>) {
    while let Ok(first) = queue.recv() {
        let mut group = vec![first];
        group.extend(queue.try_iter().take(QUEUE));
        commit(group);
    }
}

/// Syncs each log of a group once and answers all who wait for it.
fn commit(mut group: Vec<Request>) {
    group.sort_by_key(|request| Arc::as_ptr(&request.log));
    let mut synced: Option<(Arc<Shared>, Result<(), Poisoned>)> = None;
    for Request { log, waiter } in group {
        let result = match synced.take() {
            Some((last, result)) if Arc::ptr_eq(&last, &log) => result,
            _ => log.sync(),
        };
        synced = Some((log, result.clone()));
        // Whoever dropped its ticket does not want the answer.
        drop(waiter.send(result));
    }
}
