use crate::{MAX_LINE_BYTES, decode::notice::NOTICE_HEAD_MAX};

/// Capacity that is kept between lines; more is given back after a long line.
const KEPT_CAPACITY: usize = 64 * 1024;

/// What the framer finds in an agent's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// A line without its newline, at most [`MAX_LINE_BYTES`] long and not blank.
    Whole(&'a [u8]),
    /// A longer one.
    TooLong {
        /// How it begins.
        head: &'a [u8],
        /// Its length.
        bytes: u64,
    },
    /// The output ended inside this line.
    Partial(&'a [u8]),
}

/// Cuts a stream of bytes into lines at 0x0A and nowhere else. Pure: the same lines however the stream is chunked.
#[derive(Debug, Default)]
pub(crate) struct Framer {
    /// The line so far; only its head once it is too long.
    line: Vec<u8>,
    /// Bytes of a line that is too long, so far.
    too_long: Option<u64>,
    /// Whether `line` was given out and is to be forgotten.
    given: bool,
}

impl Framer {
    /// Takes from `chunk` up to the end of a line and returns the line, or all of `chunk` and `None`.
    pub(crate) fn next<'s, 'c: 's>(&'s mut self, chunk: &mut &'c [u8]) -> Option<Line<'s>> {
        self.forget_given();
        loop {
            let Some(end) = memchr::memchr(b'\n', chunk) else {
                self.take(chunk);
                *chunk = &[];
                return None;
            };
            let (rest_of_line, rest) = (&chunk[..end], &chunk[end + 1..]);
            *chunk = rest;
            if self.line.is_empty() && rest_of_line.len() <= MAX_LINE_BYTES {
                if is_blank(rest_of_line) {
                    continue;
                }
                return Some(Line::Whole(rest_of_line));
            }
            self.take(rest_of_line);
            if self.too_long.is_none() && is_blank(&self.line) {
                self.line.clear();
                continue;
            }
            self.given = true;
            return Some(match self.too_long {
                Some(bytes) => Line::TooLong { head: &self.line, bytes },
                None => Line::Whole(&self.line),
            });
        }
    }

    /// What is left when the output has ended.
    pub(crate) fn finish(&mut self) -> Option<Line<'_>> {
        self.forget_given();
        match self.too_long {
            Some(bytes) => Some(Line::TooLong { head: &self.line, bytes }),
            None if is_blank(&self.line) => None,
            None => Some(Line::Partial(&self.line)),
        }
    }

    fn take(&mut self, part: &[u8]) {
        if let Some(bytes) = &mut self.too_long {
            *bytes += part.len() as u64;
        } else if self.line.len() + part.len() > MAX_LINE_BYTES {
            self.too_long = Some((self.line.len() + part.len()) as u64);
            let missing = NOTICE_HEAD_MAX.saturating_sub(self.line.len()).min(part.len());
            self.line.extend_from_slice(&part[..missing]);
            self.line.truncate(NOTICE_HEAD_MAX);
            self.line.shrink_to(KEPT_CAPACITY);
        } else {
            self.line.extend_from_slice(part);
        }
    }

    fn forget_given(&mut self) {
        if std::mem::take(&mut self.given) {
            self.too_long = None;
            self.line.clear();
            self.line.shrink_to(KEPT_CAPACITY);
        }
    }
}

fn is_blank(line: &[u8]) -> bool {
    line.trim_ascii().is_empty()
}

#[cfg(test)]
mod tests;
