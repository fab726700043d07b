//! The messages that wait for a session's turn, and what is to be done with the first (CONTRACT §8.7). Pure.
//!
//! A message is in the queue's file until the log names it: the log decides. So a message that is being sent stays in
//! the file until its lines are flushed, the next one is not sent before the file was stored without it, and of all the
//! messages that the log ever named only the last can still be in the file.

use crate::session::{handle::SessionError, turn::Turn};
use maestro_protocol::{
    Author, Queue as QueueView, QueueHold, QueueItem, QueueItemId, QueuePreview, QueueState, RequestMark,
    Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{collections::VecDeque, sync::Arc};

/// Messages that may wait. More than a person keeps an eye on; the next is refused.
pub(crate) const ITEMS_MAX: usize = 64;

/// Bytes of content, as JSON, that may wait: two of the longest messages. They are kept in memory and stored as one
/// file at each change.
pub(crate) const BYTES_MAX: usize = 32 * 1024 * 1024;

/// Requests with an `Idempotency-Key` whose answers are remembered.
const ANSWERED_MAX: usize = 256;

/// How long an `Idempotency-Key` is remembered.
pub(crate) const KEY_KEPT_MS: i64 = 24 * 60 * 60 * 1000;

/// Characters of a message that the live state shows.
const PREVIEW_CHARS: usize = 500;

/// The content of `<id>.queue.json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoredQueue {
    /// What waits, the next first.
    #[serde(default)]
    pub(crate) items: Vec<Arc<QueueItem>>,
    /// What was added with an `Idempotency-Key`, oldest first, also when it waits no more.
    #[serde(default)]
    pub(crate) answered: VecDeque<Answered>,
}

/// The answer to a request that added a message, but for the content, which a retry brings again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Answered {
    pub(crate) request: RequestMark,
    pub(crate) item: QueueItemId,
    pub(crate) at: Timestamp,
    pub(crate) by: Author,
}

/// Whether two requests with the same key are the same.
pub(crate) fn same(first: &RequestMark, retry: &RequestMark) -> Result<(), SessionError> {
    if first.body == retry.body { Ok(()) } else { Err(SessionError::KeyReused) }
}

/// Whether a key that was used at `then` is still remembered.
pub(crate) fn is_kept(then: Timestamp, now: Timestamp) -> bool {
    now.as_millisecond().saturating_sub(then.as_millisecond()) < KEY_KEPT_MS
}

/// How the session stands, as far as it matters here.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stand {
    pub(super) life: Life,
    pub(super) turn: Turn,
    /// An approval waits for its answer.
    pub(super) asked: bool,
    /// A prompt of a person goes first, or the log takes no lines.
    pub(super) blocked: bool,
}

/// A session's status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    Dead,
    Starting,
    Running,
}

/// What is to be done with the first message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// There is none.
    Nothing,
    /// Its time comes by itself.
    Wait,
    /// It needs a person, or an answer.
    Held(QueueHold),
    /// Store the file first: it still holds a message that the log names.
    Store,
    /// Send it now.
    Send,
}

/// The messages of one session. Cheap to clone, so that a change can be stored before it is made.
#[derive(Debug, Clone, Default)]
pub(super) struct Queue {
    items: Vec<Waiting>,
    answered: VecDeque<Answered>,
    /// The message whose lines are in the log and not flushed yet.
    named: Option<Waiting>,
    /// The file holds a message that the log names.
    behind: bool,
    /// What keeps the first message from being sent until a person says go.
    held: Option<QueueHold>,
    /// The disk refused the last try; the next one comes with the clock.
    stuck: bool,
    /// Counts the changes of the items.
    revision: u64,
}

#[derive(Debug, Clone)]
struct Waiting {
    item: Arc<QueueItem>,
    bytes: usize,
}

impl Waiting {
    fn new(item: Arc<QueueItem>) -> Self {
        let bytes = serde_json::to_vec(&item.content).map_or(usize::MAX, |json| json.len());
        Self { item, bytes }
    }
}

