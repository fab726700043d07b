//! What an index keeps of each line, so that a page of history can be folded from its own lines (CONTRACT §5.5).

use super::{Applied, Projection, RowChange};
use crate::touch::Action;
use maestro_protocol::Cursor;

/// A fold's state is stored at every line whose cursor is a multiple of this. A page begins by folding the lines after
/// the newest one before it: fewer lines between cost index, more cost time.
pub(crate) const STATE_EVERY: Cursor = 64;

/// A state that needs more bytes than this is stored only once as many bytes of lines have come since the last one, so
/// that an index never outgrows its log, whatever an agent makes large.
const STATE_BYTES: u64 = 4 * 1024;

/// A row is stored once the lines since it was last whole weigh more than this, in bytes, and more than the row did
/// then: what a page reads for a row is in proportion to the row, and what is stored of rows to their lines.
const ROW_BYTES: u64 = 64 * 1024;

/// What a line of a row weighs beside its bytes: each is looked up and read by itself.
const LINE_WEIGHT: u64 = 256;

/// What to keep of one line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Marks {
    /// Whether the line is an event of the replay.
    pub is_event: bool,
    /// Whether the fold of the state may pass over the line.
    pub is_quiet: bool,
    /// The rows that it touched.
    pub touches: Vec<Mark>,
    /// The state after the line, where it is to be stored: what [`crate::StateFold::checkpoint`] gave.
    pub checkpoint: Option<Vec<u8>>,
}

/// What to keep of a touch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The line that touched the row before; 0 if the row was born here.
    pub prev: Cursor,
    /// Which of that line's touches was the row's.
    pub prev_place: u32,
    /// What was done.
    pub action: Action,
    /// The row after the line as JSON, where it is to be stored.
    pub checkpoint: Option<Vec<u8>>,
}

/// How much must be read to make a row.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Weight {
    /// The line or the checkpoint that the row was last whole in.
    base: u64,
    /// The lines after that.
    chain: u64,
}

impl Projection {
    /// What an index keeps of the line that was applied last, `line_len` bytes long. To be asked for every line, so that
    /// an index that is made anew is the same.
    pub fn marks(&mut self, applied: &Applied, line_len: usize) -> Marks {
        let line_len = line_len as u64;
        self.unstored += line_len;
        let checkpoint = self.state_checkpoint();
        let Applied::Line { changes, is_quiet, .. } = applied else {
            return Marks { checkpoint, is_quiet: true, ..Marks::default() };
        };
        let touches = changes.iter().map(|change| self.mark(change, line_len)).collect();
        Marks { is_event: true, is_quiet: *is_quiet, touches, checkpoint }
    }

    fn state_checkpoint(&mut self) -> Option<Vec<u8>> {
        if !self.cursor().is_multiple_of(STATE_EVERY) {
            return None;
        }
        let mut fold = self.fold.clone();
        let bytes = fold.checkpoint();
        if bytes.len() as u64 > self.unstored.max(STATE_BYTES) {
            return None;
        }
        self.fold = fold;
        self.unstored = 0;
        Some(bytes)
    }

    fn mark(&mut self, change: &RowChange, line_len: u64) -> Mark {
        let checkpoint = self.places.get(&change.row_id).and_then(|place| {
            let entry = &mut self.rows[*place];
            let weight = &mut entry.weight;
            if change.born || change.action.is_whole() {
                *weight = Weight { base: line_len, chain: 0 };
                return None;
            }
            weight.chain += line_len + LINE_WEIGHT;
            if weight.chain <= weight.base.max(ROW_BYTES) {
                return None;
            }
            let bytes = serde_json::to_vec(entry.growing.row.as_ref()?).ok()?;
            *weight = Weight { base: bytes.len() as u64, chain: 0 };
            Some(bytes)
        });
        let RowChange { prev, prev_place, action, .. } = *change;
        Mark { prev, prev_place, action, checkpoint }
    }
}
