use super::{History, PageError, Paged};
use crate::line::Line;
use crate::projection::Growing;
use crate::row::fold_row;
use crate::touch::{DeltaForm, Touch};
use maestro_protocol::{Cursor, RowId, TranscriptRow, json};
use serde::Serialize;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// What the rows that are kept while a page is made may weigh, in bytes of their lines: twice a page. Over it they are
/// made again from their lines where they are needed again, so that no number of long rows adds up.
const KEPT_BYTES: usize = 2 * crate::replay::PAGE_BYTES;

/// The rows of a page as they were at its newest line so far.
#[derive(Default)]
pub(super) struct Rows {
    rows: BTreeMap<RowId, (Growing, usize)>,
    bytes: usize,
}

/// [`maestro_protocol::TranscriptDelta`], borrowed.
#[derive(Serialize)]
#[serde(tag = "type")]
enum Delta<'a> {
    Append { row: &'a TranscriptRow },
    Patch { row: &'a TranscriptRow },
    AppendText { id: &'a RowId, offset: u64, text: &'a str },
}

/// That a line touched a row.
#[derive(Clone, Copy)]
pub(super) struct Touched<'a> {
    pub(super) cursor: Cursor,
    /// Which of the line's touches it is.
    pub(super) place: u32,
    pub(super) touch: &'a Touch,
    pub(super) line: &'a Line,
    pub(super) line_len: usize,
}

impl Rows {
    /// Folds the line into a row and writes the delta.
    pub(super) fn write_delta<H: History>(
        &mut self,
        history: &mut H,
        touched: &Touched<'_>,
        form: DeltaForm,
        json: &mut Vec<u8>,
    ) -> Paged<(), H> {
        let Touched { cursor, place, touch, line, line_len } = *touched;
        let wrong = PageError::Contradiction(cursor);
        let Some(link) = history.link(cursor, place)? else { return Err(wrong) };
        if link.action != Some(touch.action) {
            return Err(wrong);
        }
        if !self.rows.contains_key(&touch.row_id) {
            let (row, weight) = match link.prev {
                0 => (None, 0),
                prev => row_at(history, &touch.row_id, (cursor, prev, link.prev_place))?,
            };
            self.bytes += weight;
            self.rows.insert(touch.row_id.clone(), (Growing::from(row), weight));
        }
        let Some((growing, weight)) = self.rows.get_mut(&touch.row_id) else { return Err(wrong) };
        let growth = growing.fold(touch, Cow::Borrowed(&line.body));
        *weight += line_len;
        self.bytes += line_len;
        let Some(row) = &growing.row else { return Err(wrong) };
        let delta = match (form, &growth) {
            (DeltaForm::Text, Some(growth)) => {
                Delta::AppendText { id: &touch.row_id, offset: growth.offset_utf16, text: &growth.text }
            }
            _ if link.prev == 0 => Delta::Append { row },
            _ => Delta::Patch { row },
        };
        serde_json::to_writer(json, &delta).map_err(|_never| wrong)
    }

    /// Lets go of all rows but these, if together they became too heavy.
    pub(super) fn shrink(&mut self, touches: &[Touch]) {
        if self.bytes > KEPT_BYTES {
            self.rows.retain(|id, _| touches.iter().any(|touch| touch.row_id == *id));
            self.bytes = self.rows.values().map(|(_, weight)| weight).sum();
        }
    }
}

/// A row as it was after the line `prev`, and the bytes of what it was made of.
fn row_at<H: History>(
    history: &mut H,
    row_id: &RowId,
    (mut later, prev, mut place): (Cursor, Cursor, u32),
) -> Paged<(Option<TranscriptRow>, usize), H> {
    let mut chain = Vec::new();
    let mut cursor = prev;
    let mut weight = 0;
    let mut row = None;
    // Each line is before the one that named it, or the index would lead round in a circle.
    while cursor != 0 {
        let link = if cursor < later { history.link(cursor, place)? } else { None };
        let Some((link, action)) = link.and_then(|link| Some((link, link.action?))) else {
            return Err(PageError::Contradiction(cursor));
        };
        if link.is_stored {
            let stored = history.row_checkpoint(cursor, place)?.unwrap_or_default();
            weight += stored.len();
            row = json::from_slice::<TranscriptRow>(&stored).ok().filter(|row| row.id == *row_id);
            if row.is_none() {
                return Err(PageError::Contradiction(cursor));
            }
            break;
        }
        chain.push((cursor, action));
        if action.is_whole() {
            break;
        }
        (later, cursor, place) = (cursor, link.prev, link.prev_place);
    }
    for (cursor, action) in chain.into_iter().rev() {
        let bytes = history.line(cursor)?;
        weight += bytes.len();
        let line = Line::parse(bytes);
        row = Some(fold_row(row, &Touch { row_id: row_id.clone(), action }, &line));
    }
    Ok((row, weight))
}
