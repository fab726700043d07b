//! One WebSocket on a session (CONTRACT §6.3): the snapshot, then what changed, at the reader's pace.
//!
//! A wake-up says only that something changed; what changed since the last frame is asked when that frame is sent. So a
//! slow reader never has more than one answer waiting for it, and what it gets next always begins where it stands.

mod blind;
mod end;
#[cfg(test)]
mod tests;

use super::{app::Lifetime, pace::Pace};
use crate::session::{Frames, Pulse, SessionError, SessionHandle};
use bytes::Bytes;
use end::End;
use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _, future::BoxFuture};
use maestro_protocol::Cursor;
use std::{convert::Infallible, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::watch,
    time::{Instant, interval_at, sleep_until, timeout},
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{self, Message, Utf8Bytes, protocol::WebSocketConfig},
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

/// When a busy session is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// The limits of a socket.
pub(super) fn config() -> WebSocketConfig {
    WebSocketConfig::default()
        .max_message_size(Some(MESSAGE_MAX_BYTES))
        .max_frame_size(Some(MESSAGE_MAX_BYTES))
}

/// A session as one socket watches it.
#[derive(Debug)]
pub(super) struct Feed<C> {
    /// Taken before the snapshot, so that nothing falls in between.
    pub(super) pulse: watch::Receiver<Pulse>,
    pub(super) snapshot: Frames,
    /// Gives what changed after a line.
    pub(super) changes: C,
}

/// Watches a session. Fails with [`SessionError::NotStructured`] for a dead one.
pub(super) async fn feed(
    handle: SessionHandle,
) -> Result<Feed<impl Fn(Cursor) -> BoxFuture<'static, Changes> + Send>, SessionError> {
    super::app::live(&handle)?;
    let pulse = handle.pulse();
    let snapshot = handle.snapshot().await?;
    let changes = move |since| {
        let handle = handle.clone();
        async move { handle.changes(since).await }.boxed()
    };
    Ok(Feed { pulse, snapshot, changes })
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
    C: Fn(Cursor) -> F,
    F: Future<Output = Changes>,
{
    let Feed { pulse, snapshot, changes } = feed;
    let now = Instant::now();
    let mut viewer = Viewer { socket, changes, sight, sent: 0, pace: Pace::start(now), heard: now };
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
    /// The last line that the client has.
    sent: Cursor,
    pace: Pace,
    /// When the client was last heard of.
    heard: Instant,
}

impl<S, C, F> Viewer<S, C>
where
    S: AsyncRead + AsyncWrite + Unpin,
    C: Fn(Cursor) -> F,
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
            let due = self.pace.due(self.sent, &seen);
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
                Step::Due => self.send_changes().await?,
                Step::Woken => {}
                Step::Orphaned => return Err(End::of_owner(&seen)),
                Step::Ping => self.put(Message::Ping(Bytes::new())).await?,
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

    async fn send_changes(&mut self) -> Result<(), End> {
        match (self.changes)(self.sent).await {
            Ok(frames) => {
                let bytes = self.send(frames).await?;
                self.pace = Pace::sent(Instant::now(), bytes);
                Ok(())
            }
            Err(SessionError::Busy) => {
                tokio::time::sleep(ASK_AGAIN).await;
                Ok(())
            }
            Err(error) => Err(End::of_error(&error)),
        }
    }

    /// Sends all frames of an answer and says how long they were.
    async fn send(&mut self, frames: Frames) -> Result<usize, End> {
        let mut bytes = 0;
        for frame in frames.frames {
            let frame = self.sight.show(frame);
            bytes += frame.len();
            let text = Utf8Bytes::try_from(frame).map_err(|_not_utf8| End::Defect)?;
            self.put(Message::Text(text)).await?;
        }
        self.sent = self.sent.max(frames.cursor);
        Ok(bytes)
    }

    async fn put(&mut self, message: Message) -> Result<(), End> {
        match timeout(SEND_TIMEOUT, self.socket.send(message)).await {
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