impl Queue {
    /// The queue as the file has it, without what the log has. `held` is why it is held, if anything waits.
    pub(super) fn open(stored: StoredQueue, sent: Option<QueueItemId>, held: Option<QueueHold>) -> Self {
        let is_sent = |item: &Arc<QueueItem>| Some(item.id) == sent;
        let behind = stored.items.iter().any(is_sent);
        let items = stored.items.into_iter().filter(|item| !is_sent(item)).map(Waiting::new).collect();
        let mut queue = Self { items, answered: stored.answered, behind, revision: 1, ..Self::default() };
        queue.hold(held);
        queue
    }

    /// What the file is to hold.
    pub(super) fn stored(&self) -> StoredQueue {
        let items = self.named.iter().chain(&self.items).map(|waiting| Arc::clone(&waiting.item)).collect();
        StoredQueue { items, answered: self.answered.clone() }
    }

    /// The file holds what [`Queue::stored`] says.
    pub(super) fn file_stored(&mut self) {
        (self.behind, self.stuck) = (false, false);
    }

    /// Whether the file has to be stored for the next message to go.
    pub(super) fn is_behind(&self) -> bool {
        self.behind
    }

    // === What people do ===

    /// The answer to an earlier request with this key, for a request with this content.
    pub(super) fn answer_to(
        &self,
        retry: &RequestMark,
        content: &[Value],
        now: Timestamp,
    ) -> Option<Result<QueueItem, SessionError>> {
        let mut known = self.answered.iter().rev().filter(|first| is_kept(first.at, now));
        let first = known.find(|first| first.request.key == retry.key)?;
        Some(same(&first.request, retry).map(|()| QueueItem {
            id: first.item,
            content: content.to_vec(),
            created_at: first.at,
            by: first.by.clone(),
        }))
    }

    /// Adds a message behind the others.
    pub(super) fn add(&mut self, item: QueueItem, request: Option<RequestMark>) -> Result<(), SessionError> {
        if self.items.len() >= ITEMS_MAX {
            return Err(SessionError::QueueFull { limit: format!("{ITEMS_MAX} messages wait already") });
        }
        if let Some(request) = request {
            let (id, at, by) = (item.id, item.created_at, item.by.clone());
            self.answered.retain(|answered| is_kept(answered.at, at));
            if self.answered.len() >= ANSWERED_MAX {
                self.answered.pop_front();
            }
            self.answered.push_back(Answered { request, item: id, at, by });
        }
        self.items.push(Waiting::new(Arc::new(item)));
        self.revision += 1;
        self.fits()
    }

    /// Gives a message new content, a new place, or both.
    pub(super) fn edit(
        &mut self,
        id: QueueItemId,
        content: Option<Vec<Value>>,
        position: Option<u64>,
    ) -> Result<QueueItem, SessionError> {
        let place = self.place(id)?;
        self.revision += 1;
        if let Some(content) = content {
            let item = QueueItem { content, ..QueueItem::clone(&self.items[place].item) };
            self.items[place] = Waiting::new(Arc::new(item));
            self.fits()?;
        }
        let waiting = self.items.remove(place);
        let item = QueueItem::clone(&waiting.item);
        let place = position.map_or(place, |wanted| usize::try_from(wanted).unwrap_or(usize::MAX));
        self.items.insert(place.min(self.items.len()), waiting);
        Ok(item)
    }

    /// Takes a message out.
    pub(super) fn remove(&mut self, id: QueueItemId) -> Result<(), SessionError> {
        let place = self.place(id)?;
        self.items.remove(place);
        self.revision += 1;
        self.forget_hold();
        Ok(())
    }

    /// A person says go.
    pub(super) fn resume(&mut self) {
        self.held = None;
    }

    fn place(&self, id: QueueItemId) -> Result<usize, SessionError> {
        let place = self.items.iter().position(|waiting| waiting.item.id == id);
        place.ok_or(SessionError::NoSuchItem)
    }

