use super::TextGrowth;
use crate::line::Body;
use crate::row::{fold_body, own_text, row_text, said};
use crate::touch::{Action, Touch};
use maestro_protocol::TranscriptRow;
use std::borrow::Cow;

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
    pub(crate) fn fold(&mut self, touch: &Touch, body: Cow<'_, Body>) -> Option<TextGrowth> {
        if touch.action == Action::Text
            && let Some(text) = self.row.as_mut().and_then(own_text)
            && let Some(added) = said(body.as_ref())
        {
            text.push_str(added);
            let offset_utf16 = self.text_utf16;
            self.text_utf16 += utf16_length(added);
            return Some(TextGrowth { offset_utf16, text: added.to_owned() });
        }
        self.row = Some(fold_body(self.row.take(), touch, body));
        self.text_utf16 = self.row.as_ref().and_then(row_text).map_or(0, utf16_length);
        None
    }
}

fn utf16_length(text: &str) -> u64 {
    if text.is_ascii() { text.len() as u64 } else { text.chars().map(|c| c.len_utf16() as u64).sum() }
}
