use crate::committer::{Fault, Poisoned};
use std::{
    fmt,
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

/// How much is written anew at once, in bytes.
const ANEW_BYTES: usize = 64 * 1024;

/// The operations that a log needs of its file. Offsets are explicit, so that a line begins exactly where the good
/// length ends, whatever an earlier write left behind.
pub(crate) trait Storage: fmt::Debug + Send + Sync {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;
    fn set_len(&self, len: u64) -> io::Result<()>;
    fn sync_data(&self) -> io::Result<()>;
}

impl Storage for File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        std::os::unix::fs::FileExt::read_at(self, buffer, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        std::os::unix::fs::FileExt::write_at(self, bytes, offset)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        File::set_len(self, len)
    }
    fn sync_data(&self) -> io::Result<()> {
        File::sync_data(self)
    }
}

/// What the writer of a log, its readers and the committer share. Only the writer writes and publishes, only the
/// committer syncs.
#[derive(Debug)]
pub(crate) struct Shared {
    file: Box<dyn Storage>,
    path: PathBuf,
    /// All bytes below are whole lines and never change.
    good_len: AtomicU64,
    /// All bytes below were covered by a sync of this opening of the file. What an earlier process wrote is not known
    /// to be on disk, so this begins at 0.
    synced_len: AtomicU64,
    poisoned: OnceLock<Poisoned>,
}

impl Shared {
    pub(crate) fn new(file: Box<dyn Storage>, path: PathBuf, good_len: u64) -> Self {
        let (good_len, synced_len) = (AtomicU64::new(good_len), AtomicU64::new(0));
        Self { file, path, good_len, synced_len, poisoned: OnceLock::new() }
    }

    pub(crate) fn into_file(self) -> Box<dyn Storage> {
        self.file
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn good_len(&self) -> u64 {
        self.good_len.load(Ordering::Acquire)
    }

    /// Lets readers see everything below `len`.
    pub(crate) fn publish(&self, len: u64) {
        self.good_len.store(len, Ordering::Release);
    }

    pub(crate) fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    /// Writes with one call, or with more where the system takes only a part: the call after a part is the one that says
    /// why.
    pub(crate) fn write_all_at(&self, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.file.write_at(bytes, offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(taken) => {
                    bytes = &bytes[taken..];
                    offset += taken as u64;
                }
                Err(again) if again.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    pub(crate) fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    /// Puts every published line on disk; free of charge if a sync covered them all already.
    pub(crate) fn sync(&self) -> Result<(), Poisoned> {
        if let Some(poisoned) = self.poisoned() {
            return Err(poisoned);
        }
        let len = self.good_len();
        if self.synced_len.load(Ordering::Relaxed) < len {
            self.file.sync_data().map_err(|error| self.poison(Fault::Flush, error))?;
            self.synced_len.store(len, Ordering::Relaxed);
        }
        Ok(())
    }

    /// See the field.
    pub(crate) fn synced_len(&self) -> u64 {
        self.synced_len.load(Ordering::Relaxed)
    }

    /// Writes everything from `from` to `end` anew, as it reads, so that the next sync puts it on the disk whatever an
    /// earlier one that failed did with it.
    pub(crate) fn write_anew(&self, from: u64, end: u64) -> io::Result<()> {
        let mut buffer = vec![0; ANEW_BYTES];
        let mut at = from;
        while at < end {
            let wanted = usize::try_from(end - at).unwrap_or(ANEW_BYTES).min(ANEW_BYTES);
            match self.read_at(&mut buffer[..wanted], at)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                taken => {
                    self.write_all_at(&buffer[..taken], at)?;
                    at += taken as u64;
                }
            }
        }
        Ok(())
    }

    pub(crate) fn poisoned(&self) -> Option<Poisoned> {
        self.poisoned.get().cloned()
    }

    /// Closes the log for good. The first reason stays.
    pub(crate) fn poison(&self, fault: Fault, source: io::Error) -> Poisoned {
        let poisoned = || Poisoned { fault, path: self.path.clone(), source: Arc::new(source) };
        self.poisoned.get_or_init(poisoned).clone()
    }
}
