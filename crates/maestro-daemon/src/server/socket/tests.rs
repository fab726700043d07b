//! A socket from its client's side, with the session's announcements made by the test. Time is paused.

use super::{Changes, Feed, Sight, config, serve};
use crate::{
    server::app::Lifetime,
    session::{Frames, Held, Pulse, SessionError, Text},
};
use futures_util::{SinkExt as _, StreamExt as _, future::BoxFuture};
use maestro_projection::DeltaForm;
use maestro_protocol::{Cursor, EndReason};
use std::time::Duration;
use tokio::{
    io::DuplexStream,
    sync::watch,
    time::{Instant, advance, timeout},
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Bytes, Error, Message, protocol::Role},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// What a session with lines of 100 bytes each says: one frame that names the lines it covers.
fn changes(pulse: &watch::Sender<Pulse>) -> impl Fn(Held) -> BoxFuture<'static, Changes> + use<> {
    let pulse = pulse.subscribe();
    move |held| {
        let (since, now) = (held.cursor, *pulse.borrow());
        let filling = "x".repeat(usize::try_from(now.cursor - since).unwrap() * 100);
        let text = format!("{since}..{} {filling}", now.cursor);
        Box::pin(async move { Ok(Frames { held: held_at(now), frames: vec![Text::Whole(text.into())] }) })
    }
}

fn held_at(pulse: Pulse) -> Held {
    Held { cursor: pulse.cursor, overlay: pulse.overlay, streamed: pulse.streamed, ..Held::default() }
}

/// Lines that do more than lengthen a text.
fn at(cursor: Cursor, urgent: Cursor) -> Pulse {
    Pulse { cursor, urgent, reshaped: cursor, ..Pulse::default() }
}

struct Watching {
    pulse: watch::Sender<Pulse>,
    lifetime: Lifetime,
    client: WebSocketStream<DuplexStream>,
}

impl Watching {
    /// A socket at line 10 whose pipe holds `pipe` bytes.
    async fn start(pipe: usize) -> Self {
        Self::start_as(pipe, DeltaForm::Plain).await
    }

    async fn start_as(pipe: usize, form: DeltaForm) -> Self {
        let pulse = watch::Sender::new(at(10, 10));
        let changes = changes(&pulse);
        Self::start_with(pipe, form, pulse, changes).await
    }

    async fn start_with<C>(pipe: usize, form: DeltaForm, pulse: watch::Sender<Pulse>, changes: C) -> Self
    where
        C: Fn(Held) -> BoxFuture<'static, Changes> + Send + Sync + 'static,
    {
        let (near, far) = tokio::io::duplex(pipe);
        let lifetime = Lifetime {
            tasks: TaskTracker::new(),
            shutdown: CancellationToken::new(),
            drop_all: CancellationToken::new(),
        };
        let held = held_at(*pulse.borrow());
        let snapshot = Frames { held, frames: ["rows", "state"].map(|text| Text::Whole(text.into())).into() };
        let feed = Feed { pulse: pulse.subscribe(), snapshot, form, changes };
        let serving = lifetime.clone();
        drop(lifetime.tasks.spawn(async move {
            let socket = WebSocketStream::from_raw_socket(near, Role::Server, Some(config())).await;
            serve(socket, feed, Sight::Full, serving).await;
        }));
        let client = WebSocketStream::from_raw_socket(far, Role::Client, None).await;
        Self { pulse, lifetime, client }
    }

    fn announce(&self, cursor: Cursor, urgent: Cursor) {
        self.pulse.send_replace(at(cursor, urgent));
    }

    /// A line that lengthens the one text by `units`.
    fn stream(&self, units: u64) {
        self.pulse.send_modify(|pulse| {
            pulse.cursor += 1;
            pulse.streamed += units;
            pulse.growing += units;
        });
    }

    fn end(&self, reason: EndReason) {
        self.pulse.send_modify(|pulse| pulse.ended = Some(reason));
    }

    /// The next text, without its filling; pings are passed over.
    async fn text(&mut self) -> String {
        loop {
            match self.next().await {
                Message::Text(text) => return text.split(' ').next().unwrap().into(),
                Message::Ping(_) => {}
                other => panic!("not a text: {other:?}"),
            }
        }
    }

