//! Rows that nothing has touched for long, kept small: as JSON, compressed, many together. They are read by readers of
//! old history and by the rare late line, while a transcript may have a hundred thousand of them.

use super::Projection;
use maestro_protocol::{Times, TranscriptRow, json};
use std::borrow::Cow;
use std::sync::Arc;

/// Rows that are kept as values, those touched last: more than a reader asks for at first.
const KEPT: usize = 256;

/// So many rows as values make it worth while to pack the older ones.
const LOOSE_MAX: usize = KEPT + 128;

/// The JSON that is compressed together, in bytes: enough to compress well, little enough to be read for one row.
const PACK_BYTES: usize = 128 * 1024;

/// The level that packs fastest; higher ones save a tenth.
const LEVEL: i32 = 1;

/// Of a value with this key, JSON would be read back as another value.
const RAW_VALUE_KEY: &[u8] = b"$serde_json::private::RawValue";

/// All packs of a projection.
#[derive(Debug, Clone, Default)]
pub(super) struct Packs {
    /// `None` where no row is left.
    packs: Vec<Option<Pack>>,
    /// The places of rows that are values, those first that became so first.
    loose: std::collections::VecDeque<usize>,
}

#[derive(Debug, Clone)]
struct Pack {
    compressed: Arc<[u8]>,
    /// The length of the JSON.
    bytes: usize,
    /// The places of the rows that are still read from here.
    places: Vec<usize>,
    /// How many there were.
    packed: usize,
}

/// Where a row is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Packed {
    pack: usize,
    start: usize,
    end: usize,
}

/// Reads packed rows; those of one pack after each other cost one decompression.
#[derive(Debug, Default)]
pub(super) struct Unpacker {
    json: Option<(usize, Vec<u8>)>,
}

impl Unpacker {
    fn row(&mut self, packs: &Packs, at: Packed) -> Option<TranscriptRow> {
        if self.json.as_ref().is_none_or(|(pack, _)| *pack != at.pack) {
            let pack = packs.packs.get(at.pack)?.as_ref()?;
            self.json = Some((at.pack, zstd::bulk::decompress(&pack.compressed, pack.bytes).ok()?));
        }
        let (_, json) = self.json.as_ref()?;
        json::from_slice(json.get(at.start..at.end)?).ok()
    }
}

/// Rows as they were at one moment, to be written as JSON one after the other. What was packed is not read before.
#[derive(Debug, Clone)]
pub struct RowTexts {
    rows: std::vec::IntoIter<RowText>,
    /// The pack that the last row was read from, and its JSON.
    json: Option<(Arc<[u8]>, Vec<u8>)>,
}

#[derive(Debug, Clone)]
enum RowText {
    Loose(TranscriptRow),
    Packed { compressed: Arc<[u8]>, bytes: usize, at: Packed },
}

impl RowTexts {
    /// Adds the next row to `json`; false if there is none.
    pub fn write_next(&mut self, json: &mut Vec<u8>) -> bool {
        let Some(row) = self.rows.next() else { return false };
        match row {
            RowText::Loose(row) => serde_json::to_writer(json, &row).unwrap_or_default(),
            RowText::Packed { compressed, bytes, at } => {
                json.extend_from_slice(
                    self.packed(&compressed, bytes).get(at.start..at.end).unwrap_or_default(),
                );
            }
        }
        true
    }

    /// The JSON of a pack.
    fn packed(&mut self, compressed: &Arc<[u8]>, bytes: usize) -> &[u8] {
        let held = self.json.take().filter(|(pack, _)| Arc::ptr_eq(pack, compressed));
        let read = || (Arc::clone(compressed), zstd::bulk::decompress(compressed, bytes).unwrap_or_default());
        &self.json.insert(held.unwrap_or_else(read)).1
    }
}

impl Projection {
    /// The last `n` rows, as [`Projection::tail`] gives them.
    pub fn tail_texts(&self, n: usize) -> RowTexts {
        let text = |entry: &super::Entry| match entry.packed {
            Some(at) => {
                let pack = self.packs.packs.get(at.pack)?.as_ref()?;
                Some(RowText::Packed { compressed: Arc::clone(&pack.compressed), bytes: pack.bytes, at })
            }
            None => entry.growing.row.clone().map(RowText::Loose),
        };
        let rows: Vec<RowText> =
            self.rows[self.rows.len().saturating_sub(n)..].iter().filter_map(text).collect();
        RowTexts { rows: rows.into_iter(), json: None }
    }

