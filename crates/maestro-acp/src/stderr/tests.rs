use super::{SETTLE, StderrTail, TAIL_BYTES, plain_text};
use tokio::{
    io::{AsyncWriteExt as _, duplex},
    time::Instant,
};

async fn tail_of(output: &[u8]) -> String {
    let (mut agent, stderr) = duplex(4096);
    let tail = StderrTail::drain(stderr);
    agent.write_all(output).await.unwrap();
    drop(agent);
    tail.text().await
}

#[tokio::test(start_paused = true)]
async fn the_whole_of_a_short_output_is_kept() {
    assert_eq!(tail_of(b"").await, "");
    assert_eq!(tail_of("naïve\nerror\n".as_bytes()).await, "naïve\nerror\n");
    assert_eq!(tail_of(b"a\xffb").await, "a\u{fffd}b");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_flood_is_kept() {
    let flood = format!("{}the end", "é".repeat(1_000_000));
    let text = tail_of(flood.as_bytes()).await;
    assert!(text.len() <= TAIL_BYTES && text.len() >= TAIL_BYTES - 3);
    assert!(text.starts_with('é') && text.ends_with("the end"));
}

#[tokio::test(start_paused = true)]
async fn a_pipe_that_a_descendant_holds_is_not_waited_for() {
    let (mut agent, stderr) = duplex(4096);
    let tail = StderrTail::drain(stderr);
    agent.write_all(b"last words").await.unwrap();
    let before = Instant::now();
    assert_eq!(tail.text().await, "last words");
    assert_eq!(before.elapsed(), SETTLE);
}

#[test]
fn colours_and_control_characters_are_left_out() {
    let check = |text: &str, expect: &str| assert_eq!(plain_text(text), expect, "{text:?}");
    check("\u{1b}[31mError\u{1b}[0m: no\tlogin\r\n", "Error: no\tlogin\n");
    check("\u{1b}[1;38;5;9mx\u{1b}[K", "x");
    check("\u{1b}]0;title\u{7}x", "]0;titlex");
    check("a\u{9b}b\u{0}c\u{7f}", "abc");
    check("\u{1b}[", "");
    check("\u{1b}[31", "");
}
