use maestro_protocol::{Cursor, Frame, ReducedState, RowId, Times, TranscriptDelta, TranscriptRow};
use serde_json::Value;
use std::collections::HashMap;

/// A transcript and its state as the frames of a socket tell them: rows in order of birth, addressed by id.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TranscriptModel {
    cursor: Cursor,
    rows: Vec<TranscriptRow>,
    places: HashMap<RowId, usize>,
    times: Times,
    state: ReducedState,
}

/// What a frame changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Applied {
    /// Everything: the rows were replaced.
    Snapshot,
    /// The state alone.
    State,
    /// These rows, in the order of the frame, and the state. Removed rows are among them and no longer found.
    Update(Vec<RowId>),
}

/// A delta that does not continue what the model holds: frames were missed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("text for row `{row_id}` starts at {offset}, but the row holds {held} UTF-16 units of text")]
pub struct Gap {
    /// The row.
    pub row_id: RowId,
    /// Where the text starts, in UTF-16 units.
    pub offset: u64,
    /// How much text the row holds, in UTF-16 units.
    pub held: u64,
}

impl TranscriptModel {
    /// The last line that the rows reflect.
    pub fn cursor(&self) -> Cursor {
        self.cursor
    }

    /// All rows, in order of birth.
    pub fn rows(&self) -> &[TranscriptRow] {
        &self.rows
    }

    /// One row.
    pub fn row(&self, id: &RowId) -> Option<&TranscriptRow> {
        self.places.get(id).and_then(|place| self.rows.get(*place))
    }

    /// When rows were born and last changed.
    pub fn times(&self) -> &Times {
        &self.times
    }

    /// The state.
    pub fn state(&self) -> &ReducedState {
        &self.state
    }

    /// Takes the next frame. A change to a row that is not held is ignored.
    ///
    /// # Errors
    /// [`Gap`], after which the model must start again with a snapshot.
    pub fn apply(&mut self, frame: Frame) -> Result<Applied, Gap> {
        match frame {
            Frame::TranscriptSnapshot { cursor, rows, times } => {
                self.cursor = cursor;
                self.rows = rows;
                self.times = times;
                self.find_places();
                Ok(Applied::Snapshot)
            }
            Frame::ReducedState { state } => {
                self.state = state;
                Ok(Applied::State)
            }
            Frame::ProjectionUpdate { cursor, transcript, state, times } => {
                let changed =
                    transcript.into_iter().map(|delta| self.apply_delta(delta)).collect::<Result<_, _>>()?;
                self.cursor = cursor;
                self.state = state;
                self.times.extend(times);
                Ok(Applied::Update(changed))
            }
        }
    }

    fn apply_delta(&mut self, delta: TranscriptDelta) -> Result<RowId, Gap> {
        match delta {
            TranscriptDelta::Append { row } => {
                let id = row.id.clone();
                if let Some(held) = self.row_mut(&id) {
                    *held = row;
                } else {
                    self.places.insert(id.clone(), self.rows.len());
                    self.rows.push(row);
                }
                Ok(id)
            }
            TranscriptDelta::Patch { row } => {
                let id = row.id.clone();
                if let Some(held) = self.row_mut(&id) {
                    *held = row;
                }
                Ok(id)
            }
            TranscriptDelta::Remove { id } => {
                if let Some(place) = self.places.get(&id) {
                    self.rows.remove(*place);
                    self.times.remove(&id);
                    self.find_places();
                }
                Ok(id)
            }
            TranscriptDelta::AppendText { id, offset, text } => {
                let Some(row) = self.row_mut(&id) else { return Ok(id) };
                let held = row.data.pointer_mut("/content/text");
                let held_units = held.as_ref().and_then(|held| held.as_str()).map_or(0, utf16_len);
                match held {
                    Some(Value::String(held)) if held_units == offset => held.push_str(&text),
                    Some(_) | None => return Err(Gap { row_id: id, offset, held: held_units }),
                }
                Ok(id)
            }
        }
    }

    fn row_mut(&mut self, id: &RowId) -> Option<&mut TranscriptRow> {
        self.places.get(id).and_then(|place| self.rows.get_mut(*place))
    }

    fn find_places(&mut self) {
        self.places = self.rows.iter().enumerate().map(|(place, row)| (row.id.clone(), place)).collect();
    }
}

fn utf16_len(text: &str) -> u64 {
    text.encode_utf16().count() as u64
}

#[cfg(test)]
mod tests;
