use super::{
    BUFFER, Index, IndexError, IndexState, Touch,
    record::{self, HEADER, Place, Record},
};
use crate::files;
use std::{
    fs::{File, OpenOptions},
    io::{self, BufWriter, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

/// Brings an index to what its log holds while the log is read once: keeps it as far as it is right, and writes it anew
/// from there.
#[derive(Debug)]
pub(crate) struct Builder {
    path: PathBuf,
    /// The file as it was found; empty if it is no index of this version.
    old: Vec<u8>,
    /// How far `old` was consulted about the lines of the log.
    judged: usize,
    /// How far `old` is what would be written.
    kept: usize,
    output: Output,
    scratch: Vec<u8>,
}

#[derive(Debug)]
enum Output {
    /// Nothing had to be written yet.
    Same(File),
    Writing(BufWriter<File>),
    Failed(io::Error),
}

impl Builder {
    /// Reads what is there. A file that cannot be used turns the index off; it does not hold up the log.
    pub(crate) fn new(path: PathBuf) -> Self {
        let (old, output) = match read(&path) {
            Ok((old, file)) => (old, Output::Same(file)),
            Err(error) => (Vec::new(), Output::Failed(error)),
        };
        let mut builder = Self { path, judged: 0, kept: 0, old, output, scratch: Vec::new() };
        if builder.old.starts_with(&HEADER) {
            (builder.judged, builder.kept) = (HEADER.len(), HEADER.len());
        } else {
            builder.old.clear();
            builder.scratch.extend(HEADER);
            builder.put();
        }
        builder
    }

    /// Whether the index knew the line that begins here as another one. Asked once for every line, in order.
    pub(crate) fn contradicts(&mut self, place: &Place) -> bool {
        let mut known_as_damaged = false;
        while let Some((record, size)) = record::decode(&self.old[self.judged..]) {
            match record {
                // No line began here, though one began after it.
                Record::Line(known) if known.offset > place.offset => return true,
                Record::Line(known) if known.offset == place.offset => {
                    self.judged += size;
                    return known_as_damaged || known != *place;
                }
                Record::Damage(offset) => known_as_damaged |= offset == place.offset,
                Record::Line(_) | Record::Other => {}
            }
            self.judged += size;
        }
        known_as_damaged
    }

    /// Adds the next line.
    pub(crate) fn push(&mut self, place: &Place, touches: &[Touch], damaged: bool) {
        self.scratch.clear();
        if damaged {
            record::encode_damage(&mut self.scratch, place.offset);
        }
        record::encode_line(&mut self.scratch, place, touches);
        self.put();
    }

    /// Cuts what does not belong to the log and hands the index over to the writer of the log.
    pub(crate) fn finish(mut self) -> (Index, IndexState) {
        if matches!(self.output, Output::Same(_)) && self.kept < self.old.len() {
            self.diverge();
        }
        let (file, state) = match self.output {
            Output::Same(mut file) => match file.seek(SeekFrom::Start(self.kept as u64)) {
                Ok(_) => (Some(BufWriter::with_capacity(BUFFER, file)), IndexState::Kept),
                Err(source) => (None, IndexState::Off(IndexError::File { path: self.path.clone(), source })),
            },
            Output::Writing(mut file) => match file.flush() {
                Ok(()) => (Some(file), IndexState::Rebuilt),
                Err(source) => {
                    drop(file.into_parts());
                    (None, IndexState::Off(IndexError::File { path: self.path.clone(), source }))
                }
            },
            Output::Failed(source) => {
                (None, IndexState::Off(IndexError::File { path: self.path.clone(), source }))
            }
        };
        (Index::new(self.path, file), state)
    }

    fn put(&mut self) {
        if matches!(self.output, Output::Same(_)) {
            while let Some((Record::Other, size)) = record::decode(&self.old[self.kept..]) {
                self.kept += size;
            }
            if self.old[self.kept..].starts_with(&self.scratch) {
                self.kept += self.scratch.len();
                return;
            }
            self.diverge();
        }
        if let Output::Writing(file) = &mut self.output
            && let Err(error) = file.write_all(&self.scratch)
        {
            self.output = Output::Failed(error);
        }
    }

    /// Goes over from comparing to writing.
    fn diverge(&mut self) {
        let Output::Same(file) = &self.output else { return };
        let cut = || {
            let mut file = file.try_clone()?;
            let was = file.metadata()?.len();
            file.set_len(self.kept as u64)?;
            if was > self.kept as u64 {
                // Entries that came back after a loss of power would call lines damaged that are not.
                file.sync_all()?;
            }
            file.seek(SeekFrom::Start(self.kept as u64))?;
            Ok(BufWriter::with_capacity(BUFFER, file))
        };
        self.output = match cut() {
            Ok(file) => Output::Writing(file),
            Err(error) => Output::Failed(error),
        };
    }
}

fn read(path: &Path) -> io::Result<(Vec<u8>, File)> {
    let mut options = OpenOptions::new();
    let mut file = files::open_regular(path, options.read(true).write(true).create(true).truncate(false))?;
    let mut old = Vec::new();
    file.read_to_end(&mut old)?;
    Ok((old, file))
}
