use maestro_protocol::{
    Cursor, Frame, ReducedState, RowId, TextFrame, Times, TranscriptDelta, TranscriptRow,
};
use serde::Serialize;
use serde_json::Value;
use std::collections::HashMap;

/// A frame in one of the two forms (CONTRACT §6.3).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum LiveFrame {
    /// Of a socket in the plain form.
    Plain(Frame),
    /// Of a socket in the text form.
    Text(TextFrame),
}

impl From<Frame> for LiveFrame {
    fn from(frame: Frame) -> Self {
        Self::Plain(frame)
    }
}

impl From<TextFrame> for LiveFrame {
    fn from(frame: TextFrame) -> Self {
        Self::Text(frame)
    }
}

/// A transcript and its state as the frames of a socket tell them: rows in order of birth, addressed by id. Where the
/// socket began with a tail, these are the last rows and those born since.
#[derive(Debug, Clone, Default)]
pub struct TranscriptModel {
    cursor: Cursor,
    rows: Vec<TranscriptRow>,
    places: HashMap<RowId, Place>,
    times: Times,
    state: ReducedState,
    has_older: bool,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    index: usize,
    /// The length of the row's text in UTF-16 units, once it was counted, so that what is added costs what is added.
    text_units: Option<u64>,
}

/// Models are equal if they show the same.
impl PartialEq for TranscriptModel {
    fn eq(&self, other: &Self) -> bool {
        let shown = |model: &Self| (model.cursor, model.has_older);
        shown(self) == shown(other)
            && self.rows == other.rows
            && self.times == other.times
            && self.state == other.state
    }
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

    /// Whether the session has rows before the first of these.
    pub fn has_older(&self) -> bool {
        self.has_older
    }

    /// All rows that are held, in order of birth.
    pub fn rows(&self) -> &[TranscriptRow] {
        &self.rows
    }

    /// One row.
    pub fn row(&self, id: &RowId) -> Option<&TranscriptRow> {
        self.places.get(id).and_then(|place| self.rows.get(place.index))
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
    /// [`Gap`], after which the model must start again with a snapshot: see [`crate::StructuredStream::resync`].
    pub fn apply(&mut self, frame: impl Into<LiveFrame>) -> Result<Applied, Gap> {
        match frame.into() {
            LiveFrame::Plain(Frame::TranscriptSnapshot { cursor, rows, times, older })
            | LiveFrame::Text(TextFrame::TranscriptSnapshot { cursor, rows, times, older }) => {
                self.cursor = cursor;
                self.rows = rows;
                self.times = times;
                self.has_older = older;
                self.find_places();
                Ok(Applied::Snapshot)
            }
            LiveFrame::Plain(Frame::ReducedState { state })
            | LiveFrame::Text(TextFrame::ReducedState { state }) => {
                self.state = state;
                Ok(Applied::State)
            }
            LiveFrame::Plain(Frame::ProjectionUpdate { cursor, transcript, state, times }) => {
                let changed = self.apply_deltas(transcript, times)?;
                (self.cursor, self.state) = (cursor, state);
                Ok(Applied::Update(changed))
            }
            LiveFrame::Text(TextFrame::ProjectionUpdate { cursor, transcript, state, times }) => {
                let changed = self.apply_deltas(transcript, times)?;
                self.cursor = cursor;
                state.apply(&mut self.state);
                Ok(Applied::Update(changed))
            }
        }
    }

    fn apply_deltas(&mut self, deltas: Vec<TranscriptDelta>, times: Times) -> Result<Vec<RowId>, Gap> {
        let changed = deltas.into_iter().map(|delta| self.apply_delta(delta)).collect::<Result<_, _>>()?;
        let places = &self.places;
        self.times.extend(times.into_iter().filter(|(id, _)| places.contains_key(id)));
        Ok(changed)
    }

    fn apply_delta(&mut self, delta: TranscriptDelta) -> Result<RowId, Gap> {
        match delta {
            TranscriptDelta::Append { row } => {
                let id = row.id.clone();
                if let Err(row) = self.replace(row) {
                    self.places.insert(id.clone(), Place::at(self.rows.len()));
                    self.rows.push(row);
                }
                Ok(id)
            }
            TranscriptDelta::Patch { row } => {
                let id = row.id.clone();
                // One that is not held is older than the tail.
                drop(self.replace(row));
                Ok(id)
            }
            TranscriptDelta::Remove { id } => {
                if let Some(place) = self.places.get(&id) {
                    self.rows.remove(place.index);
                    self.times.remove(&id);
                    self.find_places();
                }
                Ok(id)
            }
            TranscriptDelta::AppendText { id, offset, text } => match self.lengthen(&id, offset, &text) {
                Ok(()) => Ok(id),
                Err(held) => Err(Gap { row_id: id, offset, held }),
            },
        }
    }

    /// Puts the row in the place of the one with its id; gives it back if there is none.
    fn replace(&mut self, row: TranscriptRow) -> Result<(), TranscriptRow> {
        let Some(place) = self.places.get_mut(&row.id) else { return Err(row) };
        *place = Place::at(place.index);
        self.rows[place.index] = row;
        Ok(())
    }

    /// Adds to a row's text, which must be `offset` UTF-16 units long; the error is how long it is.
    fn lengthen(&mut self, id: &RowId, offset: u64, text: &str) -> Result<(), u64> {
        let Some(place) = self.places.get_mut(id) else { return Ok(()) };
        let Some(Value::String(held)) = self.rows[place.index].data.pointer_mut("/content/text") else {
            return Err(0);
        };
        let units = *place.text_units.get_or_insert_with(|| utf16_len(held));
        if units != offset {
            return Err(units);
        }
        held.push_str(text);
        place.text_units = Some(units + utf16_len(text));
        Ok(())
    }

    fn find_places(&mut self) {
        let places = self.rows.iter().enumerate();
        self.places = places.map(|(index, row)| (row.id.clone(), Place::at(index))).collect();
    }
}

impl Place {
    fn at(index: usize) -> Self {
        Self { index, text_units: None }
    }
}

fn utf16_len(text: &str) -> u64 {
    text.encode_utf16().count() as u64
}

#[cfg(test)]
mod tests;
