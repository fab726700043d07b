//! A reader of sockets that costs next to nothing: it looks for stamps in what comes and reads nothing else of it.

use crate::{agent::now_ns, stats::number};
use anyhow::{Context as _, Result, bail};
use std::{path::Path, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
    process::ChildStdout,
    time::{Instant, timeout_at},
};

const BUFFER: usize = 256 * 1024;

/// A socket on a stream of chunks.
pub(crate) struct Eye {
    stream: Box<dyn AsyncRead + Send + Unpin>,
    buffer: Vec<u8>,
    /// Takes the heads of WebSocket frames out; a message may come in several. A pipe has none.
    frames: Option<Frames>,
    /// What is read and not looked at yet: the start of a stamp whose end has not come.
    text: Vec<u8>,
    /// Stamps grow, so that one that comes again is seen to be old.
    newest: u64,
    /// Whether the time of each chunk is kept, or only their number.
    keeps_times: bool,
    pub(crate) seen: Seen,
}

/// What an eye has seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) chunks: u64,
    pub(crate) bytes: u64,
    /// Microseconds from a chunk's stamp until it was read here.
    pub(crate) times_us: Vec<f64>,
}

impl Eye {
    /// On a session of a daemon. Chunks stamped before this moment are not counted.
    pub(crate) async fn of_session(socket: &Path, id: &str, query: &str) -> Result<Self> {
        let mut stream = UnixStream::connect(socket).await.context("no connection to the daemon")?;
        let head = format!(
            "GET /api/structured/{id}{query} HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\n\
             upgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await?;
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            answer.push(stream.read_u8().await.context("the daemon closed")?);
        }
        if !answer.starts_with(b"HTTP/1.1 101") {
            bail!("no socket: {}", String::from_utf8_lossy(&answer));
        }
        Ok(Self { frames: Some(Frames::default()), ..Self::new(stream) })
    }

    /// On the bare relay.
    pub(crate) async fn of_relay(socket: &Path) -> Result<Self> {
        let stream = UnixStream::connect(socket).await.context("no connection to the relay")?;
        Ok(Self { frames: Some(Frames::default()), ..Self::new(stream) })
    }

    /// On an agent's own pipe.
    pub(crate) fn of_pipe(output: ChildStdout) -> Self {
        Self::new(output)
    }

    fn new(stream: impl AsyncRead + Send + Unpin + 'static) -> Self {
        Self {
            stream: Box::new(stream),
            buffer: vec![0; BUFFER],
            frames: None,
            text: Vec::new(),
            newest: now_ns(),
            keeps_times: false,
            seen: Seen::default(),
        }
    }

    pub(crate) fn keep_times(mut self) -> Self {
        self.keeps_times = true;
        self
    }

    /// Reads until so many chunks were seen, or the time is over.
    pub(crate) async fn follow(&mut self, chunks: u64, limit: Duration) -> Result<()> {
        let end = Instant::now() + limit;
        while self.seen.chunks < chunks {
            let read = timeout_at(end, self.stream.read(&mut self.buffer)).await;
            let Ok(read) = read else { return Ok(()) };
            match read.context("the socket broke")? {
                0 => bail!("the socket closed after {} of {chunks} chunks", self.seen.chunks),
                read => self.take(read),
            }
        }
        Ok(())
    }

    /// Reads until anything comes, and returns the number of bytes.
    pub(crate) async fn first_bytes(&mut self) -> Result<usize> {
        Ok(self.stream.read(&mut self.buffer).await?)
    }

    fn take(&mut self, read: usize) {
        let here = now_ns();
        self.seen.bytes += read as u64;
        match &mut self.frames {
            Some(frames) => frames.unwrap_into(&self.buffer[..read], &mut self.text),
            None => self.text.extend_from_slice(&self.buffer[..read]),
        }
        let mut at = 0;
        while let Some(found) = memchr::memchr(b'@', &self.text[at..]) {
            let begin = at + found;
            match stamp(&self.text[begin + 1..]) {
                Stamp::Whole(stamp) if stamp > self.newest => {
                    self.newest = stamp;
                    self.seen.chunks += 1;
                    if self.keeps_times {
                        self.seen.times_us.push(number(here.saturating_sub(stamp)) / 1000.0);
                    }
                }
                Stamp::Cut => {
                    self.text.drain(..begin);
                    return;
                }
                Stamp::Whole(_) | Stamp::None => {}
            }
            at = begin + 1;
        }
        self.text.clear();
    }
}

