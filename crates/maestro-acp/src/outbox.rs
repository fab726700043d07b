use std::{io, time::Duration};
use tokio::{
    io::{AsyncWrite, AsyncWriteExt as _},
    sync::{mpsc, watch},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

/// Messages that may wait for the agent to read. A healthy agent reads at once, so more mean that it is stuck.
const MESSAGES_MAX: usize = 8;

/// How long the agent may take to read one message.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// A message was not taken for the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The agent does not read, and as many messages wait as may.
    #[error("the agent does not read its input; {MESSAGES_MAX} messages wait already")]
    Full,
    /// The agent's input is closed.
    #[error("the agent's input is closed")]
    Closed,
}

/// Why writing to the agent ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OutboxEnd {
    /// It was closed from this side.
    #[error("the agent's input was closed")]
    Closed,
    /// The agent did not read a message within 30 s.
    #[error("the agent did not read its input for {} s", WRITE_TIMEOUT.as_secs())]
    TimedOut,
    /// The agent closed its input, or ended.
    #[error("the agent's input broke ({0})")]
    Broken(io::ErrorKind),
}

/// The way to an agent's stdin. Messages go out one at a time in the order in which they were sent.
#[derive(Debug, Clone)]
pub struct Outbox {
    messages: mpsc::Sender<Vec<u8>>,
    close: CancellationToken,
    end: watch::Receiver<Option<OutboxEnd>>,
}

impl Outbox {
    /// An outbox and the task that writes to `stdin`. The task ends when the outbox is closed or dropped and what
    /// waits is written, or when the agent does not read; `stdin` is closed then.
    pub(crate) fn new(stdin: impl AsyncWrite + Unpin) -> (Self, impl Future<Output = ()>) {
        let (messages, waiting) = mpsc::channel(MESSAGES_MAX);
        let (ended, end) = watch::channel(None);
        let close = CancellationToken::new();
        let writer = write_all(stdin, waiting, close.clone(), ended);
        (Self { messages, close, end }, writer)
    }

    /// Takes one message of [`crate::outgoing`] for the agent, without waiting.
    pub fn send(&self, message: Vec<u8>) -> Result<(), SendError> {
        self.messages.try_send(message).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => SendError::Full,
            mpsc::error::TrySendError::Closed(_) => SendError::Closed,
        })
    }

    /// Whether a message would be taken now, or be refused because the outbox ended. Only the one who sends may rely on
    /// it.
    pub fn has_room(&self) -> bool {
        self.messages.capacity() > 0 || self.messages.is_closed()
    }

    /// Waits until [`Self::has_room`], which is at most as long as the agent may take to read one message.
    pub async fn room(&self) {
        // An error says that the outbox has ended: then there is nothing to wait for either.
        drop(self.messages.reserve().await);
    }

    /// Takes one message for the agent, waiting for room as long as the agent may take to read one: for answers to
    /// an agent that asks more at once than may wait here.
    pub async fn send_when_free(&self, message: Vec<u8>) -> Result<(), SendError> {
        match timeout(WRITE_TIMEOUT, self.messages.send(message)).await {
            Ok(sent) => sent.map_err(|_unsent| SendError::Closed),
            Err(_elapsed) => Err(SendError::Full),
        }
    }

    /// Closes the agent's stdin as soon as what waits is written.
    pub fn close(&self) {
        self.close.cancel();
    }

    /// Waits until nothing is written any more and says why. Can be asked again and again, and given up at any time.
    pub async fn ended(&self) -> OutboxEnd {
        let mut end = self.end.clone();
        match end.wait_for(Option::is_some).await {
            Ok(end) => end.clone().unwrap_or(OutboxEnd::Closed),
            // The writer was stopped together with its connection.
            Err(_gone) => OutboxEnd::Closed,
        }
    }
}

async fn write_all(
    mut stdin: impl AsyncWrite + Unpin,
    mut waiting: mpsc::Receiver<Vec<u8>>,
    close: CancellationToken,
    ended: watch::Sender<Option<OutboxEnd>>,
) {
    let end = loop {
        let message = tokio::select! {
            biased;
            () = close.cancelled(), if !waiting.is_closed() => {
                waiting.close();
                continue;
            }
            message = waiting.recv() => message,
        };
        let Some(message) = message else { break OutboxEnd::Closed };
        match timeout(WRITE_TIMEOUT, write_line(&mut stdin, message)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => break OutboxEnd::Broken(error.kind()),
            Err(_elapsed) => break OutboxEnd::TimedOut,
        }
    };
    waiting.close();
    drop(stdin);
    ended.send_replace(Some(end));
}

async fn write_line(stdin: &mut (impl AsyncWrite + Unpin), mut message: Vec<u8>) -> io::Result<()> {
    debug_assert!(!message.contains(&b'\n'), "a message is one line");
    message.push(b'\n');
    stdin.write_all(&message).await?;
    stdin.flush().await
}

#[cfg(test)]
mod tests;
