//! The form of the two files, little-endian.
//!
//! The *entries*, 32 bytes each, one for each line, after a header of the same size: what is at a cursor is found by
//! arithmetic. An entry is `offset u64, link u64, len u32, crc32c u32, flags u32, check u32`. The check is the CRC32C of
//! the cursor and all before it. The flags are the bits below, the tag in bits 8-15, the place in bits 16-31. A line
//! that touched one row has that row's `prev` as its link; one that touched more, or has something stored, has there
//! where its *side record* begins in the other file.
//!
//! A side record is `cursor u64, touches u32, crc32c u32 and len u64 of the checkpoint`, for each touch `prev u64, len u64
//! of its checkpoint, place u32, crc32c u32 of its checkpoint, tag u32`, `check u32` of all before it, and the stored
//! bytes: those of the touches in their order, then the checkpoint. A length of all ones is that of nothing.

use super::{IndexLine, StoredTouch, Touch};
use maestro_protocol::Cursor;
use std::ops::Range;

/// A name, and the version of everything behind it.
pub(crate) const MAGIC: [u8; 8] = *b"maestro\x02";

pub(crate) const ENTRY: usize = 32;

/// Begins the file of entries.
pub(crate) const HEADER: [u8; ENTRY] = {
    let mut header = [0; ENTRY];
    let mut at = 0;
    while at < MAGIC.len() {
        header[at] = MAGIC[at];
        at += 1;
    }
    header
};

const ONE_TOUCH: u32 = 1;
const SIDE: u32 = 2;
const EVENT: u32 = 4;
const DAMAGED: u32 = 8;
const QUIET: u32 = 16;

pub(crate) const SIDE_HEAD: usize = 24;
const SIDE_TOUCH: usize = 28;
const CHECK: usize = 4;
const NOTHING: u64 = u64::MAX;

/// Where a line is and what is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) offset: u64,
    /// Without the newline.
    pub(crate) len: u64,
    pub(crate) crc: u32,
}

impl Place {
    pub(crate) fn of(offset: u64, line: &[u8]) -> Self {
        Self { offset, len: line.len() as u64, crc: crc32c::crc32c(line) }
    }
}

/// One entry, read back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) place: Place,
    pub(crate) is_event: bool,
    pub(crate) is_quiet: bool,
    pub(crate) is_damaged: bool,
    pub(crate) rows: Rows,
}

/// Where an entry has what its line touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rows {
    None,
    One(StoredTouch),
    Side(u64),
}

/// The entry of a line, and its side record, which begins at `side_at` and may be empty. `None` for a line of 4 GiB or
/// more, which has no place here.
pub(crate) fn encode(
    cursor: Cursor,
    place: &Place,
    is_damaged: bool,
    line: &IndexLine,
    side_at: u64,
) -> Option<([u8; ENTRY], Vec<u8>)> {
    let bits = [(line.is_event, EVENT), (line.is_quiet, QUIET), (is_damaged, DAMAGED)];
    let mut flags = bits.into_iter().filter(|(is_set, _)| *is_set).fold(0, |flags, (_, bit)| flags | bit);
    let (mut link, mut side) = (0, Vec::new());
    match &line.touches[..] {
        [] if line.checkpoint.is_none() => {}
        [Touch { prev, prev_place, tag, checkpoint: None }]
            if line.checkpoint.is_none() && u16::try_from(*prev_place).is_ok() =>
        {
            link = *prev;
            flags |= ONE_TOUCH | u32::from(*tag) << 8 | prev_place << 16;
        }
        _ => {
            link = side_at;
            flags |= SIDE;
            side = encode_side(cursor, line);
        }
    }
    let mut entry = [0; ENTRY];
    entry[..8].copy_from_slice(&place.offset.to_le_bytes());
    entry[8..16].copy_from_slice(&link.to_le_bytes());
    entry[16..20].copy_from_slice(&u32::try_from(place.len).ok()?.to_le_bytes());
    entry[20..24].copy_from_slice(&place.crc.to_le_bytes());
    entry[24..28].copy_from_slice(&flags.to_le_bytes());
    let check = check(cursor, &entry[..28]);
    entry[28..].copy_from_slice(&check.to_le_bytes());
    Some((entry, side))
}

