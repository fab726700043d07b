//! The floor of everything that streams: an agent's lines, each sent as one frame to every reader, and nothing else: no
//! log, no fold, no state, no accounts. A process of its own, so that its processor time can be read.

use crate::proc::listen;
use anyhow::{Context as _, Result};
use bytes::Bytes;
use std::{env, ffi::OsString, path::PathBuf, process::Stdio};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::UnixStream,
    process::Command,
    sync::mpsc,
};

pub(crate) const ARG: &str = "__relay";

/// Frames that wait for a reader; when they are full, the agent waits.
const WAITING: usize = 256;

/// Serves `socket`. Each line on standard input is a prompt: the number of readers to wait for, then what the agent is
/// told.
pub(crate) fn main(socket: Option<OsString>) -> Result<()> {
    let socket = PathBuf::from(socket.context("name a socket")?);
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?
        .block_on(serve(socket))
}

async fn serve(socket: PathBuf) -> Result<()> {
    let listener = listen(&socket)?;
    let mut prompts = BufReader::new(tokio::io::stdin()).lines();
    let mut readers: Vec<mpsc::Sender<Bytes>> = Vec::new();
    while let Some(prompt) = prompts.next_line().await? {
        let (count, words) = prompt.split_once(' ').context("a prompt has a number of readers")?;
        let count: usize = count.parse()?;
        while readers.len() < count {
            let (frames, waiting) = mpsc::channel(WAITING);
            tokio::spawn(send(listener.accept().await?.0, waiting));
            readers.push(frames);
        }
        relay(words, &readers).await?;
    }
    Ok(())
}

async fn relay(words: &str, readers: &[mpsc::Sender<Bytes>]) -> Result<()> {
    let mut agent = Command::new(env::current_exe()?)
        .arg(crate::agent::ARG)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut input = agent.stdin.take().context("no stdin")?;
    let prompt =
        serde_json::json!({"id": 1, "method": "session/prompt", "params": {"prompt": [{"text": words}]}});
    input.write_all(format!("{prompt}\n").as_bytes()).await?;
    let output = agent.stdout.take().context("no stdout")?;
    let mut output = BufReader::with_capacity(64 * 1024, output);
    let mut line = Vec::new();
    while output.read_until(b'\n', &mut line).await? > 0 {
        if line.starts_with(br#"{"jsonrpc":"2.0","id":1"#) {
            break;
        }
        let frame = frame(&line);
        for reader in readers {
            // A reader that has left misses nothing.
            reader.send(frame.clone()).await.ok();
        }
        line.clear();
    }
    Ok(())
}

/// A WebSocket text frame.
fn frame(line: &[u8]) -> Bytes {
    let mut frame = vec![0x81];
    if let Ok(length @ 0..126) = u8::try_from(line.len()) {
        frame.push(length);
    } else {
        frame.push(126);
        // Chunks are far below 64 KiB.
        frame.extend(u16::try_from(line.len()).unwrap_or(u16::MAX).to_be_bytes());
    }
    frame.extend_from_slice(line);
    frame.into()
}

async fn send(mut stream: UnixStream, mut waiting: mpsc::Receiver<Bytes>) {
    while let Some(frame) = waiting.recv().await {
        if stream.write_all(&frame).await.is_err() {
            return;
        }
    }
}
