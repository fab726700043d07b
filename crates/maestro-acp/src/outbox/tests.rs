use super::{MESSAGES_MAX, Outbox, OutboxEnd, SendError, WRITE_TIMEOUT};
use std::{io, time::Duration};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader, DuplexStream, duplex},
    time::{Instant, timeout},
};

/// An outbox to an agent whose pipe holds `pipe` bytes.
fn outbox(pipe: usize) -> (Outbox, DuplexStream) {
    let (stdin, agent) = duplex(pipe);
    let (outbox, writer) = Outbox::new(stdin);
    tokio::spawn(writer);
    (outbox, agent)
}

#[tokio::test(start_paused = true)]
async fn messages_go_out_in_order_each_on_a_line() {
    let (outbox, mut agent) = outbox(64);
    outbox.send(b"one".to_vec()).unwrap();
    outbox.send(b"two".to_vec()).unwrap();
    outbox.close();
    let mut text = String::new();
    agent.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "one\ntwo\n");
    assert_eq!(outbox.ended().await, OutboxEnd::Closed);
    assert_eq!(outbox.ended().await, OutboxEnd::Closed);
    assert_eq!(outbox.send(b"three".to_vec()), Err(SendError::Closed));
}

#[tokio::test(start_paused = true)]
async fn stdin_closes_when_the_last_handle_is_gone() {
    let (outbox, mut agent) = outbox(64);
    outbox.send(b"last".to_vec()).unwrap();
    drop(outbox);
    let mut text = String::new();
    agent.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "last\n");
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_does_not_read_fills_the_outbox_and_then_ends_it() {
    let (outbox, agent) = outbox(16);
    let before = Instant::now();
    // The writer holds the first message; as many as may wait do.
    outbox.send(vec![b'x'; 100]).unwrap();
    tokio::task::yield_now().await;
    for _ in 0..MESSAGES_MAX {
        outbox.send(b"waits".to_vec()).unwrap();
    }
    assert!(!outbox.has_room());
    assert_eq!(outbox.send(b"one too many".to_vec()), Err(SendError::Full));
    outbox.room().await;
    assert!(outbox.has_room(), "an outbox that ended takes everything, and says so");
    assert_eq!(outbox.ended().await, OutboxEnd::TimedOut);
    assert_eq!(before.elapsed(), WRITE_TIMEOUT);
    assert_eq!(outbox.send(b"late".to_vec()), Err(SendError::Closed));
    drop(agent);
}

#[tokio::test(start_paused = true)]
async fn a_slow_agent_gets_a_large_message_whole() {
    let (outbox, mut agent) = outbox(1024);
    let message = vec![b'x'; 50 * 1024];
    outbox.send(message.clone()).unwrap();
    outbox.close();
    let mut read = Vec::new();
    let mut part = [0; 1024];
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        match agent.read(&mut part).await.unwrap() {
            0 => break,
            n => read.extend_from_slice(&part[..n]),
        }
    }
    assert_eq!(read.len(), message.len() + 1);
    assert_eq!(outbox.ended().await, OutboxEnd::Closed);
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_is_gone_breaks_it() {
    let (outbox, agent) = outbox(16);
    drop(agent);
    outbox.send(b"anybody?".to_vec()).unwrap();
    assert_eq!(outbox.ended().await, OutboxEnd::Broken(io::ErrorKind::BrokenPipe));
    assert_eq!(outbox.send_when_free(b"hello?".to_vec()).await, Err(SendError::Closed));
}

#[tokio::test(start_paused = true)]
async fn answers_wait_for_room_within_a_bound() {
    let (outbox, agent) = outbox(16);
    for _ in 0..=MESSAGES_MAX {
        outbox.send_when_free(vec![b'x'; 100]).await.unwrap();
    }
    let waiting = {
        let outbox = outbox.clone();
        tokio::spawn(async move { outbox.send_when_free(b"patient".to_vec()).await })
    };
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    let mut lines = BufReader::new(agent).lines();
    let read = async { while lines.next_line().await.unwrap().is_some_and(|line| line != "patient") {} };
    timeout(WRITE_TIMEOUT, read).await.unwrap();
    assert_eq!(waiting.await.unwrap(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn closing_does_not_wait_for_an_agent_that_does_not_read() {
    let (outbox, agent) = outbox(16);
    outbox.send(vec![b'x'; 100]).unwrap();
    outbox.close();
    outbox.close();
    tokio::task::yield_now().await;
    assert_eq!(outbox.ended().await, OutboxEnd::TimedOut);
    drop(agent);
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_was_stopped_counts_as_closed() {
    let (stdin, _agent) = duplex(16);
    let (outbox, writer) = Outbox::new(stdin);
    drop(writer);
    assert_eq!(outbox.ended().await, OutboxEnd::Closed);
    assert_eq!(outbox.send(b"x".to_vec()), Err(SendError::Closed));
}
