use super::*;
use proptest::prelude::*;
use serde_json::json;
use uuid::Uuid;

fn id(number: u128) -> QueueItemId {
    QueueItemId::from_uuid(Uuid::from_u128(number))
}

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(ms)
}

fn by() -> Author {
    Author { account: "owner@localhost".into(), client: "cli".into() }
}

fn item(number: u128, text: &str) -> QueueItem {
    QueueItem {
        id: id(number),
        content: vec![json!({"type": "text", "text": text})],
        created_at: at(1_000),
        by: by(),
    }
}

fn mark(key: &str, body: &str) -> RequestMark {
    RequestMark { key: key.into(), body: body.into() }
}

fn queue_of(numbers: impl IntoIterator<Item = u128>) -> Queue {
    let mut queue = Queue::default();
    for number in numbers {
        queue.add(item(number, "text"), None).unwrap();
    }
    queue
}

fn order(queue: &Queue) -> Vec<QueueItemId> {
    queue.items.iter().map(|waiting| waiting.item.id).collect()
}

const FREE: Stand = Stand { life: Life::Running, turn: Turn::Idle, asked: false, blocked: false };

#[test]
fn the_first_message_goes_when_nothing_stands_in_its_way() {
    #[track_caller]
    fn check(change: impl FnOnce(&mut Queue), stand: Stand, expect: Next) {
        let mut queue = queue_of([1, 2]);
        change(&mut queue);
        assert_eq!(queue.next(stand), expect);
    }
    check(|_| {}, FREE, Next::Send);
    check(|queue| *queue = Queue::default(), FREE, Next::Nothing);
    for turn in [Turn::Committing, Turn::Dispatched, Turn::Cancelling, Turn::Own, Turn::Withdrawing] {
        check(|_| {}, Stand { turn, ..FREE }, Next::Wait);
    }
    check(|_| {}, Stand { life: Life::Starting, turn: Turn::Dead, ..FREE }, Next::Wait);
    check(|_| {}, Stand { life: Life::Dead, turn: Turn::Dead, ..FREE }, Next::Held(QueueHold::Ended));
    check(|_| {}, Stand { asked: true, ..FREE }, Next::Held(QueueHold::Approval));
    check(|_| {}, Stand { asked: true, turn: Turn::Dispatched, ..FREE }, Next::Held(QueueHold::Approval));
    check(|_| {}, Stand { blocked: true, ..FREE }, Next::Wait);
    for why in [QueueHold::Cancelled, QueueHold::Failed, QueueHold::Ended] {
        check(|queue| queue.hold(Some(why)), FREE, Next::Held(why));
        check(|queue| queue.hold(Some(why)), Stand { life: Life::Starting, ..FREE }, Next::Held(why));
        check(
            |queue| {
                queue.hold(Some(why));
                queue.resume();
            },
            FREE,
            Next::Send,
        );
    }
    check(Queue::set_stuck, FREE, Next::Wait);
    check(|queue| drop(queue.name_next()), FREE, Next::Wait);
}

#[test]
fn the_next_message_waits_until_the_file_is_stored_without_the_last() {
    let mut queue = queue_of([1, 2]);
    assert_eq!(queue.name_next().unwrap().id, id(1));
    assert_eq!(queue.stored().items.len(), 2, "until its lines are flushed it stays in the file");
    assert!(queue.confirm(id(1)));
    assert!(!queue.confirm(id(1)), "once");
    assert_eq!(queue.stored().items.len(), 1);
    assert_eq!(queue.next(FREE), Next::Store);
    let reopened = Queue::open(queue_of([1, 2]).stored(), Some(id(1)), None);
    assert_eq!((order(&reopened), reopened.next(FREE)), (vec![id(2)], Next::Store));
    queue.file_stored();
    assert_eq!(queue.next(FREE), Next::Send);
}

#[test]
fn an_empty_queue_is_never_held() {
    let mut queue = Queue::default();
    queue.hold(Some(QueueHold::Cancelled));
    queue.add(item(1, "after the cancel"), None).unwrap();
    assert_eq!(queue.next(FREE), Next::Send);
    queue.hold(Some(QueueHold::Failed));
    queue.remove(id(1)).unwrap();
    queue.add(item(2, "a new wish"), None).unwrap();
    assert_eq!(queue.next(FREE), Next::Send);
}