/// Where in the stream of unmasked frames the reader stands.
#[derive(Debug, Default)]
struct Frames {
    head: Vec<u8>,
    /// Bytes of the frame's content that have not come.
    left: usize,
}

impl Frames {
    fn unwrap_into(&mut self, mut bytes: &[u8], text: &mut Vec<u8>) {
        while let [first, rest @ ..] = bytes {
            if self.left > 0 {
                let (content, after) = bytes.split_at(self.left.min(bytes.len()));
                text.extend_from_slice(content);
                self.left -= content.len();
                bytes = after;
            } else {
                self.head.push(*first);
                bytes = rest;
                if let Some(length) = length(&self.head) {
                    self.head.clear();
                    self.left = length;
                }
            }
        }
    }
}

/// How long the content of a frame is, once its head is whole.
fn length(head: &[u8]) -> Option<usize> {
    let long = |bytes: &[u8]| bytes.iter().fold(0, |sum, byte| (sum << 8) | usize::from(*byte));
    match head {
        [_, 126, high, low] => Some(long(&[*high, *low])),
        [_, 127, bytes @ ..] if bytes.len() == 8 => Some(long(bytes)),
        [_, short] if *short < 126 => Some(usize::from(*short)),
        _ => None,
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Stamp {
    Whole(u64),
    /// Digits up to the end of what was read.
    Cut,
    None,
}

fn stamp(bytes: &[u8]) -> Stamp {
    // Twenty digits hold every number of nanoseconds.
    let digits = bytes.iter().take(20).take_while(|byte| byte.is_ascii_digit()).count();
    match bytes.get(digits) {
        None => Stamp::Cut,
        Some(b';') if digits > 0 => {
            Stamp::Whole(bytes[..digits].iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')))
        }
        Some(_) => Stamp::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_read_whole_or_not_at_all() {
        let check = |text: &str, expect: Stamp| assert_eq!(stamp(text.as_bytes()), expect, "{text}");
        check("123;some", Stamp::Whole(123));
        check("123", Stamp::Cut);
        check("", Stamp::Cut);
        check(";", Stamp::None);
        check("localhost", Stamp::None);
        check("123456789012345678901;", Stamp::None);
    }

    #[test]
    fn frames_are_unwrapped_wherever_they_are_cut() {
        let (long, longest) = ("y".repeat(300), "z".repeat(70_000));
        let mut stream = b"\x01\x03abc\x00\x7e\x01\x2c".to_vec();
        stream.extend(long.as_bytes());
        stream.extend(b"\x80\x7f\x00\x00\x00\x00\x00\x01\x11\x70");
        stream.extend(longest.as_bytes());
        for size in [1, 2, 7, 1000, stream.len()] {
            let (mut frames, mut text) = (Frames::default(), Vec::new());
            stream.chunks(size).for_each(|part| frames.unwrap_into(part, &mut text));
            assert_eq!(text, format!("abc{long}{longest}").into_bytes(), "{size}");
        }
    }

    #[tokio::test]
    async fn a_stamp_that_comes_in_two_parts_or_twice_counts_once() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut eye = Eye::new(ours).keep_times();
        let (first, second) = (now_ns() + 1, now_ns() + 1_000_000);
        let text = format!("@1;old @{first};a {{@{second};b}} @{second};c owner@localhost");
        for part in text.as_bytes().chunks(7) {
            theirs.write_all(part).await.unwrap();
            tokio::task::yield_now().await;
        }
        drop(theirs);
        assert!(eye.follow(3, Duration::from_secs(10)).await.is_err(), "there are only two");
        assert_eq!((eye.seen.chunks, eye.seen.times_us.len()), (2, 2));
        assert_eq!(eye.seen.bytes, text.len() as u64);
    }
}