    /// The times of the last `n` rows, and whether there are older ones.
    pub fn tail_times(&self, n: usize) -> (Times, bool) {
        let first = self.rows.len().saturating_sub(n);
        (self.rows[first..].iter().filter_map(super::Entry::times).collect(), first > 0)
    }

    /// The row at a place.
    pub(super) fn row_at<'a>(
        &'a self,
        place: usize,
        unpacker: &mut Unpacker,
    ) -> Option<Cow<'a, TranscriptRow>> {
        let entry = self.rows.get(place)?;
        match entry.packed {
            Some(at) => unpacker.row(&self.packs, at).map(Cow::Owned),
            None => entry.growing.row.as_ref().map(Cow::Borrowed),
        }
    }

    /// A row was born at `place`.
    pub(super) fn note_born(&mut self, place: usize) {
        self.packs.loose.push_back(place);
    }

    /// Makes the row at `place` a value again, and with it the others of its pack once half of them are so: what is
    /// packed is never more than twice what is needed.
    pub(super) fn loosen(&mut self, place: usize) {
        let Some(at) = self.rows[place].packed else { return };
        let mut unpacker = Unpacker::default();
        self.loosen_one(place, at, &mut unpacker);
        let Some(pack) = self.packs.packs.get_mut(at.pack).and_then(Option::as_mut) else { return };
        pack.places.retain(|other| *other != place);
        if pack.places.len() * 2 > pack.packed {
            return;
        }
        for other in std::mem::take(&mut pack.places) {
            if let Some(at) = self.rows[other].packed {
                self.loosen_one(other, at, &mut unpacker);
            }
        }
        self.packs.packs[at.pack] = None;
    }

    fn loosen_one(&mut self, place: usize, at: Packed, unpacker: &mut Unpacker) {
        let row = unpacker.row(&self.packs, at);
        let entry = &mut self.rows[place];
        entry.growing = super::Growing::from(row);
        entry.packed = None;
        self.packs.loose.push_back(place);
    }

    /// Keeps the rows small that were touched longest ago, if there are enough of them to make it worth while. For folds
    /// that are kept: packing takes as long as folding, and changes no answer.
    pub fn pack(&mut self) {
        if self.packs.loose.len() < LOOSE_MAX {
            return;
        }
        let Some((recent, _)) = self.touched.iter().rev().nth(KEPT - 1).copied() else { return };
        let mut gathered = Gathered::default();
        for _ in 0..self.packs.loose.len() {
            let Some(place) = self.packs.loose.pop_front() else { break };
            if self.rows[place].last >= recent {
                self.packs.loose.push_back(place);
                continue;
            }
            gathered.add(place, self.rows[place].growing.row.as_ref());
            if gathered.json.len() >= PACK_BYTES {
                self.seal(std::mem::take(&mut gathered));
            }
        }
        self.seal(gathered);
    }

    /// Compresses what was gathered. What cannot be, stays as it is.
    fn seal(&mut self, gathered: Gathered) {
        let Gathered { json, rows } = gathered;
        if rows.is_empty() {
            return;
        }
        let Ok(compressed) = zstd::bulk::compress(&json, LEVEL) else { return };
        let pack = self.packs.packs.len();
        for (place, start, end) in &rows {
            let entry = &mut self.rows[*place];
            entry.packed = Some(Packed { pack, start: *start, end: *end });
            entry.growing = super::Growing::default();
        }
        let places: Vec<usize> = rows.iter().map(|(place, ..)| *place).collect();
        let packed = places.len();
        let pack = Pack { compressed: compressed.into(), bytes: json.len(), places, packed };
        self.packs.packs.push(Some(pack));
    }
}

/// Rows that become a pack.
#[derive(Default)]
struct Gathered {
    json: Vec<u8>,
    rows: Vec<(usize, usize, usize)>,
}

impl Gathered {
    /// Takes a row, unless JSON would not give it back as it is.
    fn add(&mut self, place: usize, row: Option<&TranscriptRow>) {
        let start = self.json.len();
        let Some(row) = row else { return };
        let is_written = serde_json::to_writer(&mut self.json, row).is_ok();
        if is_written && memchr::memmem::find(&self.json[start..], RAW_VALUE_KEY).is_none() {
            self.rows.push((place, start, self.json.len()));
        } else {
            self.json.truncate(start);
        }
    }
}