#[test]
fn a_message_is_edited_moved_and_removed() {
    #[track_caller]
    fn check(number: u128, position: Option<u64>, expect: &[u128]) {
        let mut queue = queue_of([1, 2, 3]);
        let edited = queue.edit(id(number), None, position).unwrap();
        assert_eq!(edited.id, id(number));
        assert_eq!(order(&queue), expect.iter().map(|number| id(*number)).collect::<Vec<_>>());
    }
    check(3, Some(0), &[3, 1, 2]);
    check(1, Some(1), &[2, 1, 3]);
    check(1, Some(u64::MAX), &[2, 3, 1]);
    check(2, None, &[1, 2, 3]);

    let mut queue = queue_of([1, 2]);
    let edited = queue.edit(id(2), Some(vec![json!({"type": "text", "text": "new"})]), None).unwrap();
    assert_eq!((&edited.content[0]["text"], edited.created_at), (&json!("new"), at(1_000)));
    assert_eq!(queue.edit(id(9), None, Some(0)), Err(SessionError::NoSuchItem));
    queue.remove(id(1)).unwrap();
    assert_eq!(queue.remove(id(1)), Err(SessionError::NoSuchItem));
    assert_eq!(order(&queue), [id(2)]);
}

#[test]
fn a_queue_is_bounded_in_number_and_bytes() {
    let mut queue = queue_of(0..ITEMS_MAX as u128);
    assert!(matches!(queue.add(item(99, "one more"), None), Err(SessionError::QueueFull { .. })));
    let half = "x".repeat(BYTES_MAX / 2);
    let mut queue = Queue::default();
    queue.add(item(1, &half), None).unwrap();
    assert!(matches!(queue.clone().add(item(2, &half), None), Err(SessionError::QueueFull { .. })));
    queue.add(item(2, "short"), None).unwrap();
    let long = vec![json!({"type": "text", "text": half})];
    assert!(matches!(queue.edit(id(2), Some(long), None), Err(SessionError::QueueFull { .. })));
}

#[test]
fn a_retry_gets_the_first_answer_also_when_the_message_was_sent() {
    let mut queue = Queue::default();
    queue.add(item(1, "text"), Some(mark("k", "b"))).unwrap();
    queue.edit(id(1), Some(vec![json!({"type": "text", "text": "edited"})]), None).unwrap();
    let content = item(1, "text").content;
    let check = |answer: Option<Result<QueueItem, SessionError>>, expect| assert_eq!(answer, expect);
    for _ in 0..2 {
        let ask = |request: RequestMark, now| queue.answer_to(&request, &content, now);
        check(ask(mark("k", "b"), at(2_000)), Some(Ok(item(1, "text"))));
        check(ask(mark("k", "other"), at(2_000)), Some(Err(SessionError::KeyReused)));
        check(ask(mark("other", "b"), at(2_000)), None);
        check(ask(mark("k", "b"), at(1_000 + KEY_KEPT_MS)), None);
        // What was sent is answered still, from the file too.
        queue.name_next();
        queue.confirm(id(1));
        queue = Queue::open(queue.stored(), Some(id(1)), None);
    }
    for number in 0..2 * ANSWERED_MAX as u128 {
        queue.add(item(2, "text"), Some(mark(&number.to_string(), "b"))).unwrap();
        queue.remove(id(2)).unwrap();
    }
    assert_eq!(queue.answered.len(), ANSWERED_MAX);
}

#[test]
fn the_live_state_shows_the_beginning() {
    #[track_caller]
    fn check(content: &serde_json::Value, text: &str, cut: bool) {
        let content = content.as_array().unwrap().clone();
        let shown = preview(&QueueItem { content, ..item(1, "") });
        assert_eq!((shown.text.as_str(), shown.cut), (text, cut));
    }
    check(&json!([{"type": "text", "text": "hi"}]), "hi", false);
    check(&json!([{"type": "image"}, {"type": "text", "text": "hi"}]), "hi", true);
    let long = "é".repeat(PREVIEW_CHARS + 1);
    check(&json!([{"type": "text", "text": long}]), &"é".repeat(PREVIEW_CHARS), true);
}

/// The stored form. A change here must still read what was written before.
#[test]
fn the_queue_file_is_as_documented() {
    let file = json!({
        "items": [{
            "id": "00000000-0000-0000-0000-000000000001",
            "content": [{"type": "text", "text": "text"}],
            "created_at": "1970-01-01T00:00:01Z",
            "by": {"account": "owner@localhost", "client": "cli"}
        }],
        "answered": [{
            "request": {"key": "k", "body": "cbf29ce484222325"},
            "item": "00000000-0000-0000-0000-000000000001",
            "at": "1970-01-01T00:00:01Z",
            "by": {"account": "owner@localhost", "client": "cli"}
        }]
    });
    let mut queue = Queue::default();
    queue.add(item(1, "text"), Some(mark("k", "cbf29ce484222325"))).unwrap();
    assert_eq!(serde_json::to_value(queue.stored()).unwrap(), file);
    assert_eq!(serde_json::from_value::<StoredQueue>(file).unwrap(), queue.stored());
    assert_eq!(serde_json::from_value::<StoredQueue>(json!({})).unwrap(), StoredQueue::default());
}

