use super::{Entry, Projection};
use crate::row::row_text;
use maestro_protocol::{Cursor, StateKey, Times, TranscriptDelta, TranscriptRow};

/// Texts whose ends a standing remembers: enough for an agent that writes as many messages at a time.
const ENDS_MAX: usize = 16;

/// Rows that are looked at for such texts, the last touched first.
const LOOKED_AT_MAX: usize = 64;

/// What a reader holds that has everything up to a line: that line, and where the texts ended that may grow on. Small,
/// whatever the log holds; the reader keeps it and shows it when it asks what came after, so that a projection needs to
/// remember nothing of its readers. Readers at the same line of the same log have equal standings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standing {
    cursor: Cursor,
    ends: Vec<End>,
}

/// The length of a row's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct End {
    place: usize,
    bytes: usize,
    utf16: u64,
}

impl Standing {
    /// The line.
    pub fn cursor(&self) -> Cursor {
        self.cursor
    }
}

impl Projection {
    /// The standing of a reader that has everything up to now.
    pub fn standing(&self) -> Standing {
        let newest = self.touched.iter().rev().take(LOOKED_AT_MAX);
        let ends = newest.filter_map(|(_, place)| {
            let entry = &self.rows[*place];
            Some(End { place: *place, bytes: entry.text()?.len(), utf16: entry.growing.text_utf16() })
        });
        Standing { cursor: self.cursor(), ends: ends.take(ENDS_MAX).collect() }
    }

    /// As [`Projection::changed_since`], in the text form: a row of which nothing happened but that its text grew since
    /// then is one `AppendText` with all that was added. Costs what is new, however long the row is.
    pub fn grown_since(&self, standing: &Standing) -> (Vec<TranscriptDelta>, Times) {
        self.changes_after(standing.cursor, |place, entry, row| {
            let grown = || {
                let end = standing.ends.iter().find(|end| end.place == place)?;
                let text = entry.text()?.get(end.bytes..).filter(|_| entry.reshaped <= standing.cursor)?;
                Some(TranscriptDelta::AppendText {
                    id: row.id.clone(),
                    offset: end.utf16,
                    text: text.to_owned(),
                })
            };
            grown().unwrap_or_else(|| entry.whole(row, standing.cursor))
        })
    }

    /// The keys of the reduced state that lines after `cursor` changed, in their order.
    pub fn state_changed_since(&self, cursor: Cursor) -> Vec<StateKey> {
        self.state_touched.iter().filter(|(_, last)| **last > cursor).map(|(key, _)| *key).collect()
    }

    /// The last `n` rows in order of birth with their times, and whether there are older ones.
    pub fn tail(&self, n: usize) -> (Vec<TranscriptRow>, Times, bool) {
        let (times, has_older) = self.tail_times(n);
        (self.rows_from(self.rows.len().saturating_sub(n)), times, has_older)
    }
}

impl Entry {
    /// The text that lines may lengthen; not told of a packed row, which no reader has seen grow lately.
    fn text(&self) -> Option<&str> {
        self.growing.row.as_ref().and_then(row_text)
    }
}
