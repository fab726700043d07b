mod changes;
mod standing;

use crate::fold::{Chosen, StateFold};
use crate::line::Line;
use crate::row::{fold_row, row_text};
use crate::touch::{Action, Touch};
pub use changes::{Applied, RowChange, TextGrowth};
use maestro_protocol::{
    Cursor, Day, Origin, ReducedState, RowId, RowTimes, Spending, StateKey, Times, Timestamp, TranscriptRow,
    TranscriptSnapshot,
};
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
}

#[derive(Debug, Clone)]
struct Entry {
    /// `None` only while it is being folded.
    row: Option<TranscriptRow>,
    born: Cursor,
    last: Cursor,
    /// The last line that did anything else to it than to lengthen its text.
    reshaped: Cursor,
    created: Option<Timestamp>,
    updated: Option<Timestamp>,
    /// The length of its text in UTF-16 code units, kept so that appending never counts the whole.
    text_utf16: u64,
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
        let changes = step.touches.into_iter().map(|touch| self.touch(cursor, touch, line)).collect();
        self.state_touched.extend(step.state.iter().map(|key| (*key, cursor)));
        Applied::Line { changes, state: step.state }
    }

    /// The last line folded; 0 before the first.
    pub fn cursor(&self) -> Cursor {
        self.fold.cursor()
    }

    /// All rows in order of birth.
    pub fn snapshot(&self) -> TranscriptSnapshot {
        let rows = self.rows.iter().filter_map(|entry| entry.row.clone()).collect();
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
        self.rows[*self.places.get(id)?].row.as_ref()
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

    /// Whether a person's prompt is in the log (CONTRACT §10.3).
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

    fn touch(&mut self, cursor: Cursor, touch: Touch, line: &Line) -> RowChange {
        let now = self.fold.last_time();
        let known = self.places.get(&touch.row_id).copied();
        let place = known.unwrap_or(self.rows.len());
        if known.is_none() {
            self.places.insert(touch.row_id.clone(), place);
            self.rows.push(Entry::unborn(cursor, now));
        }
        let entry = &mut self.rows[place];
        let prev = entry.last;
        let growth = entry.fold(&touch, line);
        entry.created = entry.created.or(now);
        entry.updated = now;
        entry.last = cursor;
        if growth.is_none() {
            entry.reshaped = cursor;
        }
        self.touched.remove(&(prev, place));
        self.touched.insert((cursor, place));
        RowChange { row_id: touch.row_id, action: touch.action, born: known.is_none(), prev, growth }
    }
}

impl Entry {
    fn unborn(born: Cursor, created: Option<Timestamp>) -> Self {
        Self { row: None, born, last: 0, reshaped: born, created, updated: created, text_utf16: 0 }
    }

    /// Folds a line in; gives what it appended where it only lengthened text.
    fn fold(&mut self, touch: &Touch, line: &Line) -> Option<TextGrowth> {
        let before = self.row.as_ref().filter(|_| touch.action == Action::Text).and_then(row_text);
        let length_before = before.map(str::len);
        self.row = Some(fold_row(self.row.take(), touch, line));
        let text = self.row.as_ref().and_then(row_text).unwrap_or_default();
        let Some(length_before) = length_before else {
            self.text_utf16 = utf16_length(text);
            return None;
        };
        let appended = text.get(length_before..).unwrap_or_default().to_owned();
        let offset_utf16 = self.text_utf16;
        self.text_utf16 += utf16_length(&appended);
        Some(TextGrowth { offset_utf16, text: appended })
    }

    fn times(&self) -> Option<(RowId, RowTimes)> {
        Some((self.row.as_ref()?.id.clone(), RowTimes([self.created?, self.updated?])))
    }
}

fn utf16_length(text: &str) -> u64 {
    text.chars().map(|c| c.len_utf16() as u64).sum()
}
