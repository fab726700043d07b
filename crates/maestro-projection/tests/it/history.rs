//! A log with its marks, in memory.

use maestro_projection::{
    Action, Applied, DeltaForm, History, Link, MAX_EVENTS, Marks, PAGE_BYTES, Page, PageError, Projection,
    Window, page, replay,
};
use maestro_protocol::Cursor;
use std::convert::Infallible;

#[derive(Clone)]
pub(crate) struct Indexed {
    pub(crate) lines: Vec<Vec<u8>>,
    pub(crate) marks: Vec<Marks>,
}

impl Indexed {
    pub(crate) fn of(lines: &[Vec<u8>]) -> Self {
        let mut projection = Projection::new();
        let marks = (1..).zip(lines).map(|(cursor, line)| {
            let applied = projection.apply(cursor, line);
            projection.marks(&applied, line.len())
        });
        Self { marks: marks.collect(), lines: lines.to_vec() }
    }

    /// The page as JSON text, made with the marks.
    pub(crate) fn page(&self, window: Window) -> String {
        self.try_page(window).expect("the marks are those of the log")
    }

    pub(crate) fn try_page(&self, window: Window) -> Result<String, PageError<Infallible>> {
        let page = page(&mut &*self, window)?;
        Ok(String::from_utf8(page).expect("JSON"))
    }

    /// The page as JSON text, folded anew from all lines.
    pub(crate) fn replayed(&self, window: Window) -> String {
        serde_json::to_string(&replay(self.lines.iter(), window)).expect("JSON")
    }

    /// How many lines are read to make the page.
    pub(crate) fn lines_read(&self, window: Window) -> usize {
        let mut counting = Counting { indexed: self, read: 0 };
        page(&mut counting, window).expect("the marks are those of the log");
        counting.read
    }

    fn mark(&self, cursor: Cursor) -> &Marks {
        &self.marks[usize::try_from(cursor - 1).expect("a cursor of the log")]
    }
}

/// All events of a log, each folded once and in this form: what pages are cut from.
pub(crate) struct Whole {
    form: DeltaForm,
    events: Vec<(Cursor, String)>,
}

