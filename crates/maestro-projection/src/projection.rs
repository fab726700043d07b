mod changes;
mod growth;
mod marks;
mod standing;

use crate::fold::{Chosen, StateFold};
use crate::line::Line;
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
pub use standing::Standing;
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
}

#[derive(Debug, Clone)]
struct Entry {
    growing: Growing,
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
        self.apply_line(cursor, &Line::parse(line))
    }

    pub(crate) fn apply_line(&mut self, cursor: Cursor, line: &Line) -> Applied {
        let step = self.fold.apply(cursor, line);
        if line.is_malformed() {
            return Applied::Malformed;
        }
        if let (Some(spent), Some(now)) = (step.spent, self.fold.last_time()) {
            self.ledger.entry(now.into()).or_default().add(&spent);
        }
        let touches = (0..).zip(step.touches);
        let changes = touches.map(|(place, touch)| self.touch((cursor, place), touch, line)).collect();
        self.state_touched.extend(step.state.iter().map(|key| (*key, cursor)));
        Applied::Line { changes, state: step.state, is_quiet: step.is_quiet }
    }

    /// The last line folded; 0 before the first.
    pub fn cursor(&self) -> Cursor {
        self.fold.cursor()
    }

    /// All rows in order of birth.
    pub fn snapshot(&self) -> TranscriptSnapshot {
        let rows = self.rows.iter().filter_map(|entry| entry.growing.row.clone()).collect();
        TranscriptSnapshot { cursor: self.cursor(), rows }
    }

    /// The times of all rows.
    pub fn times(&self) -> Times {
        self.rows.iter().filter_map(Entry::times).collect()
    }

    /// The state after the last line. `pending_approval` is in no log and always `None` here.
    pub fn state(&self) -> ReducedState {
        self.fold.state()
    }

    /// The row of this id.
    pub fn row(&self, id: &RowId) -> Option<&TranscriptRow> {
        self.rows[*self.places.get(id)?].growing.row.as_ref()
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

    /// Folds a touch in; `at` is its line, and its place among that line's touches.
    fn touch(&mut self, at: (Cursor, u32), touch: Touch, line: &Line) -> RowChange {
        let cursor = at.0;
        let now = self.fold.last_time();
        let known = self.places.get(&touch.row_id).copied();
        let place = known.unwrap_or(self.rows.len());
        if known.is_none() {
            self.places.insert(touch.row_id.clone(), place);
            self.rows.push(Entry::unborn(cursor, now));
        }
        let entry = &mut self.rows[place];
        let (prev, prev_place) = (entry.last, entry.last_place);
        let growth = entry.growing.fold(&touch, line);
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
    fn unborn(born: Cursor, created: Option<Timestamp>) -> Self {
        Self {
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
        Some((self.growing.row.as_ref()?.id.clone(), RowTimes([self.created?, self.updated?])))
    }
}
