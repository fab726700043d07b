use std::{collections::VecDeque, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    sync::watch,
    time::timeout,
};
use tokio_util::task::AbortOnDropHandle;

/// The most bytes of an agent's stderr that are kept.
const TAIL_BYTES: usize = 64 * 1024;

/// How long the tail waits for the end of stderr: it comes at once when an agent ends, unless a descendant of the
/// agent still holds the pipe.
const SETTLE: Duration = Duration::from_millis(250);

/// The end of what an agent wrote to stderr. Everything is read as fast as it comes, so that logging never blocks an
/// agent. Dropping the tail ends the reading.
#[derive(Debug)]
pub struct StderrTail {
    tail: watch::Receiver<VecDeque<u8>>,
    _reader: AbortOnDropHandle<()>,
}

impl StderrTail {
    /// Begins to read.
    pub fn drain(stderr: impl AsyncRead + Unpin + Send + 'static) -> Self {
        let (keep, tail) = watch::channel(VecDeque::new());
        Self { tail, _reader: AbortOnDropHandle::new(tokio::spawn(read_all(stderr, keep))) }
    }

    /// The last 64 KiB, as a person may read them: decoded, without the escape sequences that colour a terminal and
    /// without control characters but newlines and tabs. For an agent that has ended: waits for the end of its stderr,
    /// at most 250 ms.
    pub async fn text(&self) -> String {
        let mut tail = self.tail.clone();
        let end = async { while tail.changed().await.is_ok() {} };
        // Late or not, what is there is the answer.
        drop(timeout(SETTLE, end).await);
        let bytes: Vec<u8> = self.tail.borrow().iter().copied().collect();
        plain_text(&String::from_utf8_lossy(whole_characters(&bytes)))
    }
}

async fn read_all(mut stderr: impl AsyncRead + Unpin, keep: watch::Sender<VecDeque<u8>>) {
    let mut buffer = vec![0; 8 * 1024];
    // An error here is an end like any other: there is nothing more to show.
    while let Ok(n @ 1..) = stderr.read(&mut buffer).await {
        keep.send_modify(|tail| {
            tail.extend(&buffer[..n]);
            let excess = tail.len().saturating_sub(TAIL_BYTES);
            tail.drain(..excess);
        });
    }
}

/// `bytes` without the rest of a character that was cut at their start.
fn whole_characters(bytes: &[u8]) -> &[u8] {
    let is_continuation = |byte: &u8| byte & 0b1100_0000 == 0b1000_0000;
    let cut = bytes.iter().take(3).take_while(|byte| is_continuation(byte)).count();
    &bytes[cut..]
}

/// `text` without control sequences (`ESC [ … letter`) and other control characters.
fn plain_text(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' && chars.next_if_eq(&'[').is_some() {
            while chars.next_if(|c| matches!(c, ' '..='?')).is_some() {}
            chars.next_if(|c| matches!(c, '@'..='~'));
        } else if !c.is_control() || matches!(c, '\n' | '\t') {
            plain.push(c);
        }
    }
    plain
}

#[cfg(test)]
mod tests;
