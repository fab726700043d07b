//! Notices of what cannot be kept as it came.

use crate::Frame;
use maestro_protocol::{NoticeLine, NoticeReason};

/// The most bytes of text that a notice keeps of what the agent sent.
pub(crate) const NOTICE_TEXT_MAX: usize = 4 * 1024;

/// The most bytes that must be at hand for a notice's text: a character cut at their end is beyond the text's own
/// end, since decoding never shortens what comes before.
pub(crate) const NOTICE_HEAD_MAX: usize = NOTICE_TEXT_MAX + 4;

/// A notice of a line that is here as a whole.
pub(crate) fn notice(reason: NoticeReason, line: &[u8]) -> Frame {
    notice_of_head(reason, line, line.len() as u64)
}

/// A notice of a line of `bytes` bytes that begins with `head`.
pub(crate) fn notice_of_head(reason: NoticeReason, head: &[u8], bytes: u64) -> Frame {
    let decoded = String::from_utf8_lossy(&head[..head.len().min(NOTICE_HEAD_MAX)]);
    let text = decoded[..decoded.floor_char_boundary(NOTICE_TEXT_MAX)].to_owned();
    let is_cut = text.len() < decoded.len() || (head.len() as u64) < bytes || head.len() > NOTICE_HEAD_MAX;
    Frame::Notice(NoticeLine { reason, text, bytes: is_cut.then_some(bytes) })
}
