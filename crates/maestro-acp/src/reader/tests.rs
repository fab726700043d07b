use super::{Batch, OUTSTANDING_BYTES_MAX, READ_BYTES, READ_BYTES_IDLE, ReaderEnd, read_frames, room_after};
use crate::{Frame, MAX_LINE_BYTES};
use maestro_protocol::{NoticeLine, NoticeReason};
use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWriteExt as _, ReadBuf, duplex},
    sync::mpsc,
    time::timeout,
};

/// Longer than anything here takes; the clock of these tests only moves when nothing else can.
const LONG: Duration = Duration::from_hours(1);

fn update(text: &str) -> String {
    format!(r#"{{"method":"session/update","params":{{"update":{{"sessionUpdate":"x","text":"{text}"}}}}}}"#)
}

fn shown(frame: &Frame) -> String {
    match frame {
        Frame::Update { params, .. } => String::from_utf8(params.to_vec()).unwrap(),
        Frame::Notice(NoticeLine { reason, bytes, .. }) => format!("{reason:?} {bytes:?}"),
        other => format!("{other:?}"),
    }
}

/// Writes `output` to a reader and returns all frames and how it ended.
async fn read_all(output: &[u8]) -> (Vec<Frame>, ReaderEnd) {
    let (mut agent, stdout) = duplex(64 * 1024);
    let (tx, mut rx) = mpsc::channel(4);
    let reader = tokio::spawn(read_frames(stdout, tx));
    let write = async {
        agent.write_all(output).await.unwrap();
        drop(agent);
    };
    let read = async {
        let mut frames = Vec::new();
        while let Some(batch) = rx.recv().await {
            assert!(!batch.frames.is_empty());
            frames.extend(batch.frames);
        }
        frames
    };
    let ((), frames) = tokio::join!(write, read);
    (frames, reader.await.unwrap())
}

#[tokio::test(start_paused = true)]
async fn bad_lines_are_notices_and_the_next_line_is_read() {
    let mut output = Vec::new();
    let long = "x".repeat(MAX_LINE_BYTES + 1);
    let deep = "[".repeat(100_000);
    let lines: [&[u8]; 7] = [
        &b"not json"[..],
        b"\xff\xfe",
        b"",
        b"\r",
        deep.as_bytes(),
        long.as_bytes(),
        b"{\"id\":1,\"method\":\"session/update\",\"params\":{}}",
    ];
    for line in lines {
        output.extend_from_slice(line);
        output.push(b'\n');
        output.extend_from_slice(format!("{}\n", update("next")).as_bytes());
    }
    output.extend_from_slice(b"{\"id\":1,");
    let (frames, end) = read_all(&output).await;
    let next = shown(&crate::decode(update("next").as_bytes()));
    let mut expect = Vec::new();
    for bad in [
        Some("NotJson None".to_owned()),
        Some("NotUtf8 None".into()),
        None,
        None,
        Some("TooDeep Some(100000)".into()),
        Some(format!("TooLong Some({})", MAX_LINE_BYTES + 1)),
        Some("UnknownRequest { id: 1, method: \"session/update\" }".into()),
    ] {
        expect.extend(bad);
        expect.push(next.clone());
    }
    expect.push("Partial None".into());
    assert_eq!(frames.iter().map(shown).collect::<Vec<_>>(), expect);
    assert!(matches!(end, ReaderEnd::Closed));
}

#[tokio::test(start_paused = true)]
async fn the_longest_line_passes_alone() {
    let frame = update("");
    let text = "y".repeat(MAX_LINE_BYTES - frame.len());
    let longest = update(&text);
    assert_eq!(longest.len(), MAX_LINE_BYTES);
    let output = format!("{small}\n{longest}\n{small}\n", small = update("small"));
    let (frames, _end) = read_all(output.as_bytes()).await;
    let lengths: Vec<_> = frames.iter().map(|frame| shown(frame).len()).collect();
    let params = |line: usize| line - r#"{"method":"session/update","params":}"#.len();
    assert_eq!(lengths, [params(frame.len() + 5), params(MAX_LINE_BYTES), params(frame.len() + 5)]);
}

/// Counts what a reader takes from the pipe.
struct Counted<R> {
    inner: R,
    taken: Arc<AtomicUsize>,
}

impl<R: AsyncRead + Unpin> AsyncRead for Counted<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(cx, buffer);
        self.taken.fetch_add(buffer.filled().len() - before, Ordering::Relaxed);
        polled
    }
}

