use crate::{
    Frame, decode,
    decode::notice::{notice, notice_of_head},
    framing::{Framer, Line},
};
use maestro_protocol::NoticeReason;
use std::{collections::VecDeque, io, sync::Arc};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
};

/// Batches that may wait for the session. Enough that reading and handling overlap, few enough that an agent feels
/// at once that it is too fast.
pub(crate) const BATCHES_MAX: usize = 64;

/// Bytes of lines that may be in batches which nobody dropped yet. A single line may be longer and then passes alone.
const OUTSTANDING_BYTES_MAX: u32 = 1024 * 1024;

/// The most bytes taken from the pipe at once: the size of a pipe.
const READ_BYTES: usize = 64 * 1024;

/// The room of an agent that says little, as most do most of the time: a thousand idle sessions must not hold a
/// thousand full ones.
const READ_BYTES_IDLE: usize = 4 * 1024;

/// What a frame counts besides its line's bytes, so that a flood of tiny lines is bounded like one of long ones.
const FRAME_BYTES: usize = 256;

/// Frames in the order of the agent's output. What they count towards the bound on outstanding bytes is given back
/// when the batch is dropped.
#[derive(Debug)]
pub struct Batch {
    /// The frames, oldest first; at least one when the batch comes from the reader.
    pub frames: VecDeque<Frame>,
    /// The bytes of their lines.
    pub bytes: usize,
    /// Held for its drop.
    _permit: OwnedSemaphorePermit,
}

/// Why reading ended.
#[derive(Debug, thiserror::Error)]
pub enum ReaderEnd {
    /// The agent closed its output.
    #[error("the agent closed its output")]
    Closed,
    /// Its output could not be read.
    #[error("the agent's output could not be read")]
    Failed(#[source] io::Error),
    /// Nobody takes frames any more.
    #[error("nobody listens to the agent any more")]
    Unheard,
}

/// Reads an agent's output to its end and sends what it holds (CONTRACT §4.5). While the receiver is behind by the
/// bounds of this module nothing is read, so that the agent's own writes block.
pub async fn read_frames(mut stdout: impl AsyncRead + Unpin, frames: mpsc::Sender<Batch>) -> ReaderEnd {
    let mut outlet = Outlet { frames, bound: Arc::new(Semaphore::new(OUTSTANDING_BYTES_MAX as usize)) };
    let mut framer = Framer::default();
    let mut buffer = vec![0; READ_BYTES_IDLE];
    loop {
        let read = tokio::select! {
            read = stdout.read(&mut buffer) => read,
            () = outlet.frames.closed() => return ReaderEnd::Unheard,
        };
        let ended = match read {
            Ok(0) => Some(ReaderEnd::Closed),
            Ok(n) => match outlet.pass_on(&mut framer, &buffer[..n]).await {
                Ok(()) => {
                    let wanted = room_after(buffer.len(), n);
                    if wanted != buffer.len() {
                        buffer = vec![0; wanted];
                    }
                    None
                }
                Err(Unheard) => return ReaderEnd::Unheard,
            },
            Err(error) if error.kind() == io::ErrorKind::Interrupted => None,
            Err(error) => Some(ReaderEnd::Failed(error)),
        };
        if let Some(end) = ended {
            return match outlet.pass_on_rest(&mut framer).await {
                Ok(()) => end,
                Err(Unheard) => ReaderEnd::Unheard,
            };
        }
    }
}

/// How much room the next read gets after one of `read` bytes: all where they filled it, little again where they would
/// have fitted into little.
fn room_after(room: usize, read: usize) -> usize {
    if read == room {
        READ_BYTES
    } else if read <= READ_BYTES_IDLE / 2 {
        READ_BYTES_IDLE
    } else {
        room
    }
}

struct Outlet {
    frames: mpsc::Sender<Batch>,
    bound: Arc<Semaphore>,
}

/// The receiver is gone.
struct Unheard;

/// Frames that are not sent yet.
#[derive(Default)]
struct Gathered {
    frames: VecDeque<Frame>,
    bytes: usize,
}

impl Gathered {
    fn add(&mut self, line: Line<'_>) {
        let (frame, bytes) = match line {
            Line::Whole(line) => (decode(line), line.len()),
            Line::TooLong { head, bytes } => (notice_of_head(NoticeReason::TooLong, head, bytes), head.len()),
            Line::Partial(line) => (notice(NoticeReason::Partial, line), line.len()),
        };
        self.frames.push_back(frame);
        self.bytes += bytes;
    }

    fn cost(&self) -> usize {
        self.bytes + self.frames.len() * FRAME_BYTES
    }
}

impl Outlet {
    async fn pass_on(&mut self, framer: &mut Framer, mut chunk: &[u8]) -> Result<(), Unheard> {
        let mut gathered = Gathered::default();
        while let Some(line) = framer.next(&mut chunk) {
            gathered.add(line);
            if gathered.cost() >= READ_BYTES {
                self.send(std::mem::take(&mut gathered)).await?;
            }
        }
        self.send(gathered).await
    }

    async fn pass_on_rest(&mut self, framer: &mut Framer) -> Result<(), Unheard> {
        let mut gathered = Gathered::default();
        if let Some(line) = framer.finish() {
            gathered.add(line);
        }
        self.send(gathered).await
    }

    async fn send(&self, gathered: Gathered) -> Result<(), Unheard> {
        if gathered.frames.is_empty() {
            return Ok(());
        }
        let permits =
            u32::try_from(gathered.cost()).map_or(OUTSTANDING_BYTES_MAX, |n| n.min(OUTSTANDING_BYTES_MAX));
        let permit = tokio::select! {
            permit = Arc::clone(&self.bound).acquire_many_owned(permits) => permit.map_err(|_closed| Unheard)?,
            () = self.frames.closed() => return Err(Unheard),
        };
        let batch = Batch { frames: gathered.frames, bytes: gathered.bytes, _permit: permit };
        self.frames.send(batch).await.map_err(|_unsent| Unheard)
    }
}

#[cfg(test)]
mod tests;
