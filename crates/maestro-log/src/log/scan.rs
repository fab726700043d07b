use super::Shared;
use std::{
    io::{self, BufRead as _, BufReader, Read},
    path::Path,
    sync::Arc,
};

/// How much is read at once, in bytes.
const CHUNK: usize = 128 * 1024;

/// Finds the lines in the first bytes of a log.
#[derive(Debug)]
pub(crate) struct Scanner {
    section: BufReader<Section>,
    offset: u64,
    line: Vec<u8>,
}

/// A line as it was found.
#[derive(Debug)]
pub(crate) struct Found<'a> {
    pub(crate) offset: u64,
    /// Without its newline.
    pub(crate) line: &'a [u8],
    /// The section ended before a newline.
    pub(crate) torn: bool,
}

/// The bytes of a log from `at` to `end`.
#[derive(Debug)]
struct Section {
    log: Arc<Shared>,
    at: u64,
    end: u64,
}

impl Scanner {
    pub(crate) fn new(log: Arc<Shared>, end: u64) -> Self {
        let section = BufReader::with_capacity(CHUNK, Section { log, at: 0, end });
        Self { section, offset: 0, line: Vec::new() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.section.get_ref().log.path()
    }

    pub(crate) fn next_line(&mut self) -> io::Result<Option<Found<'_>>> {
        self.line.clear();
        let taken = self.section.read_until(b'\n', &mut self.line)?;
        if taken == 0 {
            return Ok(None);
        }
        let offset = self.offset;
        self.offset += taken as u64;
        let whole = self.line.strip_suffix(b"\n");
        Ok(Some(Found { offset, line: whole.unwrap_or(&self.line), torn: whole.is_none() }))
    }
}

impl Read for Section {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
        let wanted = buffer.len().min(left);
        if wanted == 0 {
            return Ok(0);
        }
        match self.log.read_at(&mut buffer[..wanted], self.at)? {
            // Ending here would show part of a line as a whole one.
            0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file became shorter")),
            taken => {
                self.at += taken as u64;
                Ok(taken)
            }
        }
    }
}