    fn fits(&self) -> Result<(), SessionError> {
        let bytes = self.items.iter().fold(0_usize, |sum, waiting| sum.saturating_add(waiting.bytes));
        if bytes <= BYTES_MAX {
            return Ok(());
        }
        Err(SessionError::QueueFull { limit: format!("at most {} MiB may wait", BYTES_MAX >> 20) })
    }

    // === What happens to the session ===

    /// Keeps what waits from being sent until a person says go. What is added to an empty queue is a person's wish of
    /// that moment, so an empty queue is never held.
    pub(super) fn hold(&mut self, why: Option<QueueHold>) {
        self.held = why.or(self.held);
        self.forget_hold();
    }

    fn forget_hold(&mut self) {
        self.held = self.held.filter(|_| !self.items.is_empty());
    }

    /// What is to be done with the first message.
    pub(super) fn next(&self, stand: Stand) -> Next {
        let waits = stand.turn != Turn::Idle || stand.blocked || self.named.is_some() || self.stuck;
        match (stand.life, self.held) {
            _ if self.items.is_empty() => Next::Nothing,
            (Life::Dead, _) => Next::Held(QueueHold::Ended),
            (_, Some(why)) => Next::Held(why),
            (Life::Starting, None) => Next::Wait,
            (Life::Running, None) if stand.asked => Next::Held(QueueHold::Approval),
            (Life::Running, None) if waits => Next::Wait,
            (Life::Running, None) if self.behind => Next::Store,
            (Life::Running, None) => Next::Send,
        }
    }

    /// Takes the first message, which the log is about to name.
    pub(super) fn name_next(&mut self) -> Option<Arc<QueueItem>> {
        if self.items.is_empty() || self.named.is_some() {
            return None;
        }
        let first = self.items.remove(0);
        self.revision += 1;
        self.named = Some(first.clone());
        self.forget_hold();
        Some(first.item)
    }

    /// The log could not name it: it waits again, for the next try.
    pub(super) fn unname(&mut self) {
        if let Some(named) = self.named.take() {
            self.items.insert(0, named);
            self.revision += 1;
            self.stuck = true;
        }
    }

    /// The lines that name a message are on the disk. Whether they are of the one that was being sent.
    pub(super) fn confirm(&mut self, id: QueueItemId) -> bool {
        let is_named = self.named.as_ref().is_some_and(|named| named.item.id == id);
        if is_named {
            self.named = None;
            self.behind = true;
        }
        is_named
    }

    /// The disk refused the file.
    pub(super) fn set_stuck(&mut self) {
        self.stuck = true;
    }

    /// Whether the disk is to be tried again, which is then no longer to be waited for.
    pub(super) fn is_stuck(&self) -> bool {
        self.stuck
    }

    pub(super) fn try_again(&mut self) {
        self.stuck = false;
    }

    // === What people see ===

    /// The whole of it.
    pub(super) fn view(&self, stand: Stand) -> QueueView {
        let items = self.items.iter().map(|waiting| QueueItem::clone(&waiting.item)).collect();
        QueueView { items, held: self.why_held(stand) }
    }

    /// The part that the live state shows.
    pub(super) fn preview(&self, held: Option<QueueHold>) -> QueueState {
        let items = self.items.iter().map(|waiting| preview(&waiting.item)).collect();
        QueueState { items, held }
    }

    /// Which items these are: another number after each change of them.
    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    /// Why the first message is not sent, if that needs somebody.
    pub(super) fn why_held(&self, stand: Stand) -> Option<QueueHold> {
        match self.next(stand) {
            Next::Held(why) => Some(why),
            Next::Nothing | Next::Wait | Next::Store | Next::Send => None,
        }
    }
}

fn preview(item: &QueueItem) -> QueuePreview {
    let whole = item.content.iter().find_map(|block| block["text"].as_str()).unwrap_or_default();
    let text: String = whole.chars().take(PREVIEW_CHARS).collect();
    let cut = text.len() < whole.len() || item.content.len() > 1;
    QueuePreview { id: item.id, text, cut, created_at: item.created_at, by: item.by.clone() }
}

#[cfg(test)]
mod tests;
