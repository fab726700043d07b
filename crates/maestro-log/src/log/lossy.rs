//! A file whose page cache and disk are two things, as the kernel keeps them: a sync that fails leaves what it should have
//! written readable, clean, and not on the disk.

use super::Storage;
use std::{
    fs::File,
    io,
    sync::{Arc, Mutex},
};

/// What would be left after a loss of power. Outlives the openings of the file.
#[derive(Debug, Default)]
pub(super) struct Disk {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    bytes: Vec<u8>,
    /// Written since the last sync, whether that failed or not.
    dirty: Vec<(usize, Vec<u8>)>,
    sync_fails: bool,
}

impl Disk {
    pub(super) fn bytes(&self) -> Vec<u8> {
        self.state.lock().unwrap().bytes.clone()
    }

    pub(super) fn fail_syncs(&self, fail: bool) {
        self.state.lock().unwrap().sync_fails = fail;
    }
}

#[derive(Debug)]
pub(super) struct Lossy {
    pub(super) cache: File,
    pub(super) disk: Arc<Disk>,
}

impl Storage for Lossy {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        Storage::read_at(&self.cache, buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let taken = Storage::write_at(&self.cache, bytes, offset)?;
        let mut state = self.disk.state.lock().unwrap();
        state.dirty.push((usize::try_from(offset).unwrap(), bytes[..taken].to_vec()));
        Ok(taken)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        Storage::set_len(&self.cache, len)
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.disk.state.lock().unwrap();
        let dirty = std::mem::take(&mut state.dirty);
        if state.sync_fails {
            return Err(io::Error::from_raw_os_error(rustix::io::Errno::IO.raw_os_error()));
        }
        for (offset, bytes) in dirty {
            let end = offset + bytes.len();
            if state.bytes.len() < end {
                state.bytes.resize(end, 0);
            }
            state.bytes[offset..end].copy_from_slice(&bytes);
        }
        Ok(())
    }
}

mod tests {
    use super::*;
    use crate::{
        committer::{Committer, Poisoned, Ticket},
        index::{IndexLine, IndexPaths},
        log::{AppendError, OpenReport, Paths, SessionLog, open},
    };
    use std::{fs::OpenOptions, path::Path};

    fn wait(ticket: Ticket) -> Result<(), Poisoned> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(ticket)
    }

    fn open_at(dir: &Path, disk: &Arc<Disk>, doubtful_from: Option<u64>) -> (SessionLog, OpenReport) {
        let path = dir.join("log");
        let cache =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).unwrap();
        let len = cache.metadata().unwrap().len();
        let mut file: Box<dyn Storage> = Box::new(Lossy { cache, disk: Arc::clone(disk) });
        if let Some(from) = doubtful_from {
            file = open::settle_doubt(file, from, len, &path).unwrap();
        }
        let index = IndexPaths { entries: dir.join("index"), sides: dir.join("checkpoints") };
        let paths = Paths { log: path, index };
        open::load(file, len, paths, Committer::start().unwrap(), |_, _| IndexLine::default()).unwrap()
    }

    /// After a failed sync nothing is acknowledged until the log was opened anew, and then everything that is
    /// acknowledged is on the disk, what the failed sync lost included.
    #[test]
    fn a_log_opened_anew_after_a_failed_sync_puts_on_disk_what_that_lost() {
        let (dir, disk) = (tempfile::tempdir().unwrap(), Arc::default());
        let (mut log, _) = open_at(dir.path(), &disk, None);
        log.append(b"kept").unwrap();
        wait(log.flush()).unwrap();
        assert_eq!(log.doubtful_from(), None);
        log.append(b"lost by the sync").unwrap();
        disk.fail_syncs(true);
        assert!(wait(log.flush()).is_err());
        disk.fail_syncs(false);
        assert!(matches!(log.append(b"refused"), Err(AppendError::Lost(_))));
        assert!(wait(log.flush()).is_err(), "a second sync would succeed and prove nothing");
        assert_eq!(disk.bytes(), b"kept\n");
        let doubtful_from = log.doubtful_from();
        assert_eq!(doubtful_from, Some(5));
        drop(log);

        let (mut log, report) = open_at(dir.path(), &disk, doubtful_from);
        assert_eq!(report.lines, 2);
        log.append(b"new").unwrap();
        wait(log.flush()).unwrap();
        assert_eq!(disk.bytes(), b"kept\nlost by the sync\nnew\n");
    }

    /// The same without the doubt: why it is kept.
    #[test]
    fn a_second_sync_alone_does_not_bring_back_what_the_first_lost() {
        let (dir, disk) = (tempfile::tempdir().unwrap(), Arc::default());
        let (mut log, _) = open_at(dir.path(), &disk, None);
        log.append(b"lost by the sync").unwrap();
        disk.fail_syncs(true);
        assert!(wait(log.flush()).is_err());
        disk.fail_syncs(false);
        drop(log);
        let (log, report) = open_at(dir.path(), &disk, None);
        assert_eq!(report.lines, 1, "it can be read");
        wait(log.flush()).unwrap();
        assert_eq!(disk.bytes(), b"", "and is not on the disk");
    }
}