/// The entry at this cursor; `None` if the bytes are not one.
pub(crate) fn decode(cursor: Cursor, entry: &[u8]) -> Option<Entry> {
    if check(cursor, entry.get(..28)?) != u32::from_le_bytes(field(entry, 28)?) {
        return None;
    }
    let flags = u32::from_le_bytes(field(entry, 24)?);
    let link = u64::from_le_bytes(field(entry, 8)?);
    let [_, tag, ..] = flags.to_le_bytes();
    let rows = match flags & (ONE_TOUCH | SIDE) {
        0 => Rows::None,
        ONE_TOUCH => Rows::One(StoredTouch { prev: link, prev_place: flags >> 16, tag, is_stored: false }),
        _ => Rows::Side(link),
    };
    let place = Place {
        offset: u64::from_le_bytes(field(entry, 0)?),
        len: u32::from_le_bytes(field(entry, 16)?).into(),
        crc: u32::from_le_bytes(field(entry, 20)?),
    };
    let is = |bit| flags & bit != 0;
    Some(Entry { place, is_event: is(EVENT), is_quiet: is(QUIET), is_damaged: is(DAMAGED), rows })
}

/// A side record without what is stored in it.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) touches: Vec<SideTouch>,
    pub(crate) checkpoint: Option<Stored>,
}

#[derive(Debug)]
pub(crate) struct SideTouch {
    pub(crate) touch: StoredTouch,
    pub(crate) checkpoint: Option<Stored>,
}

/// Stored bytes and where they are in their file.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    pub(crate) range: Range<u64>,
    pub(crate) crc: u32,
}

fn encode_side(cursor: Cursor, line: &IndexLine) -> Vec<u8> {
    let len = |stored: &Option<Vec<u8>>| stored.as_ref().map_or(NOTHING, |bytes| bytes.len() as u64);
    let crc = |stored: &Option<Vec<u8>>| stored.as_ref().map_or(0, |bytes| crc32c::crc32c(bytes));
    let mut side = Vec::with_capacity(SIDE_HEAD + line.touches.len() * SIDE_TOUCH + CHECK);
    side.extend(cursor.to_le_bytes());
    side.extend(u32::try_from(line.touches.len()).unwrap_or(u32::MAX).to_le_bytes());
    side.extend(crc(&line.checkpoint).to_le_bytes());
    side.extend(len(&line.checkpoint).to_le_bytes());
    for touch in &line.touches {
        side.extend(touch.prev.to_le_bytes());
        side.extend(len(&touch.checkpoint).to_le_bytes());
        side.extend(touch.prev_place.to_le_bytes());
        side.extend(crc(&touch.checkpoint).to_le_bytes());
        side.extend(u32::from(touch.tag).to_le_bytes());
    }
    side.extend(crc32c::crc32c(&side).to_le_bytes());
    let stored = line.touches.iter().map(|touch| &touch.checkpoint).chain([&line.checkpoint]);
    stored.flatten().for_each(|bytes| side.extend_from_slice(bytes));
    side
}

/// The length of a side record without what is stored in it, told from its first [`SIDE_HEAD`] bytes.
pub(crate) fn side_len(head: &[u8]) -> Option<usize> {
    let touches = usize::try_from(u32::from_le_bytes(field(head, 8)?)).ok()?;
    touches.checked_mul(SIDE_TOUCH)?.checked_add(SIDE_HEAD + CHECK)
}

/// The side record of this line, which begins at `at`; `None` if the bytes are not one. `bytes` has [`side_len`].
pub(crate) fn decode_side(cursor: Cursor, at: u64, bytes: &[u8]) -> Option<Side> {
    let (checked, check) = bytes.split_last_chunk::<CHECK>()?;
    if crc32c::crc32c(checked) != u32::from_le_bytes(*check)
        || u64::from_le_bytes(field(checked, 0)?) != cursor
    {
        return None;
    }
    let mut end = at.checked_add(bytes.len() as u64)?;
    let mut stored = |len: u64, crc: u32| {
        if len == NOTHING {
            return Some(None);
        }
        let start = end;
        end = start.checked_add(len)?;
        Some(Some(Stored { range: start..end, crc }))
    };
    let mut touches = Vec::new();
    for bytes in checked.get(SIDE_HEAD..)?.chunks_exact(SIDE_TOUCH) {
        let number = |at| Some(u32::from_le_bytes(field(bytes, at)?));
        let checkpoint = stored(u64::from_le_bytes(field(bytes, 8)?), number(20)?)?;
        let touch = StoredTouch {
            prev: u64::from_le_bytes(field(bytes, 0)?),
            prev_place: number(16)?,
            tag: u8::try_from(number(24)?).ok()?,
            is_stored: checkpoint.is_some(),
        };
        touches.push(SideTouch { touch, checkpoint });
    }
    let checkpoint =
        stored(u64::from_le_bytes(field(checked, 16)?), u32::from_le_bytes(field(checked, 12)?))?;
    Some(Side { touches, checkpoint })
}

/// Where the entry of a line is.
pub(crate) fn entry_at(cursor: Cursor) -> u64 {
    cursor.saturating_mul(ENTRY as u64)
}

fn check(cursor: Cursor, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&cursor.to_le_bytes()), bytes)
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}
