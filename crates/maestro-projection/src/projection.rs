mod changes;
mod growth;
mod marks;
mod packs;
mod standing;

use crate::fold::{Chosen, StateFold};
use crate::line::{Body, Line};
use crate::touch::Touch;
pub use changes::{Applied, RowChange, TextGrowth};
pub(crate) use growth::Growing;
use maestro_protocol::{
    Cursor, Day, Origin, ReducedState, RowId, RowTimes, Spending, StateKey, Times, Timestamp, TranscriptRow,
    TranscriptSnapshot,
};
pub(crate) use marks::STATE_EVERY;
use marks::Weight;
pub use marks::{Mark, Marks};
pub use packs::RowTexts;
use packs::{Packed, Packs, Unpacker};
pub use standing::Standing;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// A log folded to its rows and its state, for live use.
#[derive(Debug, Clone, Default)]
pub struct Projection {
    fold: StateFold,
    /// In order of birth.
    rows: Vec<Entry>,
    places: BTreeMap<RowId, usize>,
    /// The line that touched each row last, and the row's place.
    touched: BTreeSet<(Cursor, usize)>,
    ledger: BTreeMap<Day, Spending>,
    /// The line that changed each key of the state last.
    state_touched: BTreeMap<StateKey, Cursor>,
    /// Bytes of lines since the state was last given to be stored.
    unstored: u64,
    packs: Packs,
}

#[derive(Debug, Clone)]
struct Entry {
    id: RowId,
    /// The row; empty while it is packed.
    growing: Growing,
    packed: Option<Packed>,
    born: Cursor,
    last: Cursor,
    /// The last line that did anything else to it than to lengthen its text.
    reshaped: Cursor,
    /// Which of that line's touches was this row's.
    last_place: u32,
    weight: Weight,
    created: Option<Timestamp>,
    updated: Option<Timestamp>,
}

impl Projection {
    /// The projection of no line.
    pub fn new() -> Self {
        Self::default()
    }

    /// Folds the next line, given without its newline; any bytes will do. Cursors are consecutive and begin with 1.
    pub fn apply(&mut self, cursor: Cursor, line: &[u8]) -> Applied {
        self.apply_line(cursor, Line::parse(line))
    }

    pub(crate) fn apply_line(&mut self, cursor: Cursor, line: Line) -> Applied {
        let step = self.fold.apply(cursor, &line);
        if line.is_malformed() {
            return Applied::Malformed;
        }
        if let (Some(spent), Some(now)) = (step.spent, self.fold.last_time()) {
            self.ledger.entry(now.into()).or_default().add(&spent);
        }
        let changes = self.touch_all(cursor, step.touches, line.body);
        self.state_touched.extend(step.state.iter().map(|key| (*key, cursor)));
        Applied::Line { changes, state: step.state, is_quiet: step.is_quiet }
    }

    /// The last line folded; 0 before the first.
    pub fn cursor(&self) -> Cursor {
        self.fold.cursor()
    }

    /// All rows in order of birth.
    pub fn snapshot(&self) -> TranscriptSnapshot {
        TranscriptSnapshot { cursor: self.cursor(), rows: self.rows_from(0) }
    }

    /// The times of all rows.
    pub fn times(&self) -> Times {
        self.rows.iter().filter_map(Entry::times).collect()
    }

    /// The state after the last line. `pending_approval` is in no log and always `None` here.
    pub fn state(&self) -> ReducedState {
        self.fold.state()
    }

    /// The rows from a place on.
    fn rows_from(&self, first: usize) -> Vec<TranscriptRow> {
        let mut unpacker = Unpacker::default();
        let row = |place| self.row_at(place, &mut unpacker).map(Cow::into_owned);
        (first..self.rows.len()).filter_map(row).collect()
    }

