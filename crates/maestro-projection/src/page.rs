//! Pages of history from a log and its index (CONTRACT §6.4). A page costs a stored state, the few lines after it, the
//! page's own lines, and of each row on it the lines since it was stored; not the log.

mod event;
mod rows;
mod state_text;

use crate::replay::{PAGE_BYTES, Page, Window};
use crate::touch::Action;
use event::Events;
use maestro_protocol::Cursor;
use std::collections::VecDeque;

/// A log with what an index keeps of it: the [`Marks`](crate::Marks) of each line. Cursors that are asked for are from 1
/// to [`History::last`].
pub trait History {
    /// Why it could not be read.
    type Error;

    /// The last line; 0 if there is none.
    fn last(&self) -> Cursor;

    /// Whether the line is an event.
    fn is_event(&mut self, cursor: Cursor) -> Result<bool, Self::Error>;

    /// Whether the fold of the state may pass over the line.
    fn is_quiet(&mut self, cursor: Cursor) -> Result<bool, Self::Error>;

    /// The line, without its newline.
    fn line(&mut self, cursor: Cursor) -> Result<&[u8], Self::Error>;

    /// What is kept of one of the line's touches; `None` if there is no such touch.
    fn link(&mut self, cursor: Cursor, place: u32) -> Result<Option<Link>, Self::Error>;

    /// The stored row of one of the line's touches.
    fn row_checkpoint(&mut self, cursor: Cursor, place: u32) -> Result<Option<Vec<u8>>, Self::Error>;

    /// The stored state after the line.
    fn checkpoint(&mut self, cursor: Cursor) -> Result<Option<Vec<u8>>, Self::Error>;
}

/// A [`Mark`](crate::Mark), read back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// As in the mark.
    pub prev: Cursor,
    /// As in the mark.
    pub prev_place: u32,
    /// As in the mark; `None` if it is none of the known.
    pub action: Option<Action>,
    /// Whether the row is stored here.
    pub is_stored: bool,
}

/// Why there is no page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PageError<E> {
    /// The log or its index could not be read.
    History(E),
    /// At this line the index is not that of the log.
    Contradiction(Cursor),
}

impl<E> From<E> for PageError<E> {
    fn from(error: E) -> Self {
        Self::History(error)
    }
}

type Paged<T, H> = Result<T, PageError<<H as History>::Error>>;

/// One page of events as JSON: byte for byte the [`replay`](crate::replay()) of the same lines.
pub fn page<H: History>(history: &mut H, window: Window) -> Paged<Vec<u8>, H> {
    match window.page {
        Page::Since(since) => page_since(history, since, window),
        Page::Before(before) => page_before(history, before, window),
    }
}

fn page_since<H: History>(history: &mut H, since: Cursor, window: Window) -> Paged<Vec<u8>, H> {
    let last_before = event_before(history, since.saturating_add(1))?;
    let mut built = Built::default();
    let mut has_more = false;
    if let Some(first) = event_after(history, since)? {
        let mut events = Events::starting_at(history, first, window.form)?;
        let mut next = Some(first);
        while let Some(cursor) = next {
            if built.len() == window.limit() {
                has_more = true;
                break;
            }
            let event = events.event(history, cursor)?;
            if built.bytes + event.len() > PAGE_BYTES && built.len() > 0 {
                has_more = true;
                break;
            }
            built.push_back(cursor, event);
            next = event_after(history, cursor)?;
        }
    }
    let next = built.last().filter(|_| has_more);
    let prev = last_before.map(|last_before| built.first().unwrap_or(last_before + 1));
    Ok(built.into_json(next, prev))
}

