//! A real file that can be told to fail, and that remembers its syncs.

use super::Storage;
use std::{
    fs::File,
    io,
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst},
    },
};

/// What a [`Faulty`] file does. Shared with the test.
#[derive(Debug)]
pub(super) struct Plan {
    /// Bytes from here on find no space.
    pub(super) capacity: AtomicU64,
    /// The most that one write takes.
    pub(super) at_once: AtomicUsize,
    pub(super) set_len_fails: AtomicBool,
    pub(super) sync_fails: AtomicBool,
    /// Syncs that were begun.
    pub(super) syncs: AtomicUsize,
    /// The length of the file at the begin of the last sync that succeeded.
    pub(super) synced: AtomicU64,
    /// While set, a sync meets the test here when it has begun and again before it ends.
    pub(super) gated: AtomicBool,
    pub(super) gate: Barrier,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            capacity: AtomicU64::new(u64::MAX),
            at_once: AtomicUsize::new(usize::MAX),
            set_len_fails: AtomicBool::default(),
            sync_fails: AtomicBool::default(),
            syncs: AtomicUsize::default(),
            synced: AtomicU64::default(),
            gated: AtomicBool::default(),
            gate: Barrier::new(2),
        }
    }
}

#[derive(Debug)]
pub(super) struct Faulty {
    pub(super) file: File,
    pub(super) plan: Arc<Plan>,
}

impl Storage for Faulty {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        Storage::read_at(&self.file, buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let free =
            usize::try_from(self.plan.capacity.load(SeqCst).saturating_sub(offset)).unwrap_or(usize::MAX);
        match bytes.len().min(free).min(self.plan.at_once.load(SeqCst)) {
            0 => Err(io::ErrorKind::StorageFull.into()),
            taken => Storage::write_at(&self.file, &bytes[..taken], offset),
        }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if self.plan.set_len_fails.load(SeqCst) {
            return Err(io::Error::other("set_len fails"));
        }
        Storage::set_len(&self.file, len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.plan.syncs.fetch_add(1, SeqCst);
        let len = self.file.metadata()?.len();
        if self.plan.gated.load(SeqCst) {
            self.plan.gate.wait();
            self.plan.gate.wait();
        }
        if self.plan.sync_fails.load(SeqCst) {
            return Err(io::Error::other("sync fails"));
        }
        self.plan.synced.store(len, SeqCst);
        Ok(())
    }
}
