use crate::{
    Batch, Frame, Outbox, ReaderEnd, SendError,
    reader::{BATCHES_MAX, read_frames},
};
use std::io;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
};
use tokio_util::task::AbortOnDropHandle;

/// Both directions of one agent's stdio. Dropping it ends the tasks that read and write.
#[derive(Debug)]
pub struct Connection {
    batches: mpsc::Receiver<Batch>,
    /// The rest of a batch that the handshake took frames of.
    rest: Option<Batch>,
    outbox: Outbox,
    last_id: u64,
    reader: Option<AbortOnDropHandle<ReaderEnd>>,
    _writer: AbortOnDropHandle<()>,
}

impl Connection {
    /// Begins to read and to write. Must be called inside a tokio runtime.
    pub fn new(
        stdin: impl AsyncWrite + Unpin + Send + 'static,
        stdout: impl AsyncRead + Unpin + Send + 'static,
    ) -> Self {
        let (frames, batches) = mpsc::channel(BATCHES_MAX);
        let (outbox, writer) = Outbox::new(stdin);
        Self {
            batches,
            rest: None,
            outbox,
            last_id: 0,
            reader: Some(AbortOnDropHandle::new(tokio::spawn(read_frames(stdout, frames)))),
            _writer: AbortOnDropHandle::new(tokio::spawn(writer)),
        }
    }

    /// The agent's next frames, in its order; `None`, again and again, when its output has ended. Can be given up at
    /// any time without losing a frame.
    pub async fn next_batch(&mut self) -> Option<Batch> {
        match self.rest.take() {
            Some(rest) => Some(rest),
            None => self.batches.recv().await,
        }
    }

    /// The agent's next frame; can be given up like [`Self::next_batch`].
    pub(crate) async fn next_frame(&mut self) -> Option<Frame> {
        let mut batch = self.next_batch().await?;
        let frame = batch.frames.pop_front();
        if !batch.frames.is_empty() {
            self.rest = Some(batch);
        }
        frame
    }

    /// Why the agent's output ended. Waits until it has; told once, and [`ReaderEnd::Closed`] from then on.
    pub async fn reader_end(&mut self) -> ReaderEnd {
        let Some(reader) = &mut self.reader else { return ReaderEnd::Closed };
        let end = reader.await.unwrap_or_else(|failed| ReaderEnd::Failed(io::Error::other(failed)));
        self.reader = None;
        end
    }

    /// The way to the agent.
    pub fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// The request that `message` builds for an id nobody used before, and the id. It is not sent: for a sender that
    /// keeps what finds no room in the outbox.
    pub fn prepare(&mut self, message: impl FnOnce(u64) -> Vec<u8>) -> (u64, Vec<u8>) {
        self.last_id += 1;
        (self.last_id, message(self.last_id))
    }

    /// Sends the request that `message` builds for an id nobody used before, and returns the id.
    pub fn request(&mut self, message: impl FnOnce(u64) -> Vec<u8>) -> Result<u64, SendError> {
        let (id, message) = self.prepare(message);
        self.outbox.send(message)?;
        Ok(id)
    }
}