    /// The row of this id.
    pub fn row(&self, id: &RowId) -> Option<Cow<'_, TranscriptRow>> {
        self.row_at(*self.places.get(id)?, &mut Unpacker::default())
    }

    /// Whether there is a row of this id.
    pub fn has_row(&self, id: &RowId) -> bool {
        self.places.contains_key(id)
    }

    /// How many lines were malformed.
    pub fn malformed(&self) -> u64 {
        self.fold.malformed()
    }

    /// Who began the turn that has not ended (CONTRACT §10.5).
    pub fn open_turn(&self) -> Option<Origin> {
        self.fold.open_turn()
    }

    /// Whether a tool call is open (CONTRACT §4.3).
    pub fn has_open_call(&self) -> bool {
        self.fold.has_open_call()
    }

    /// The approvals whose outcome is not in the log, oldest first (CONTRACT §10.5).
    pub fn unsettled_approvals(&self) -> Vec<RowId> {
        self.fold.unsettled_approvals().to_vec()
    }

    /// Whether a person's prompt is in the log that its agent may have kept (CONTRACT §3.3).
    pub fn has_prompt(&self) -> bool {
        self.fold.has_prompt()
    }

    /// What people chose of what the agent offers (CONTRACT §3.5).
    pub fn chosen(&self) -> &Chosen {
        self.fold.chosen()
    }

    /// The last time that a line named (CONTRACT §5.6).
    pub fn last_time(&self) -> Option<Timestamp> {
        self.fold.last_time()
    }

    /// What was spent on which day (CONTRACT §6.6). Lines before the first that names a time are in no day.
    pub fn ledger(&self) -> &BTreeMap<Day, Spending> {
        &self.ledger
    }

    /// The fold without the rows.
    pub fn fold(&self) -> &StateFold {
        &self.fold
    }

    /// The place of the row that was touched last, if that is this one: mostly it is.
    fn newest_is(&self, id: &RowId) -> Option<usize> {
        let (_, place) = *self.touched.last()?;
        (self.rows[place].id == *id).then_some(place)
    }

    /// Folds the touches of a line in. Its body becomes the last one's.
    fn touch_all(&mut self, cursor: Cursor, mut touches: Vec<Touch>, body: Body) -> Vec<RowChange> {
        let Some(last) = touches.pop() else { return Vec::new() };
        let mut changes = Vec::with_capacity(touches.len() + 1);
        let mut place = 0;
        for touch in touches {
            changes.push(self.touch((cursor, place), touch, Cow::Borrowed(&body)));
            place += 1;
        }
        changes.push(self.touch((cursor, place), last, Cow::Owned(body)));
        changes
    }

    /// Folds a touch in; `at` is its line, and its place among that line's touches.
    fn touch(&mut self, at: (Cursor, u32), touch: Touch, body: Cow<'_, Body>) -> RowChange {
        let cursor = at.0;
        let now = self.fold.last_time();
        let known = self.newest_is(&touch.row_id).or_else(|| self.places.get(&touch.row_id).copied());
        let place = known.unwrap_or(self.rows.len());
        if known.is_none() {
            self.places.insert(touch.row_id.clone(), place);
            self.rows.push(Entry::unborn(touch.row_id.clone(), cursor, now));
            self.note_born(place);
        }
        self.loosen(place);
        let entry = &mut self.rows[place];
        let (prev, prev_place) = (entry.last, entry.last_place);
        let growth = entry.growing.fold(&touch, body);
        entry.created = entry.created.or(now);
        entry.updated = now;
        (entry.last, entry.last_place) = at;
        if growth.is_none() {
            entry.reshaped = cursor;
        }
        self.touched.remove(&(prev, place));
        self.touched.insert((cursor, place));
        RowChange {
            row_id: touch.row_id,
            action: touch.action,
            born: known.is_none(),
            prev,
            prev_place,
            growth,
        }
    }
}

impl Entry {
    fn unborn(id: RowId, born: Cursor, created: Option<Timestamp>) -> Self {
        Self {
            id,
            packed: None,
            growing: Growing::default(),
            born,
            last: 0,
            last_place: 0,
            reshaped: born,
            weight: Weight::default(),
            created,
            updated: created,
        }
    }

    fn times(&self) -> Option<(RowId, RowTimes)> {
        Some((self.id.clone(), RowTimes([self.created?, self.updated?])))
    }
}
