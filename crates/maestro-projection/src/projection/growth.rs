use super::TextGrowth;
use crate::line::Line;
use crate::row::{fold_row, row_text};
use crate::touch::{Action, Touch};
use maestro_protocol::TranscriptRow;

/// A row that is being folded.
#[derive(Debug, Clone, Default)]
pub(crate) struct Growing {
    /// `None` before its birth.
    pub(crate) row: Option<TranscriptRow>,
    /// The length of its text in UTF-16 code units, kept so that appending never counts the whole.
    text_utf16: u64,
}

impl Growing {
    /// Goes on with a row as it was at some line.
    pub(crate) fn from(row: Option<TranscriptRow>) -> Self {
        let text_utf16 = row.as_ref().and_then(row_text).map_or(0, utf16_length);
        Self { row, text_utf16 }
    }

    /// The length of its text in UTF-16 code units.
    pub(crate) fn text_utf16(&self) -> u64 {
        self.text_utf16
    }

    /// Folds a line in; gives what it appended where it only lengthened text.
    pub(crate) fn fold(&mut self, touch: &Touch, line: &Line) -> Option<TextGrowth> {
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
}

fn utf16_length(text: &str) -> u64 {
    text.chars().map(|c| c.len_utf16() as u64).sum()
}
