//! A long text in pieces.
//!
//! The library copies a message into a buffer, which stays as long as the longest message was, and moves the rest of it
//! for each part that the kernel takes. In pieces a message costs a socket one piece, and time by its length; what is
//! shared between sockets stays shared.

use crate::session::TranscriptText;
use bytes::Bytes;
use std::{iter, str};
use tokio_tungstenite::tungstenite::{
    Message,
    protocol::frame::{
        Frame,
        coding::{Data, OpCode},
    },
};

/// The longest piece: as much as a pipe or a socket takes at once.
pub(super) const PIECE_BYTES: usize = 64 * 1024;

/// The frames of a text message; `None` if it is not UTF-8.
pub(super) fn of(text: Bytes) -> Option<impl Iterator<Item = Message>> {
    str::from_utf8(&text).ok()?;
    let mut rest = Some((Data::Text, text));
    Some(iter::from_fn(move || {
        let (kind, mut text) = rest.take()?;
        let piece = text.split_to(text.len().min(PIECE_BYTES));
        let is_last = text.is_empty();
        if !is_last {
            rest = Some((Data::Continue, text));
        }
        Some(Message::Frame(Frame::message(piece, OpCode::Data(kind), is_last)))
    }))
}

/// The frames of a message that is a transcript.
pub(super) fn of_transcript(mut text: TranscriptText) -> impl Iterator<Item = Message> {
    let mut kind = Some(Data::Text);
    iter::from_fn(move || {
        let this = kind.take()?;
        let (piece, is_last) = text.next_piece(PIECE_BYTES);
        if !is_last {
            kind = Some(Data::Continue);
        }
        Some(Message::Frame(Frame::message(piece, OpCode::Data(this), is_last)))
    })
}

#[cfg(test)]
mod tests {
    use super::{PIECE_BYTES, of};
    use bytes::Bytes;
    use tokio_tungstenite::tungstenite::{Message, protocol::frame::coding::OpCode};

    /// The lengths of the pieces, which put together are the text.
    #[track_caller]
    fn check(text: &str, expect: &[usize]) {
        let frames = of(Bytes::from(text.to_owned())).expect("UTF-8").map(|message| match message {
            Message::Frame(frame) => frame,
            other => panic!("not a frame: {other:?}"),
        });
        let frames = frames.collect::<Vec<_>>();
        assert_eq!(frames.iter().map(|frame| frame.payload().len()).collect::<Vec<_>>(), expect);
        assert_eq!(
            frames.iter().flat_map(|frame| frame.payload().to_vec()).collect::<Vec<_>>(),
            text.as_bytes()
        );
        for (n, frame) in frames.iter().enumerate() {
            let code = u8::from(frame.header().opcode);
            assert_eq!((code, frame.header().is_final), (u8::from(n == 0), n + 1 == frames.len()));
            assert!(matches!(frame.header().opcode, OpCode::Data(_)));
        }
    }

    #[test]
    fn a_text_is_one_message_in_pieces() {
        check("", &[0]);
        check("short", &[5]);
        check(&"x".repeat(PIECE_BYTES), &[PIECE_BYTES]);
        check(&"x".repeat(2 * PIECE_BYTES + 1), &[PIECE_BYTES, PIECE_BYTES, 1]);
        // A character may lie in two pieces.
        check(&format!("x{}", "\u{1F980}".repeat(PIECE_BYTES / 4)), &[PIECE_BYTES, 1]);
        assert!(of(Bytes::from_static(b"\xff")).is_none());
    }
}
