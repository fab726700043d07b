//! One WebSocket on a session (CONTRACT §6.3): the snapshot, then what changed, at the reader's pace.
//!
//! A wake-up says only that something changed; what changed since the last frame is asked when that frame is sent. So a
//! slow reader never has more than one answer waiting for it, and what it gets next always begins where it stands.

mod blind;
mod end;
mod pieces;
#[cfg(test)]
mod tests;

use super::{app::Lifetime, pace::Pace};
use crate::session::{Frames, Held, Pulse, SessionError, SessionHandle, Text, View};
use bytes::Bytes;
use end::End;
use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _, future::BoxFuture};
use maestro_projection::DeltaForm;
use std::{convert::Infallible, iter, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::watch,
    time::{Instant, interval_at, sleep_until, timeout},
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{self, Message, protocol::WebSocketConfig},
};

pub(super) use blind::Sight;

/// The longest message of a client. Clients have nothing to say here, so this is for pings and stray text.
const MESSAGE_MAX_BYTES: usize = 64 * 1024;

/// How often a socket is pinged.
const PING_EVERY: Duration = Duration::from_secs(20);

/// A socket that was silent for so long has lost its client: two pings went unanswered.
const SILENCE_MAX: Duration = Duration::from_secs(45);

/// How long a client may take to read one frame.
const SEND_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a client may take to answer a close.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a socket waits at a shutdown for its session's last lines.
const LAST_LINES: Duration = Duration::from_secs(2);

/// What is read of a socket at once. Clients send pongs and closes; the library's own 128 KiB would be most of what a
/// socket costs.
const READ_BUFFER: usize = 4 * 1024;

/// The limits of a socket.
pub(super) fn config() -> WebSocketConfig {
    WebSocketConfig::default()
        .max_message_size(Some(MESSAGE_MAX_BYTES))
        .max_frame_size(Some(MESSAGE_MAX_BYTES))
        .read_buffer_size(READ_BUFFER)
}

/// A session as one socket watches it.
#[derive(Debug)]
pub(super) struct Feed<C> {
    /// Taken before the snapshot, so that nothing falls in between.
    pub(super) pulse: watch::Receiver<Pulse>,
    pub(super) snapshot: Frames,
    /// The form of what it gives, which sets the pace.
    pub(super) form: DeltaForm,
    /// Gives what came after what the socket holds.
    pub(super) changes: C,
}

/// Watches a session. Fails with [`SessionError::NotStructured`] for a dead one.
pub(super) async fn feed(
    handle: SessionHandle,
    view: View,
) -> Result<Feed<impl Fn(Held) -> BoxFuture<'static, Changes> + Send>, SessionError> {
    super::app::live(&handle)?;
    let pulse = handle.pulse();
    let snapshot = handle.snapshot(view).await?;
    let form = view.form;
    let changes = move |held| {
        let handle = handle.clone();
        async move { handle.changes(held, form).await }.boxed()
    };
    Ok(Feed { pulse, snapshot, form, changes })
}

/// What a session says to the question what changed.
type Changes = Result<Frames, SessionError>;

/// Serves a socket to its end.
pub(super) async fn serve<S, C, F>(
    socket: WebSocketStream<S>,
    feed: Feed<C>,
    sight: Sight,
    lifetime: Lifetime,
) where
    S: AsyncRead + AsyncWrite + Unpin,
    C: Fn(Held) -> F,
    F: Future<Output = Changes>,
{
    let Feed { pulse, snapshot, form, changes } = feed;
    let now = Instant::now();
    let (held, pace) = (Held::default(), Pace::start(form, now));
    let mut viewer = Viewer { socket, changes, sight, held, pace, heard: now };
    let work = async {
        let Err(end) = async {
            viewer.send(snapshot).await?;
            viewer.follow(pulse, &lifetime).await
        }
        .await;
        tracing::debug!(?end, "a socket ends");
        viewer.close(end).await;
    };
    tokio::select! {
        () = work => {}
        () = lifetime.drop_all.cancelled() => {}
    }
}

/// What a socket waited for.
enum Step {
    Heard(Option<Result<Message, tungstenite::Error>>),
    Due,
    Woken,
    /// The session's owner is gone.
    Orphaned,
    Ping,
    Silence,
    Shutdown,
    GiveUp,
}

struct Viewer<S, C> {
    socket: WebSocketStream<S>,
    changes: C,
    sight: Sight,
    /// What the client has.
    held: Held,
    pace: Pace,
    /// When the client was last heard of.
    heard: Instant,
}

