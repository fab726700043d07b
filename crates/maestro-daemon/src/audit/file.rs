//! `audit.jsonl`: what is in it, and the one thread that adds to it.

use super::{
    Note, Word,
    chain::{Pager, Tip},
    pace::Pace,
};
use maestro_protocol::{AuditEntry, AuditEvent, AuditPage, Cursor};
use std::{
    fs::{File, OpenOptions},
    io::{self, BufRead as _, BufReader},
    os::unix::fs::{FileExt as _, OpenOptionsExt as _},
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};
use tokio::sync::mpsc::Receiver;

/// Notes written with one write.
const BATCH: usize = 256;

/// The writer of an audit log.
#[derive(Debug)]
pub(super) struct AuditFile {
    file: File,
    len: u64,
    tip: Tip,
}

impl AuditFile {
    /// Opens the log, or begins it. A last line that a crash cut short is closed, and stays a broken one.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        let mut tip = Tip::default();
        let mut len = 0;
        let mut is_whole = true;
        for_each_line(&file, |line, ends| {
            // What does not follow is for readers to find; what is written goes on from the last line as it is.
            drop(tip.pass(line));
            len += line.len() as u64 + u64::from(ends);
            is_whole = ends;
            true
        })?;
        if !is_whole {
            file.write_all_at(b"\n", len)?;
            len += 1;
        }
        Ok(Self { file, len, tip })
    }

    /// Adds notes, all or none, and puts them on the disk.
    fn append(&mut self, notes: Vec<Note>) -> io::Result<()> {
        let mut tip = self.tip.clone();
        let mut text = Vec::new();
        for Note { at, account, event } in notes {
            text.extend(tip.add(AuditEntry { number: tip.next(), at, account, event }));
        }
        if let Err(error) = self.file.write_all_at(&text, self.len) {
            self.file.set_len(self.len)?;
            return Err(error);
        }
        (self.len, self.tip) = (self.len + text.len() as u64, tip);
        self.file.sync_data()
    }
}

/// Goes over the lines of a file from its beginning, each with whether it ends in a newline, while `take` wants more.
fn for_each_line(file: &File, mut take: impl FnMut(&[u8], bool) -> bool) -> io::Result<()> {
    let mut reader = BufReader::with_capacity(64 * 1024, file);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        let ends = line.pop_if(|byte| *byte == b'\n').is_some();
        if !take(&line, ends) {
            return Ok(());
        }
        line.clear();
    }
    Ok(())
}

/// The account's entries before a number. Reads the log from its beginning.
pub(super) fn page(path: &Path, account: &str, before: Cursor, limit: usize) -> io::Result<AuditPage> {
    let mut pager = Pager::new(account, before, limit);
    for_each_line(&File::open(path)?, |line, _ends| pager.take(line))?;
    Ok(pager.page())
}

/// Writes what is noted until it is told to end. What the disk refuses is counted, and the count written when it takes
/// lines again: the daemon never waits for its audit log.
pub(super) fn serve(mut file: AuditFile, mut words: Receiver<Word>, lost: &AtomicU64) {
    let mut pace = Pace::default();
    let mut is_refused = false;
    let mut ends = false;
    while !ends && let Some(first) = words.blocking_recv() {
        let (mut batch, mut asking) = (Vec::new(), Vec::new());
        let mut next = Some(first);
        while let Some(word) = next {
            match word {
                Word::Note(note) => batch.extend(pace.admit(note)),
                Word::Tell(told) => asking.push(told),
                Word::End => ends = true,
            }
            next = if ends || batch.len() == BATCH { None } else { words.try_recv().ok() };
        }
        write(&mut file, batch, &mut pace, lost, &mut is_refused);
        for told in asking {
            if told.send(()).is_err() {
                tracing::trace!("A reader of the audit log left before its newest entries were written");
            }
        }
    }
}

/// Writes a batch, with the count of what is missing before it.
fn write(file: &mut AuditFile, batch: Vec<Note>, pace: &mut Pace, lost: &AtomicU64, is_refused: &mut bool) {
    let Some(last) = batch.last() else { return };
    let missing = pace.take_left_out() + lost.swap(0, Ordering::Relaxed);
    let told = (missing > 0).then(|| Note { event: AuditEvent::LeftOut { count: missing }, ..last.clone() });
    let count = batch.len() as u64;
    match file.append(told.into_iter().chain(batch).collect()) {
        Ok(()) => *is_refused = false,
        Err(error) => {
            pace.leave_out(missing + count);
            if !std::mem::replace(is_refused, true) {
                tracing::error!(
                    "The audit log cannot be written, its entries are counted meanwhile: {error}"
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{AuditFile, page};
    use crate::audit::Note;
    use maestro_protocol::{AuditEvent, AuditPage, Timestamp};
    use std::{fs, path::Path};

    fn note(file: &mut AuditFile, count: u64) {
        let at = Timestamp::from_millisecond(0);
        let note = Note { at, account: "a@x".into(), event: AuditEvent::LeftOut { count } };
        file.append(vec![note.clone(), note]).expect("written");
    }

    fn read(path: &Path) -> AuditPage {
        page(path, "a@x", u64::MAX, 100).expect("a page")
    }

    #[test]
    fn a_log_goes_on_where_it_ended() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("audit.jsonl");
        for count in 1..4 {
            note(&mut AuditFile::open(&path).expect("open"), count);
        }
        let page = read(&path);
        let numbers: Vec<u64> = page.entries.iter().map(|entry| entry.number).collect();
        assert_eq!((numbers.as_slice(), page.broken_line), ([1, 2, 3, 4, 5, 6].as_slice(), None));
    }

    /// Every place at which a crash can cut the last write.
    #[test]
    fn a_line_that_was_cut_short_is_broken_and_no_other_is_lost() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("audit.jsonl");
        note(&mut AuditFile::open(&path).expect("open"), 1);
        let whole = fs::read(&path).expect("a log");
        let first = whole.iter().position(|byte| *byte == b'\n').expect("a line") + 1;
        for cut in first..whole.len() {
            fs::write(&path, &whole[..cut]).expect("written");
            note(&mut AuditFile::open(&path).expect("open"), 2);
            let page = read(&path);
            let is_whole = cut == first || cut == whole.len() - 1;
            assert_eq!(page.broken_line, (!is_whole).then_some(2), "cut at {cut}");
            let kept = if cut == whole.len() - 1 { 4 } else { 3 };
            assert_eq!(page.entries.len(), kept, "cut at {cut}");
        }
    }
}
