//! The form of the file: a header, then records `kind u8, 0 u8 x3, size u32, payload, crc32c u32`, little-endian. The
//! checksum covers all before it in the record. A reader passes over whole records of kinds that it does not know.

use super::Touch;
use maestro_protocol::Cursor;

/// A name, and the version of everything behind it.
pub(crate) const HEADER: [u8; 8] = *b"maestro\x01";

const LINE: u8 = 1;
const DAMAGE: u8 = 2;
const HEAD: usize = 8;
const CHECK: usize = 4;

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

/// One record.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// A line; its touches are not read back, they are compared as bytes.
    Line(Place),
    /// The line that begins at this offset is not as it was appended.
    Damage(u64),
    /// Of a kind that is not known here.
    Other,
}

/// Lines have one record each, in order: offset, length, checksum, then the `prev` of every touch.
pub(crate) fn encode_line(out: &mut Vec<u8>, place: &Place, touches: &[Touch]) {
    let mut payload = Vec::with_capacity(20 + 8 * touches.len());
    payload.extend(place.offset.to_le_bytes());
    payload.extend(place.len.to_le_bytes());
    payload.extend(place.crc.to_le_bytes());
    payload.extend(touches.iter().flat_map(|touch: &Touch| Cursor::to_le_bytes(touch.prev)));
    encode(out, LINE, &payload);
}

/// Stands before the record of the line, and in every index that is rebuilt from this one.
pub(crate) fn encode_damage(out: &mut Vec<u8>, offset: u64) {
    encode(out, DAMAGE, &offset.to_le_bytes());
}

fn encode(out: &mut Vec<u8>, kind: u8, payload: &[u8]) {
    let start = out.len();
    out.extend([kind, 0, 0, 0]);
    out.extend(u32::try_from(payload.len()).unwrap_or(u32::MAX).to_le_bytes());
    out.extend(payload);
    let check = crc32c::crc32c(&out[start..]);
    out.extend(check.to_le_bytes());
}

/// The first record of `bytes` and its length; `None` at the end and where the bytes are not a whole record.
pub(crate) fn decode(bytes: &[u8]) -> Option<(Record, usize)> {
    let size = usize::try_from(u32::from_le_bytes(field(bytes, 4)?)).ok()?;
    let checked = bytes.get(..HEAD.checked_add(size)?)?;
    if crc32c::crc32c(checked) != u32::from_le_bytes(field(bytes, checked.len())?) {
        return None;
    }
    let payload = &checked[HEAD..];
    let record = match bytes[0] {
        LINE => Record::Line(Place {
            offset: u64::from_le_bytes(field(payload, 0)?),
            len: u64::from_le_bytes(field(payload, 8)?),
            crc: u32::from_le_bytes(field(payload, 16)?),
        }),
        DAMAGE => Record::Damage(u64::from_le_bytes(field(payload, 0)?)),
        _ => Record::Other,
    };
    Some((record, checked.len() + CHECK))
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}