    async fn next(&mut self) -> Message {
        let message = timeout(Duration::from_mins(1), self.client.next()).await.expect("in time");
        message.expect("the socket is open").expect("a message")
    }

    async fn snapshot(&mut self) {
        assert_eq!([self.text().await, self.text().await], ["rows", "state"]);
    }

    async fn closed(&mut self, code: u16) {
        loop {
            match self.next().await {
                Message::Close(Some(frame)) => return assert_eq!(u16::from(frame.code), code),
                Message::Close(None) => panic!("no code"),
                _ => {}
            }
        }
    }

    /// The server's task is over; nothing of it is left.
    async fn over(&self) {
        self.lifetime.tasks.close();
        timeout(Duration::from_mins(1), self.lifetime.tasks.wait()).await.expect("the socket's task ends");
    }
}

#[tokio::test(start_paused = true)]
async fn the_snapshot_comes_first_then_changes_at_the_pace() {
    let mut socket = Watching::start(1 << 20).await;
    socket.snapshot().await;
    let start = Instant::now();
    let took = || (Instant::now() - start).as_millis();

    socket.announce(11, 10);
    assert_eq!((socket.text().await.as_str(), took()), ("10..11", 0), "the first change goes at once");
    socket.announce(12, 10);
    assert_eq!((socket.text().await.as_str(), took()), ("11..12", 33), "the next one waits");
    socket.announce(13, 13);
    assert_eq!((socket.text().await.as_str(), took()), ("12..13", 33), "an urgent one does not");
    socket.announce(14, 13);
    advance(Duration::from_millis(10)).await;
    socket.announce(20, 13);
    assert_eq!((socket.text().await.as_str(), took()), ("13..20", 66), "what came meanwhile is one frame");
}