fn page_before<H: History>(history: &mut H, before: Cursor, window: Window) -> Paged<Vec<u8>, H> {
    let has_more = event_after(history, before.saturating_sub(1))?.is_some();
    let mut cursors = VecDeque::new();
    let mut older = event_before(history, before)?;
    while let Some(cursor) = older.filter(|_| (cursors.len() as u64) < window.limit()) {
        cursors.push_front(cursor);
        older = event_before(history, cursor)?;
    }
    let mut built = Built::default();
    let is_full = fill(history, cursors.make_contiguous(), window, &mut built)?;
    let next = built.last().filter(|_| has_more);
    let prev = built.first().filter(|_| is_full || older.is_some());
    // An empty page lies before the first event.
    let next = if built.len() == 0 && has_more { Some(0) } else { next };
    Ok(built.into_json(next, prev))
}

/// Puts the events at `cursors` in front of those that are there, the newest first, until the page is full; whether it
/// is. Events are made in ascending order, so where the older ones turn out to be much too long they are left out and
/// the newer half is tried alone: a page never costs the making of all the events that could have been on it.
fn fill<H: History>(
    history: &mut H,
    cursors: &[Cursor],
    window: Window,
    built: &mut Built,
) -> Paged<bool, H> {
    let Some(first) = cursors.first() else { return Ok(false) };
    let mut events = Events::starting_at(history, *first, window.form)?;
    let mut made = Built::default();
    let (mut left_out, mut bytes_made) = (false, 0);
    for cursor in cursors {
        let event = events.event(history, *cursor)?;
        bytes_made += event.len();
        if bytes_made > 2 * PAGE_BYTES && cursors.len() > 1 {
            let (older, newer) = cursors.split_at(cursors.len() / 2);
            return Ok(fill(history, newer, window, built)? || fill(history, older, window, built)?);
        }
        made.push_back(*cursor, event);
        while made.bytes + built.bytes > PAGE_BYTES && made.len() + built.len() > 1 && made.len() > 0 {
            made.pop_front();
            left_out = true;
        }
    }
    built.push_all_front(made);
    Ok(left_out)
}

fn event_after<H: History>(history: &mut H, cursor: Cursor) -> Paged<Option<Cursor>, H> {
    for after in cursor.saturating_add(1)..=history.last() {
        if history.is_event(after)? {
            return Ok(Some(after));
        }
    }
    Ok(None)
}

fn event_before<H: History>(history: &mut H, cursor: Cursor) -> Paged<Option<Cursor>, H> {
    for before in (1..cursor.min(history.last().saturating_add(1))).rev() {
        if history.is_event(before)? {
            return Ok(Some(before));
        }
    }
    Ok(None)
}

/// Events of a page as JSON.
#[derive(Default)]
struct Built {
    events: VecDeque<(Cursor, Vec<u8>)>,
    bytes: usize,
}

impl Built {
    fn len(&self) -> u64 {
        self.events.len() as u64
    }

    fn first(&self) -> Option<Cursor> {
        self.events.front().map(|(cursor, _)| *cursor)
    }

    fn last(&self) -> Option<Cursor> {
        self.events.back().map(|(cursor, _)| *cursor)
    }

    fn push_back(&mut self, cursor: Cursor, event: Vec<u8>) {
        self.bytes += event.len();
        self.events.push_back((cursor, event));
    }

    fn pop_front(&mut self) {
        self.bytes -= self.events.pop_front().map_or(0, |(_, event)| event.len());
    }

    fn push_all_front(&mut self, mut older: Self) {
        older.bytes += self.bytes;
        older.events.append(&mut self.events);
        *self = older;
    }

    fn into_json(self, next: Option<Cursor>, prev: Option<Cursor>) -> Vec<u8> {
        let cursor = |cursor: Option<Cursor>| cursor.map_or_else(|| "null".into(), |at| at.to_string());
        let mut json = Vec::with_capacity(self.bytes + self.events.len() + 64);
        json.extend(b"{\"events\":[");
        for (at, (_, event)) in self.events.iter().enumerate() {
            if at > 0 {
                json.push(b',');
            }
            json.extend(event);
        }
        json.extend(format!("],\"next\":{},\"prev\":{}}}", cursor(next), cursor(prev)).into_bytes());
        json
    }
}