impl<S, C, F> Viewer<S, C>
where
    S: AsyncRead + AsyncWrite + Unpin,
    C: Fn(Held) -> F,
    F: Future<Output = Changes>,
{
    /// Sends what changes until there is a reason to end, which is the error.
    async fn follow(
        &mut self,
        mut pulse: watch::Receiver<Pulse>,
        lifetime: &Lifetime,
    ) -> Result<Infallible, End> {
        let mut pings = interval_at(Instant::now() + PING_EVERY, PING_EVERY);
        let mut give_up = None;
        loop {
            let seen = *pulse.borrow_and_update();
            let due = self.pace.due(&self.held, &seen);
            if let (None, Some(reason)) = (due, seen.ended) {
                return Err(End::of_session(reason));
            }
            let step = tokio::select! {
                message = self.socket.next() => Step::Heard(message),
                () = at(due) => Step::Due,
                alive = pulse.changed() => if alive.is_ok() { Step::Woken } else { Step::Orphaned },
                _ = pings.tick() => Step::Ping,
                () = sleep_until(self.heard + SILENCE_MAX) => Step::Silence,
                () = lifetime.shutdown.cancelled(), if give_up.is_none() => Step::Shutdown,
                () = at(give_up) => Step::GiveUp,
            };
            match step {
                Step::Heard(message) => self.hear(message)?,
                Step::Due => self.send_changes(&mut pulse).await?,
                Step::Woken => {}
                Step::Orphaned => return Err(End::of_owner(&seen)),
                Step::Ping => self.put(iter::once(Message::Ping(Bytes::new()))).await?,
                Step::Silence => self.listen_once_more()?,
                Step::Shutdown => give_up = Some(Instant::now() + LAST_LINES),
                Step::GiveUp => return Err(End::Shutdown),
            }
        }
    }

    fn hear(&mut self, message: Option<Result<Message, tungstenite::Error>>) -> Result<(), End> {
        match message {
            Some(Ok(Message::Close(_))) | None => Err(End::Left),
            // Pings are answered by the library; a client has nothing else to say.
            Some(Ok(_)) => {
                self.heard = Instant::now();
                Ok(())
            }
            Some(Err(error)) => Err(End::of_read(&error)),
        }
    }

    /// A client that answered while a long frame went out has its answer waiting here.
    fn listen_once_more(&mut self) -> Result<(), End> {
        match self.socket.next().now_or_never() {
            Some(message) => self.hear(message),
            None => Err(End::Silent),
        }
    }

    async fn send_changes(&mut self, pulse: &mut watch::Receiver<Pulse>) -> Result<(), End> {
        match (self.changes)(self.held.clone()).await {
            Ok(frames) => {
                let bytes = self.send(frames).await?;
                self.pace = self.pace.sent(Instant::now(), bytes);
                Ok(())
            }
            Err(SessionError::Gone) => Err(End::of_gone(pulse).await),
            Err(error) => Err(End::of_error(&error)),
        }
    }

    /// Sends all frames of an answer and says how long they were.
    async fn send(&mut self, frames: Frames) -> Result<usize, End> {
        let mut bytes = 0;
        for frame in frames.frames {
            bytes += match frame {
                Text::Whole(text) => {
                    let text = self.sight.show(text);
                    let len = text.len();
                    self.put(pieces::of(text).ok_or(End::Defect)?).await?;
                    len
                }
                Text::Transcript(text) => self.put_counted(pieces::of_transcript(*text)).await?,
            };
        }
        if frames.held.cursor >= self.held.cursor {
            self.held = frames.held;
        }
        Ok(bytes)
    }

    /// As [`Self::put`]; says how long it was.
    async fn put_counted(&mut self, pieces: impl Iterator<Item = Message>) -> Result<usize, End> {
        let mut bytes = 0;
        self.put(pieces.inspect(|piece| bytes += piece.len())).await?;
        Ok(bytes)
    }

    /// Sends a message that may be in pieces, all within one limit. A piece goes when the one before it is out.
    async fn put(&mut self, pieces: impl Iterator<Item = Message>) -> Result<(), End> {
        let socket = &mut self.socket;
        let sending = async {
            for piece in pieces {
                socket.send(piece).await?;
            }
            Ok::<_, tungstenite::Error>(())
        };
        match timeout(SEND_TIMEOUT, sending).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(End::Left),
            Err(_elapsed) => Err(End::TooSlow),
        }
    }

    /// Says why, if the client can still hear it, and waits a little for its answer.
    async fn close(&mut self, end: End) {
        if matches!(end, End::Silent | End::TooSlow) {
            return;
        }
        let farewell = async {
            if let Some(frame) = end.frame() {
                self.socket.send(Message::Close(Some(frame))).await?;
            }
            // Reading also sends the library's answer to a close of the client's.
            while let Some(message) = self.socket.next().await {
                message?;
            }
            Ok::<_, tungstenite::Error>(())
        };
        match timeout(CLOSE_TIMEOUT, farewell).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::trace!(%error, "a socket broke at its close"),
            Err(_elapsed) => tracing::trace!("a client did not answer a close"),
        }
    }
}

/// Until `moment`; for ever without one.
async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