/// What happens to a queue, its file and its log.
#[derive(Debug, Clone, Copy)]
enum Event {
    Add,
    Remove(usize),
    Move(usize, u64),
    /// The actor looks at the first message; the log takes its lines, or refuses them.
    Serve {
        log_takes: bool,
    },
    Flushed,
    Stored,
    TurnEnds,
    Hold,
    Resume,
    Retry,
    /// The daemon is killed; what it had appended may or may not have reached the disk.
    Crash {
        lines_survive: bool,
    },
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => Just(Event::Add),
        1 => (0..4_usize).prop_map(Event::Remove),
        1 => (0..4_usize, 0..4_u64).prop_map(|(place, to)| Event::Move(place, to)),
        6 => any::<bool>().prop_map(|log_takes| Event::Serve { log_takes }),
        5 => Just(Event::Flushed),
        4 => Just(Event::Stored),
        5 => Just(Event::TurnEnds),
        1 => Just(Event::Hold),
        3 => Just(Event::Resume),
        1 => Just(Event::Retry),
        2 => any::<bool>().prop_map(|lines_survive| Event::Crash { lines_survive }),
    ]
}

/// A session's queue in memory, its file and its log on the disk.
#[derive(Default)]
struct World {
    queue: Queue,
    file: StoredQueue,
    /// Messages whose lines are on the disk, and the one whose lines are in the log only.
    log: Vec<QueueItemId>,
    unflushed: Option<QueueItemId>,
    busy: bool,
    added: Vec<QueueItemId>,
    removed: Vec<QueueItemId>,
}

impl World {
    /// As the actor does: stored, then changed.
    fn change(&mut self, change: impl FnOnce(&mut Queue)) {
        let mut next = self.queue.clone();
        change(&mut next);
        self.file = next.stored();
        next.file_stored();
        self.queue = next;
    }

    fn stand(&self) -> Stand {
        Stand { turn: if self.busy { Turn::Dispatched } else { Turn::Idle }, ..FREE }
    }

    fn on(&mut self, event: Event) {
        match event {
            Event::Add => {
                let number = id(self.added.len() as u128);
                self.change(|queue| queue.add(QueueItem { id: number, ..item(0, "x") }, None).unwrap());
                self.added.push(number);
            }
            Event::Remove(place) => {
                if let Some(gone) = order(&self.queue).get(place).copied() {
                    self.change(|queue| queue.remove(gone).unwrap());
                    self.removed.push(gone);
                }
            }
            Event::Move(place, to) => {
                if let Some(moved) = order(&self.queue).get(place).copied() {
                    self.change(|queue| drop(queue.edit(moved, None, Some(to)).unwrap()));
                }
            }
            Event::Serve { log_takes } => {
                if self.queue.next(self.stand()) == Next::Store {
                    self.on(Event::Stored);
                }
                if self.queue.next(self.stand()) != Next::Send {
                    return;
                }
                let named = self.queue.name_next().unwrap().id;
                if log_takes {
                    (self.unflushed, self.busy) = (Some(named), true);
                } else {
                    self.queue.unname();
                }
            }
            Event::Flushed => {
                if let Some(named) = self.unflushed.take() {
                    self.log.push(named);
                    assert!(self.queue.confirm(named));
                }
            }
            Event::Stored => {
                if self.queue.is_behind() {
                    self.file = self.queue.stored();
                    self.queue.file_stored();
                }
            }
            Event::TurnEnds => self.busy = self.unflushed.is_some(),
            Event::Hold => self.queue.hold(Some(QueueHold::Cancelled)),
            Event::Resume => self.queue.resume(),
            Event::Retry => self.queue.try_again(),
            Event::Crash { lines_survive } => {
                if let Some(named) = self.unflushed.take().filter(|_| lines_survive) {
                    self.log.push(named);
                }
                let sent = self.log.last().copied();
                self.queue = Queue::open(self.file.clone(), sent, Some(QueueHold::Ended));
                self.busy = false;
            }
        }
    }
}

proptest! {
    /// Whenever the daemon is killed: every message that was added is in the queue, in the log or was taken out by a
    /// person, in exactly one of them, and none is sent twice.
    #[test]
    fn no_message_is_lost_or_sent_twice(events in prop::collection::vec(any_event(), 0..120)) {
        let mut world = World::default();
        for event in events {
            world.on(event);
            let mut places = [order(&world.queue), world.log.clone(), world.removed.clone()].concat();
            places.extend(world.unflushed);
            places.sort_unstable();
            prop_assert_eq!(&places, &world.added, "after {:?}", event);
        }
        // Nothing is stuck for ever: what the actor does of itself, and one go, sends everything.
        world.on(Event::Resume);
        world.on(Event::Retry);
        for _ in 0..=world.added.len() {
            for event in [Event::Flushed, Event::TurnEnds, Event::Serve { log_takes: true }] {
                world.on(event);
            }
        }
        prop_assert_eq!(world.log.len() + world.removed.len(), world.added.len());
    }
}
