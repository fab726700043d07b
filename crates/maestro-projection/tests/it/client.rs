//! What a client does with frames: the reference for the laws of deltas.

use maestro_protocol::{RowId, TranscriptDelta, TranscriptRow, TranscriptSnapshot};
use std::collections::BTreeMap;

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Client {
    pub(crate) rows: Vec<TranscriptRow>,
    places: BTreeMap<RowId, usize>,
    /// Whether deltas may be about rows that it does not hold.
    is_tail: bool,
}

impl Client {
    pub(crate) fn holding(snapshot: TranscriptSnapshot) -> Self {
        let mut client = Self::default();
        for row in snapshot.rows {
            client.take(TranscriptDelta::Append { row });
        }
        client
    }

    /// One that begins with the last rows only.
    pub(crate) fn of_a_tail() -> Self {
        Self { is_tail: true, ..Self::default() }
    }

    pub(crate) fn take(&mut self, delta: TranscriptDelta) {
        let (TranscriptDelta::Append { row: TranscriptRow { id, .. } }
        | TranscriptDelta::Patch { row: TranscriptRow { id, .. } }
        | TranscriptDelta::AppendText { id, .. }
        | TranscriptDelta::Remove { id }) = &delta;
        if self.is_tail && !self.places.contains_key(id) && !matches!(delta, TranscriptDelta::Append { .. }) {
            return;
        }
        match delta {
            TranscriptDelta::Append { row } => {
                let is_new = self.places.insert(row.id.clone(), self.rows.len()).is_none();
                assert!(is_new, "{} was appended twice", row.id);
                self.rows.push(row);
            }
            TranscriptDelta::Patch { row } => {
                let place = self.places[&row.id];
                self.rows[place] = row;
            }
            TranscriptDelta::AppendText { id, offset, text } => {
                let row = &mut self.rows[self.places[&id]];
                let old = row.data["content"]["text"].as_str().unwrap();
                assert_eq!(old.encode_utf16().count() as u64, offset, "{id}");
                row.data["content"]["text"] = format!("{old}{text}").into();
            }
            TranscriptDelta::Remove { id } => panic!("nothing removes rows, but {id} was"),
        }
    }
}
