use super::{
    Appender, Files, Index, IndexError, IndexLine, IndexPaths, IndexState,
    record::{self, ENTRY, Entry, HEADER, MAGIC, Place},
};
use crate::files;
use maestro_protocol::Cursor;
use std::{
    fs::{File, OpenOptions},
    io::{self, BufReader, Read},
    os::unix::fs::FileExt as _,
    path::Path,
    sync::Arc,
};

/// Brings an index to what its log holds while the log is read once: keeps it as far as it is right, and writes it anew
/// from there.
#[derive(Debug)]
pub(crate) struct Builder {
    paths: IndexPaths,
    known: Known,
    output: Output,
}

#[derive(Debug)]
enum Output {
    /// Nothing had to be written yet.
    Same(Same),
    Writing(Files),
    Failed(io::Error),
}

/// The files as they were found, and how far they are what would be written.
#[derive(Debug)]
struct Same {
    entries: Found,
    sides: Found,
    lines: Cursor,
}

#[derive(Debug)]
struct Found {
    file: Arc<File>,
    reader: BufReader<From>,
    kept: u64,
    scratch: Vec<u8>,
}

/// Reads a file from an offset on, whatever others read or write.
#[derive(Debug)]
struct From {
    file: Arc<File>,
    at: u64,
}

impl Read for From {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let taken = self.file.read_at(buffer, self.at)?;
        self.at += taken as u64;
        Ok(taken)
    }
}

impl Builder {
    /// Looks at what is there. Files that cannot be used turn the index off; they do not hold up the log.
    pub(crate) fn new(paths: IndexPaths) -> Self {
        let (known, output) = match open_both(&paths) {
            Ok((known, output)) => (known, output),
            Err(error) => (Known::nothing(), Output::Failed(error)),
        };
        Self { paths, known, output }
    }

    /// Whether the index knew the line that begins here as another one. Asked once for every line, in order.
    pub(crate) fn contradicts(&mut self, place: &Place) -> bool {
        while let Some(known) = self.known.peek() {
            if known.place.offset > place.offset {
                // No line began here, though one began after it.
                return true;
            }
            self.known.pass();
            if known.place.offset == place.offset {
                return known.is_damaged || known.place != *place;
            }
        }
        false
    }

    /// Adds the next line.
    pub(crate) fn push(&mut self, place: &Place, line: &IndexLine, is_damaged: bool) {
        if let Output::Same(same) = &mut self.output {
            let cursor = same.lines + 1;
            let encoded = record::encode(cursor, place, is_damaged, line, same.sides.kept);
            if let Some((entry, side)) = encoded
                && same.entries.continues_with(&entry)
                && same.sides.continues_with(&side)
            {
                same.entries.kept += entry.len() as u64;
                same.sides.kept += side.len() as u64;
                same.lines = cursor;
                return;
            }
            self.diverge();
        }
        if let Output::Writing(files) = &mut self.output
            && let Err(error) = files.push(place, is_damaged, line)
        {
            self.fail(error);
        }
    }

    /// Cuts what does not belong to the log and hands the index over to the writer of the log.
    pub(crate) fn finish(mut self) -> (Index, IndexState) {
        if let Output::Same(same) = &self.output
            && !(same.entries.ends_here() && same.sides.ends_here())
        {
            self.diverge();
        }
        let off = |source| IndexState::Off(IndexError::File { path: self.paths.entries.clone(), source });
        let (files, state) = match self.output {
            Output::Same(same) => (Some(same.into_files()), IndexState::Kept),
            Output::Writing(mut files) => match files.entries.flush().and_then(|()| files.sides.flush()) {
                Ok(()) => (Some(files), IndexState::Rebuilt),
                Err(source) => {
                    files.entries.abandon();
                    files.sides.abandon();
                    (None, off(source))
                }
            },
            Output::Failed(source) => (None, off(source)),
        };
        (Index::new(self.paths.entries, files), state)
    }

    /// Goes over from comparing to writing.
    fn diverge(&mut self) {
        let placeholder = Output::Failed(io::ErrorKind::Interrupted.into());
        let Output::Same(same) = std::mem::replace(&mut self.output, placeholder) else { return };
        // What was known of later lines is about to be overwritten.
        let cut = self.known.take_over().and_then(|()| same.entries.cut()).and_then(|()| same.sides.cut());
        self.output = match cut {
            Ok(()) => Output::Writing(same.into_files()),
            Err(error) => Output::Failed(error),
        };
    }

