//! Messages that wait for a session's turn.

use super::{block_text, cut, lines_of};
use crate::terminal::{Paint, clean_line};
use maestro_protocol::{Queue, QueueHold, QueueItem, QueueItemId, SessionId};

/// Characters of a waiting message that are shown.
const TEXT_CHARS_MAX: usize = 200;

/// What waits, the next first; nothing where nothing does.
pub(crate) fn waiting(queue: &Queue, id: SessionId, paint: Paint) -> Option<String> {
    let why = match queue.held {
        Some(why) => format!(", {}", words(why, id)),
        None => String::new(),
    };
    let head = paint.dim(&format!("{}{why}:", count(queue)?));
    let items =
        queue.items.iter().enumerate().map(|(place, item)| format!("{:>3}  {}", place + 1, line(item)));
    Some(lines_of(std::iter::once(head).chain(items)))
}

/// Why what waits is held, and how to go on; nothing where it is not, or goes on by itself.
pub(crate) fn held(queue: &Queue, id: SessionId) -> Option<String> {
    let why = queue.held.filter(|why| *why != QueueHold::Approval)?;
    Some(format!("{}, {}", count(queue)?, words(why, id)))
}

/// What became of a message that was added.
pub(crate) fn added(queue: &Queue, item: QueueItemId, id: SessionId) -> String {
    let Some(place) = queue.items.iter().position(|waiting| waiting.id == item) else {
        return format!("sent to {id}: nothing was before it");
    };
    let before = match place {
        0 => "it is the next".to_owned(),
        1 => "1 message is before it".to_owned(),
        n => format!("{n} messages are before it"),
    };
    match held(queue, id) {
        Some(held) => format!("it waits for {id}: {before}; {held}"),
        None => format!("it waits for {id}: {before}"),
    }
}

fn count(queue: &Queue) -> Option<String> {
    match queue.items.len() {
        0 => None,
        1 => Some("1 message waits".into()),
        n => Some(format!("{n} messages wait")),
    }
}

fn words(why: QueueHold, id: SessionId) -> String {
    let because = match why {
        QueueHold::Approval => return "until the approval has its answer".into(),
        QueueHold::Cancelled => "held because a turn was cancelled;",
        QueueHold::Failed => "held because a turn failed;",
        QueueHold::Ended => "held because the session ended; when it runs,",
    };
    format!("{because} send with: maestro prompt {id} --resume")
}

/// A message on one line.
fn line(item: &QueueItem) -> String {
    let blocks = item.content.iter().map(block_text).collect::<Vec<_>>().join(" ");
    cut(&clean_line(&blocks.split_whitespace().collect::<Vec<_>>().join(" ")), TEXT_CHARS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use maestro_protocol::{Author, Timestamp};
    use serde_json::{Value, json};

    const ID: &str = "8f14e45f-ceea-467f-a8f3-1d6d0e3b2c11";

    fn queue(contents: &[Value], held: Option<QueueHold>) -> Queue {
        let item = |(number, content): (usize, &Value)| QueueItem {
            id: format!("00000000-0000-4000-8000-00000000000{number}").parse().unwrap(),
            content: content.as_array().unwrap().clone(),
            created_at: Timestamp::from_millisecond(0),
            by: Author { account: "owner@localhost".into(), client: "cli".into() },
        };
        Queue { items: contents.iter().enumerate().map(item).collect(), held }
    }

    fn two(held: Option<QueueHold>) -> Queue {
        let long = "x".repeat(300);
        queue(
            &[
                json!([{"type": "text", "text": "first\nof two\u{1b}[2J"}, {"type": "image", "mimeType": "image/png"}]),
                json!([{"type": "text", "text": long}]),
            ],
            held,
        )
    }

    #[test]
    fn what_waits_is_shown_with_the_way_to_go_on() {
        let check = |queue: &Queue, expect: Option<&str>| {
            let shown = waiting(queue, ID.parse().unwrap(), Paint::Plain);
            assert_eq!(shown.as_deref(), expect);
        };
        let items = format!("  1  first of two [image image/png]\n  2  {}…\n", "x".repeat(199));
        check(&queue(&[], None), None);
        check(&two(None), Some(&format!("2 messages wait:\n{items}")));
        let why = "until the approval has its answer";
        check(&two(Some(QueueHold::Approval)), Some(&format!("2 messages wait, {why}:\n{items}")));
        let why = format!("held because a turn was cancelled; send with: maestro prompt {ID} --resume");
        check(&two(Some(QueueHold::Cancelled)), Some(&format!("2 messages wait, {why}:\n{items}")));
    }

    #[test]
    fn an_added_message_is_told_its_place() {
        let check = |queue: &Queue, number: u32, expect: &str| {
            let item = format!("00000000-0000-4000-8000-00000000000{number}").parse().unwrap();
            assert_eq!(added(queue, item, ID.parse().unwrap()), expect);
        };
        check(&two(None), 9, &format!("sent to {ID}: nothing was before it"));
        check(&two(None), 0, &format!("it waits for {ID}: it is the next"));
        let held =
            format!("held because the session ended; when it runs, send with: maestro prompt {ID} --resume");
        check(
            &two(Some(QueueHold::Ended)),
            1,
            &format!("it waits for {ID}: 1 message is before it; 2 messages wait, {held}"),
        );
    }
}
