use std::{fs::File, io, os::unix::fs::FileExt as _, sync::Arc};

/// How much is gathered before it is written, in bytes: a few hundred lines. What a crash takes of it is rebuilt.
const BUFFER: usize = 8 * 1024;

/// How much may wait while the disk is full, in bytes. A log on the same disk takes no lines then either, so this is for
/// a little less space than both need.
const PENDING_MAX: usize = 1024 * 1024;

/// A file that only grows, with what is not written of it yet.
#[derive(Debug)]
pub(crate) struct Appender {
    file: Arc<File>,
    written: u64,
    pending: Vec<u8>,
}

/// What an [`Appender`] held at some moment.
#[derive(Debug, Clone)]
pub(crate) struct Grown {
    file: Arc<File>,
    written: u64,
    pending: Vec<u8>,
}

impl Appender {
    /// Goes on at `written`.
    pub(crate) fn new(file: Arc<File>, written: u64) -> Self {
        Self { file, written, pending: Vec::new() }
    }

    /// The length with all that was pushed.
    pub(crate) fn len(&self) -> u64 {
        self.written + self.pending.len() as u64
    }

    /// Adds bytes. A failed write is tried again at the next one, until too much waits.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.pending.extend_from_slice(bytes);
        if self.pending.len() < BUFFER {
            return Ok(());
        }
        self.flush().or_else(|error| if self.pending.len() > PENDING_MAX { Err(error) } else { Ok(()) })
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.file.write_all_at(&self.pending, self.written)?;
        self.written += self.pending.len() as u64;
        self.pending.clear();
        self.pending.shrink_to(BUFFER);
        Ok(())
    }

    /// Forgets what is not written.
    pub(crate) fn abandon(mut self) {
        self.pending.clear();
    }

    pub(crate) fn grown(&self) -> Grown {
        Grown { file: Arc::clone(&self.file), written: self.written, pending: self.pending.clone() }
    }
}

impl Drop for Appender {
    fn drop(&mut self) {
        if self.flush().is_err() {
            // What is missing is rebuilt when the log is opened next.
        }
    }
}

impl Grown {
    /// Whether so many bytes at `offset` are in it.
    pub(crate) fn holds(&self, offset: u64, len: u64) -> bool {
        offset.checked_add(len).is_some_and(|end| end <= self.written + self.pending.len() as u64)
    }

    /// Fills `buffer` with what is at `offset`.
    pub(crate) fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let in_file =
            usize::try_from(self.written.saturating_sub(offset)).unwrap_or(usize::MAX).min(buffer.len());
        let (of_file, of_pending) = buffer.split_at_mut(in_file);
        self.file.read_exact_at(of_file, offset)?;
        let skipped = usize::try_from(offset.saturating_sub(self.written)).unwrap_or(usize::MAX);
        let pending = self.pending.get(skipped..).and_then(|rest| rest.get(..of_pending.len()));
        let pending = pending.ok_or(io::ErrorKind::UnexpectedEof)?;
        of_pending.copy_from_slice(pending);
        Ok(())
    }
}