    fn fail(&mut self, error: io::Error) {
        if let Output::Writing(files) = std::mem::replace(&mut self.output, Output::Failed(error)) {
            files.entries.abandon();
            files.sides.abandon();
        }
    }
}

/// Opens both files. Unless both are of this version they are begun anew; what the entries say of the lines is heard in
/// any case.
fn open_both(paths: &IndexPaths) -> io::Result<(Known, Output)> {
    let entries = Found::open(&paths.entries)?;
    let sides = Found::open(&paths.sides)?;
    let mut same = Same { entries, sides, lines: 0 };
    let has_entries = same.entries.continues_with(&HEADER);
    let has_sides = same.sides.continues_with(&MAGIC);
    let mut known = if has_entries { Known::of(&same.entries.file) } else { Known::nothing() };
    if has_entries && has_sides {
        same.entries.kept = HEADER.len() as u64;
        same.sides.kept = MAGIC.len() as u64;
        return Ok((known, Output::Same(same)));
    }
    known.take_over()?;
    same.entries.cut()?;
    same.sides.cut()?;
    let mut files = same.into_files();
    files.entries.push(&HEADER)?;
    files.sides.push(&MAGIC)?;
    Ok((known, Output::Writing(files)))
}

impl Same {
    fn into_files(self) -> Files {
        let entries = Appender::new(self.entries.file, self.entries.kept);
        let sides = Appender::new(self.sides.file, self.sides.kept);
        Files { lines: self.lines, entries, sides }
    }
}

impl Found {
    fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let file = files::open_regular(path, options.read(true).write(true).create(true).truncate(false))?;
        let file = Arc::new(file);
        let reader = BufReader::with_capacity(64 * 1024, From { file: Arc::clone(&file), at: 0 });
        Ok(Self { file, reader, kept: 0, scratch: Vec::new() })
    }

    /// Whether these bytes come next; they are passed then. After a `false` it is not asked again.
    fn continues_with(&mut self, bytes: &[u8]) -> bool {
        self.scratch.resize(bytes.len(), 0);
        self.reader.read_exact(&mut self.scratch).is_ok() && self.scratch == bytes
    }

    fn ends_here(&self) -> bool {
        self.file.metadata().is_ok_and(|metadata| metadata.len() == self.kept)
    }

    fn cut(&self) -> io::Result<()> {
        if self.file.metadata()?.len() > self.kept {
            self.file.set_len(self.kept)?;
            // Entries that came back after a loss of power would call lines damaged that are not.
            self.file.sync_all()?;
        }
        Ok(())
    }
}

/// What the entries say of the lines, as far as they are whole.
#[derive(Debug)]
struct Known {
    source: Source,
    /// The last one read.
    cursor: Cursor,
    next: Option<Entry>,
}

#[derive(Debug)]
enum Source {
    Nothing,
    File(BufReader<From>),
    /// The rest of a file that is being overwritten.
    Memory(io::Cursor<Vec<u8>>),
}

impl Known {
    fn nothing() -> Self {
        Self { source: Source::Nothing, cursor: 0, next: None }
    }

    fn of(entries: &Arc<File>) -> Self {
        let from = From { file: Arc::clone(entries), at: record::entry_at(1) };
        let source = Source::File(BufReader::with_capacity(64 * 1024, from));
        Self { source, cursor: 0, next: None }
    }

    fn peek(&mut self) -> Option<Entry> {
        if self.next.is_none() {
            let mut bytes = [0; ENTRY];
            let read = match &mut self.source {
                Source::Nothing => return None,
                Source::File(file) => file.read_exact(&mut bytes),
                Source::Memory(rest) => rest.read_exact(&mut bytes),
            };
            self.cursor += 1;
            self.next = read.ok().and_then(|()| record::decode(self.cursor, &bytes));
            if self.next.is_none() {
                self.source = Source::Nothing;
            }
        }
        self.next
    }

    fn pass(&mut self) {
        self.next = None;
    }

    /// Takes the rest of the file into memory: 32 bytes a line, where an index is damaged in its middle.
    fn take_over(&mut self) -> io::Result<()> {
        if self.peek().is_none() {
            return Ok(());
        }
        if let Source::File(file) = &mut self.source {
            let mut rest = Vec::new();
            file.read_to_end(&mut rest)?;
            self.source = Source::Memory(io::Cursor::new(rest));
        }
        Ok(())
    }
}
