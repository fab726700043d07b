use super::{Entry, Projection, Unpacker};
use crate::touch::{Action, DeltaForm};
use maestro_protocol::{Cursor, RowId, StateKey, Times, TranscriptDelta, TranscriptRow};
use std::ops::Bound;

/// What one line changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Applied {
    /// It was no line of a log: it has a cursor and makes no event.
    Malformed,
    /// It was a line.
    Line {
        /// The rows that it touched, each once.
        changes: Vec<RowChange>,
        /// The keys of the reduced state that it changed, in their order.
        state: Vec<StateKey>,
        /// See [`Step::is_quiet`](crate::Step::is_quiet).
        is_quiet: bool,
    },
}

/// How a line changed one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowChange {
    /// The row.
    pub row_id: RowId,
    /// What was done to it.
    pub action: Action,
    /// Whether the line made it.
    pub born: bool,
    /// The line that touched it before; 0 if it was born here.
    pub prev: Cursor,
    /// Which of that line's touches was this row's, from 0.
    pub prev_place: u32,
    /// What the line appended, where it did nothing but lengthen text.
    pub growth: Option<TextGrowth>,
}

/// Text appended to a row's `data.content.text`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextGrowth {
    /// The length of the text before, in UTF-16 code units.
    pub offset_utf16: u64,
    /// What was appended.
    pub text: String,
}

impl Projection {
    /// The deltas of a line. To be asked right after the line was applied: deltas show rows as they are now.
    pub fn deltas(&self, applied: &Applied, form: DeltaForm) -> Vec<TranscriptDelta> {
        let Applied::Line { changes, .. } = applied else { return Vec::new() };
        changes.iter().filter_map(|change| self.delta(change, form)).collect()
    }

    /// One delta for each row touched after the line at `cursor`, in its newest form and in order of birth, and the
    /// times of these rows. Costs what changed, not what there is.
    pub fn changed_since(&self, cursor: Cursor) -> (Vec<TranscriptDelta>, Times) {
        self.changes_after(cursor, |_, entry, row| entry.whole(row, cursor))
    }

    /// One delta for each row touched after the line at `cursor`, in order of birth, and the times of these rows.
    pub(super) fn changes_after(
        &self,
        cursor: Cursor,
        delta: impl Fn(usize, &Entry, &TranscriptRow) -> TranscriptDelta,
    ) -> (Vec<TranscriptDelta>, Times) {
        let after = self.touched.range((Bound::Excluded((cursor, usize::MAX)), Bound::Unbounded));
        let mut places = after.map(|(_, place)| *place).collect::<Vec<_>>();
        places.sort_unstable();
        let mut times = Times::new();
        let mut deltas = Vec::with_capacity(places.len());
        let mut unpacker = Unpacker::default();
        for place in places {
            let entry = &self.rows[place];
            if let Some(row) = self.row_at(place, &mut unpacker) {
                deltas.push(delta(place, entry, &row));
                times.extend(entry.times());
            }
        }
        (deltas, times)
    }

    fn delta(&self, change: &RowChange, form: DeltaForm) -> Option<TranscriptDelta> {
        if let (DeltaForm::Text, Some(growth)) = (form, &change.growth) {
            let (id, offset) = (change.row_id.clone(), growth.offset_utf16);
            return Some(TranscriptDelta::AppendText { id, offset, text: growth.text.clone() });
        }
        let row = self.row(&change.row_id)?.into_owned();
        Some(if change.born { TranscriptDelta::Append { row } } else { TranscriptDelta::Patch { row } })
    }
}

impl Entry {
    /// The whole row, as a reader takes it that has everything up to `cursor`.
    pub(super) fn whole(&self, row: &TranscriptRow, cursor: Cursor) -> TranscriptDelta {
        let row = row.clone();
        if self.born > cursor { TranscriptDelta::Append { row } } else { TranscriptDelta::Patch { row } }
    }
}
