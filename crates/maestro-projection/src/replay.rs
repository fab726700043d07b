use crate::line::Line;
use crate::projection::{Applied, Projection};
use crate::touch::DeltaForm;
use maestro_protocol::{Cursor, ReplayEvent, ReplayPage};
use std::collections::VecDeque;

/// The most events on a page.
pub const MAX_EVENTS: u64 = 500;

/// The most bytes of events on a page, as JSON. A single larger event still makes a page.
pub const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// Where a page of history lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Page {
    /// The first events after this line; 0 is the start.
    Since(Cursor),
    /// The last events before this line.
    Before(Cursor),
}

/// The page that is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Where it lies.
    pub page: Page,
    /// How many events at most; clamped to 1-[`MAX_EVENTS`].
    pub limit: u64,
    /// How its deltas are told.
    pub form: DeltaForm,
}

/// Folds a whole log anew and gives one page of its events, each with the state at exactly its line
/// (CONTRACT §6.4). `lines` begins with the log's first line. It is read no further than the page needs.
pub fn replay(lines: impl Iterator<Item = impl AsRef<[u8]>>, window: Window) -> ReplayPage {
    let mut lines = (1..).zip(lines.map(|line| Line::parse(line.as_ref())));
    match window.page {
        Page::Since(since) => page_since(&mut lines, since, window),
        Page::Before(before) => page_before(&mut lines, before, window),
    }
}

fn page_since(lines: &mut impl Iterator<Item = (Cursor, Line)>, since: Cursor, window: Window) -> ReplayPage {
    let mut projection = Projection::new();
    let mut built = Built::default();
    let mut last_before = None;
    let mut has_more = false;
    for (cursor, line) in lines {
        // The line after a full page is needed only to know that it is there.
        if built.events.len() as u64 == window.limit() && cursor > since {
            has_more = !line.is_malformed();
            if has_more {
                break;
            }
            continue;
        }
        let applied = projection.apply_line(cursor, line);
        if applied == Applied::Malformed {
            continue;
        }
        if cursor <= since {
            last_before = Some(cursor);
            continue;
        }
        built.push(event(&projection, &applied, window.form));
        if built.bytes > PAGE_BYTES && built.events.len() > 1 {
            built.pop_back();
            has_more = true;
            break;
        }
    }
    let first = built.events.front().map(|(event, _)| event.cursor);
    let next = built.events.back().filter(|_| has_more).map(|(event, _)| event.cursor);
    let prev = last_before.map(|last_before| first.unwrap_or(last_before + 1));
    ReplayPage { events: built.into_events(), next, prev }
}

fn page_before(
    lines: &mut impl Iterator<Item = (Cursor, Line)>,
    before: Cursor,
    window: Window,
) -> ReplayPage {
    let mut projection = Projection::new();
    // The lines that may be on the page: only for these are events made.
    let mut candidates = VecDeque::new();
    let mut has_older = false;
    let mut has_more = false;
    for (cursor, line) in lines {
        if line.is_malformed() {
            continue;
        }
        if cursor >= before {
            has_more = true;
            break;
        }
        candidates.push_back((cursor, line));
        if candidates.len() as u64 > window.limit()
            && let Some((cursor, line)) = candidates.pop_front()
        {
            projection.apply_line(cursor, line);
            has_older = true;
        }
    }
    let mut built = Built::default();
    for (cursor, line) in candidates {
        let applied = projection.apply_line(cursor, line);
        built.push(event(&projection, &applied, window.form));
        while built.bytes > PAGE_BYTES && built.events.len() > 1 {
            built.pop_front();
            has_older = true;
        }
    }
    let next = built.events.back().filter(|_| has_more).map(|(event, _)| event.cursor);
    let prev = built.events.front().filter(|_| has_older).map(|(event, _)| event.cursor);
    // An empty page lies before the first event.
    let next = if built.events.is_empty() && has_more { Some(0) } else { next };
    ReplayPage { events: built.into_events(), next, prev }
}

fn event(projection: &Projection, applied: &Applied, form: DeltaForm) -> ReplayEvent {
    ReplayEvent {
        cursor: projection.cursor(),
        transcript: projection.deltas(applied, form),
        state: projection.state(),
    }
}

/// Events with their sizes.
#[derive(Default)]
struct Built {
    events: VecDeque<(ReplayEvent, usize)>,
    bytes: usize,
}

impl Built {
    fn push(&mut self, event: ReplayEvent) {
        let size = serde_json::to_vec(&event).map_or(0, |json| json.len());
        self.bytes += size;
        self.events.push_back((event, size));
    }
    fn pop_front(&mut self) {
        self.bytes -= self.events.pop_front().map_or(0, |(_, size)| size);
    }
    fn pop_back(&mut self) {
        self.bytes -= self.events.pop_back().map_or(0, |(_, size)| size);
    }
    fn into_events(self) -> Vec<ReplayEvent> {
        self.events.into_iter().map(|(event, _)| event).collect()
    }
}

impl Window {
    pub(crate) fn limit(&self) -> u64 {
        self.limit.clamp(1, MAX_EVENTS)
    }
}