impl Whole {
    pub(crate) fn of(lines: &[Vec<u8>], form: DeltaForm) -> Self {
        let mut projection = Projection::new();
        let mut state = serde_json::to_string(&projection.state()).expect("JSON");
        let events = (1..).zip(lines).filter_map(|(cursor, line)| {
            let applied = projection.apply(cursor, line);
            let Applied::Line { state: changed, .. } = &applied else { return None };
            // That a line names what it changed is a law of its own.
            if !changed.is_empty() {
                state = serde_json::to_string(&projection.state()).expect("JSON");
            }
            let transcript = serde_json::to_string(&projection.deltas(&applied, form)).expect("JSON");
            Some((cursor, format!(r#"{{"cursor":{cursor},"transcript":{transcript},"state":{state}}}"#)))
        });
        Self { form, events: events.collect() }
    }

    /// The page as a reader of CONTRACT §6.4 would cut it.
    fn page(&self, page: Page, limit: u64) -> String {
        let limit = usize::try_from(limit.clamp(1, MAX_EVENTS)).expect("few");
        let fits = |events: &mut dyn Iterator<Item = &(Cursor, String)>| {
            let mut bytes = 0;
            let sizes = events.map(|(_, event)| event.len()).take(limit);
            sizes
                .enumerate()
                .take_while(|(n, size)| {
                    bytes += size;
                    *n == 0 || bytes <= PAGE_BYTES
                })
                .count()
        };
        let (first, end) = match page {
            Page::Since(since) => {
                let first = self.events.partition_point(|(cursor, _)| *cursor <= since);
                (first, first + fits(&mut self.events[first..].iter()))
            }
            Page::Before(before) => {
                let end = self.events.partition_point(|(cursor, _)| *cursor < before);
                (end - fits(&mut self.events[..end].iter().rev()), end)
            }
        };
        let of_page = &self.events[first..end];
        let number = |cursor: Option<Cursor>| cursor.map_or("null".into(), |cursor| cursor.to_string());
        let next = (end < self.events.len()).then(|| of_page.last().map_or(0, |(cursor, _)| *cursor));
        let before = first.checked_sub(1).map(|before| self.events[before].0);
        let prev = before.map(|before| of_page.first().map_or(before + 1, |(cursor, _)| *cursor));
        let events = of_page.iter().map(|(_, event)| event.as_str()).collect::<Vec<_>>().join(",");
        format!(r#"{{"events":[{events}],"next":{},"prev":{}}}"#, number(next), number(prev))
    }

    /// The page that `make` gives is this one.
    #[track_caller]
    pub(crate) fn check(&self, name: &str, (page, limit): (Page, u64), make: impl Fn(Window) -> String) {
        let window = Window { page, limit, form: self.form };
        let (made, expect) = (make(window), self.page(page, limit));
        // The texts are long: said is where they part.
        if made != expect {
            let at = made.bytes().zip(expect.bytes()).take_while(|(a, b)| a == b).count();
            let from = |text: &str| {
                text.bytes().skip(at.saturating_sub(80)).take(200).map(char::from).collect::<String>()
            };
            panic!("{name} {window:?} at byte {at}:\n{}\ninstead of\n{}", from(&made), from(&expect));
        }
    }
}

impl History for &Indexed {
    type Error = Infallible;

    fn last(&self) -> Cursor {
        self.lines.len() as Cursor
    }

    fn is_event(&mut self, cursor: Cursor) -> Result<bool, Infallible> {
        Ok(self.mark(cursor).is_event)
    }

    fn is_quiet(&mut self, cursor: Cursor) -> Result<bool, Infallible> {
        Ok(self.mark(cursor).is_quiet)
    }

    fn line(&mut self, cursor: Cursor) -> Result<&[u8], Infallible> {
        Ok(&self.lines[usize::try_from(cursor - 1).expect("a cursor of the log")])
    }

    fn link(&mut self, cursor: Cursor, place: u32) -> Result<Option<Link>, Infallible> {
        let mark = self.mark(cursor).touches.get(place as usize);
        Ok(mark.map(|mark| Link {
            prev: mark.prev,
            prev_place: mark.prev_place,
            action: Action::from_byte(mark.action.to_byte()),
            is_stored: mark.checkpoint.is_some(),
        }))
    }

    fn row_checkpoint(&mut self, cursor: Cursor, place: u32) -> Result<Option<Vec<u8>>, Infallible> {
        Ok(self.mark(cursor).touches[place as usize].checkpoint.clone())
    }

    fn checkpoint(&mut self, cursor: Cursor) -> Result<Option<Vec<u8>>, Infallible> {
        Ok(self.mark(cursor).checkpoint.clone())
    }
}

struct Counting<'a> {
    indexed: &'a Indexed,
    read: usize,
}

impl History for Counting<'_> {
    type Error = Infallible;

    fn last(&self) -> Cursor {
        self.indexed.last()
    }

    fn is_event(&mut self, cursor: Cursor) -> Result<bool, Infallible> {
        self.indexed.is_event(cursor)
    }

    fn is_quiet(&mut self, cursor: Cursor) -> Result<bool, Infallible> {
        self.indexed.is_quiet(cursor)
    }

    fn line(&mut self, cursor: Cursor) -> Result<&[u8], Infallible> {
        self.read += 1;
        self.indexed.line(cursor)
    }

    fn link(&mut self, cursor: Cursor, place: u32) -> Result<Option<Link>, Infallible> {
        self.indexed.link(cursor, place)
    }

    fn row_checkpoint(&mut self, cursor: Cursor, place: u32) -> Result<Option<Vec<u8>>, Infallible> {
        self.indexed.row_checkpoint(cursor, place)
    }

    fn checkpoint(&mut self, cursor: Cursor) -> Result<Option<Vec<u8>>, Infallible> {
        self.indexed.checkpoint(cursor)
    }
}