/// An agent that writes `line` for ever, and what becomes of it while nobody takes frames and then while somebody
/// does.
async fn flood(line: String, taken_max: usize) {
    let taken = Arc::new(AtomicUsize::new(0));
    let (mut agent, stdout) = duplex(64 * 1024);
    let (tx, mut rx) = mpsc::channel(super::BATCHES_MAX);
    let reader = tokio::spawn(read_frames(Counted { inner: stdout, taken: Arc::clone(&taken) }, tx));
    let writer = tokio::spawn(async move {
        let mut written = 0_usize;
        while agent.write_all(line.as_bytes()).await.is_ok() {
            written += line.len();
        }
        written
    });
    // The clock moves only when reader and writer can do no more.
    tokio::time::sleep(LONG).await;
    let stuck_at = taken.load(Ordering::Relaxed);
    assert!(!writer.is_finished());
    assert!(stuck_at <= taken_max, "{stuck_at} bytes were taken from the pipe");
    tokio::time::sleep(LONG).await;
    assert_eq!(taken.load(Ordering::Relaxed), stuck_at, "nothing is read while nobody listens");

    let mut bytes = 0;
    while bytes < 10 * taken_max {
        let batch: Batch = timeout(LONG, rx.recv()).await.expect("reading goes on").unwrap();
        bytes += batch.bytes;
    }
    drop(rx);
    assert!(matches!(timeout(LONG, reader).await.unwrap().unwrap(), ReaderEnd::Unheard));
    assert!(timeout(LONG, writer).await.expect("the pipe is closed").unwrap() >= bytes);
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_nobody_reads_must_wait() {
    let most = OUTSTANDING_BYTES_MAX as usize + 4 * super::READ_BYTES;
    flood(format!("{}\n", update(&"z".repeat(1000))), most).await;
}

#[tokio::test(start_paused = true)]
async fn tiny_lines_count_more_than_their_bytes() {
    let most = OUTSTANDING_BYTES_MAX as usize / super::FRAME_BYTES * 4 + 4 * super::READ_BYTES;
    flood("1\n".into(), most).await;
}

#[tokio::test(start_paused = true)]
async fn what_a_held_batch_counts_is_given_back_by_its_drop() {
    let (mut agent, stdout) = duplex(64 * 1024);
    let (tx, mut rx) = mpsc::channel(super::BATCHES_MAX);
    let _reader = tokio::spawn(read_frames(stdout, tx));
    let line = format!("{}\n", update(&"z".repeat(50_000)));
    let _writer = tokio::spawn(async move { while agent.write_all(line.as_bytes()).await.is_ok() {} });
    let mut held = Vec::new();
    while let Ok(batch) = timeout(LONG, rx.recv()).await {
        held.push(batch.unwrap());
        assert!(held.len() < 100, "held batches bound what is read");
    }
    held.clear();
    assert!(timeout(LONG, rx.recv()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_reader_without_a_listener_ends_while_the_agent_is_silent() {
    let (_agent, stdout) = duplex(64);
    let (tx, rx) = mpsc::channel(1);
    let reader = tokio::spawn(read_frames(stdout, tx));
    drop(rx);
    assert!(matches!(timeout(LONG, reader).await.unwrap().unwrap(), ReaderEnd::Unheard));
}

#[tokio::test(start_paused = true)]
async fn a_pipe_that_breaks_is_told_with_its_cause() {
    struct Broken;
    impl AsyncRead for Broken {
        fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Err(io::ErrorKind::PermissionDenied.into()))
        }
    }
    let (tx, _rx) = mpsc::channel(1);
    let end = read_frames(Broken, tx).await;
    assert!(matches!(end, ReaderEnd::Failed(error) if error.kind() == io::ErrorKind::PermissionDenied));
}

#[tokio::test(start_paused = true)]
async fn a_partial_line_is_never_taken_for_a_message() {
    let (frames, end) = read_all(update("whole").as_bytes()).await;
    let [Frame::Notice(notice)] = &frames[..] else { panic!("{frames:?}") };
    assert_eq!((notice.reason, notice.text.as_str()), (NoticeReason::Partial, update("whole").as_str()));
    assert!(matches!(end, ReaderEnd::Closed));
}

#[test]
fn room_is_made_for_a_flood_and_given_back_after_it() {
    let check = |room, read, expect| assert_eq!(room_after(room, read), expect, "{read} of {room}");
    check(READ_BYTES_IDLE, 100, READ_BYTES_IDLE);
    check(READ_BYTES_IDLE, READ_BYTES_IDLE - 1, READ_BYTES_IDLE);
    check(READ_BYTES_IDLE, READ_BYTES_IDLE, READ_BYTES);
    check(READ_BYTES, READ_BYTES, READ_BYTES);
    check(READ_BYTES, READ_BYTES_IDLE, READ_BYTES);
    check(READ_BYTES, 100, READ_BYTES_IDLE);
}