#[tokio::test(start_paused = true)]
async fn a_text_that_grows_comes_by_sixteenths_or_seconds_and_in_the_text_form_at_once() {
    let mut plain = Watching::start(1 << 20).await;
    plain.snapshot().await;
    plain.pulse.send_modify(|pulse| pulse.growing = 1590);
    let start = Instant::now();
    let took = || (Instant::now() - start).as_millis();
    plain.stream(10);
    assert_eq!((plain.text().await.as_str(), took()), ("10..11", 1000), "it has a second");
    plain.stream(99);
    advance(Duration::from_millis(500)).await;
    plain.stream(1);
    assert_eq!((plain.text().await.as_str(), took()), ("11..13", 1500), "a sixteenth more");
    plain.stream(1);
    plain.announce(15, 15);
    assert_eq!((plain.text().await.as_str(), took()), ("13..15", 1500), "with what is urgent");

    let mut text = Watching::start_as(1 << 20, DeltaForm::Text).await;
    text.snapshot().await;
    text.pulse.send_modify(|pulse| pulse.growing = 1590);
    for n in 10..20 {
        text.stream(1);
        assert_eq!((text.text().await, took()), (format!("{n}..{}", n + 1), 1500));
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_frame_is_read_as_one() {
    let mut socket = Watching::start(1000).await;
    socket.snapshot().await;
    socket.announce(5010, 5010);
    let Message::Text(text) = socket.next().await else { panic!("not a text") };
    assert_eq!(text.len(), "10..5010 ".len() + 500_000);
    socket.announce(5011, 5011);
    assert_eq!(socket.text().await, "5010..5011");
}

#[tokio::test(start_paused = true)]
async fn a_change_without_a_line_is_sent_at_once_and_once() {
    let mut socket = Watching::start(1 << 20).await;
    socket.snapshot().await;
    socket.pulse.send_modify(|pulse| pulse.overlay = 1);
    assert_eq!(socket.text().await, "10..10");
    socket.pulse.send_modify(|pulse| pulse.cursor = 11);
    assert_eq!(socket.text().await, "10..11", "nothing came between");
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_gets_one_frame_for_all_it_missed() {
    let mut socket = Watching::start(64).await;
    socket.snapshot().await;
    // The pipe takes less than a frame, so the socket is stuck in the first one.
    socket.announce(11, 10);
    advance(Duration::from_secs(1)).await;
    for cursor in 12..=5000 {
        socket.announce(cursor, cursor);
        tokio::task::yield_now().await;
    }
    assert_eq!(socket.text().await, "10..11");
    assert_eq!(socket.text().await, "11..5000");
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_stops_is_dropped() {
    let mut socket = Watching::start(64).await;
    socket.snapshot().await;
    let start = Instant::now();
    socket.announce(11, 10);
    socket.over().await;
    assert_eq!((Instant::now() - start).as_secs(), 30);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_silent_is_dropped_and_one_that_answers_pings_is_not() {
    let mut answering = Watching::start(1 << 20).await;
    answering.snapshot().await;
    // Reading answers pings.
    for _ in 0..6 {
        assert!(matches!(answering.next().await, Message::Ping(_)));
    }
    let mut silent = Watching::start(1 << 20).await;
    silent.snapshot().await;
    let start = Instant::now();
    silent.over().await;
    assert_eq!((Instant::now() - start).as_secs(), 45);
}

#[tokio::test(start_paused = true)]
async fn a_dead_session_ends_the_socket_after_its_last_lines() {
    let check = async |reason: EndReason, code: u16| {
        let mut socket = Watching::start(1 << 20).await;
        socket.snapshot().await;
        socket.announce(12, 10);
        socket.end(reason);
        assert_eq!(socket.text().await, "10..12");
        socket.closed(code).await;
        socket.over().await;
    };
    check(EndReason::Exited, 4410).await;
    check(EndReason::Killed, 4410).await;
    check(EndReason::DaemonShutdown, 1012).await;
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_the_last_lines_of_a_session_but_not_for_ever() {
    let mut ending = Watching::start(1 << 20).await;
    ending.snapshot().await;
    ending.lifetime.shutdown.cancel();
    advance(Duration::from_millis(500)).await;
    ending.announce(13, 13);
    ending.end(EndReason::DaemonShutdown);
    assert_eq!(ending.text().await, "10..13");
    ending.closed(1012).await;

    let mut stuck = Watching::start(1 << 20).await;
    stuck.snapshot().await;
    let start = Instant::now();
    stuck.lifetime.shutdown.cancel();
    stuck.closed(1012).await;
    assert_eq!((Instant::now() - start).as_secs(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_socket_whose_time_is_over_is_dropped() {
    let mut socket = Watching::start(64).await;
    socket.snapshot().await;
    socket.announce(11, 10);
    tokio::task::yield_now().await;
    socket.lifetime.drop_all.cancel();
    let start = Instant::now();
    socket.over().await;
    assert_eq!(Instant::now(), start);
}

#[tokio::test(start_paused = true)]
async fn clients_may_talk_a_little_and_nobody_listens() {
    let mut socket = Watching::start(1 << 20).await;
    socket.snapshot().await;
    socket.client.send(Message::text("x".repeat(64 * 1024))).await.unwrap();
    socket.client.send(Message::binary(vec![0; 100])).await.unwrap();
    socket.announce(11, 11);
    assert_eq!(socket.text().await, "10..11");
    socket.client.send(Message::text("x".repeat(64 * 1024 + 1))).await.unwrap();
    socket.closed(1009).await;
}

#[tokio::test(start_paused = true)]
async fn a_clients_close_and_ping_are_answered() {
    let mut socket = Watching::start(1 << 20).await;
    socket.snapshot().await;
    socket.client.send(Message::Ping(Bytes::from("hello"))).await.unwrap();
    assert_eq!(socket.next().await, Message::Pong(Bytes::from("hello")));
    socket.client.close(None).await.unwrap();
    assert!(matches!(socket.next().await, Message::Close(None)));
    assert!(matches!(socket.client.next().await, None | Some(Err(Error::ConnectionClosed))));
    socket.over().await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_is_gone_ends_the_socket() {
    let pulse = watch::Sender::new(at(10, 10));
    let answers = changes(&pulse);
    let asked = std::sync::atomic::AtomicU32::new(0);
    let mut socket =
        Watching::start_with(1 << 20, DeltaForm::Plain, pulse, move |held| -> BoxFuture<'static, Changes> {
            match asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
                0 => answers(held),
                _ => Box::pin(async { Err(SessionError::Gone) }),
            }
        })
        .await;
    socket.snapshot().await;
    socket.announce(11, 11);
    assert_eq!(socket.text().await, "10..11");
    socket.announce(12, 12);
    socket.closed(1012).await;
}
