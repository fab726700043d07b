//! A transcript as the text of its frame, written piece by piece while it is sent: a reader sees its first rows at once,
//! and the session's owner is not kept by any number of them.

use bytes::{BufMut as _, Bytes, BytesMut};
use maestro_projection::{Projection, RowTexts};
use maestro_protocol::Times;

/// The text of a `TranscriptSnapshot`.
#[derive(Debug, Clone)]
pub(crate) struct TranscriptText {
    rows: RowTexts,
    /// What stands behind the rows.
    tail: Option<Vec<u8>>,
    /// One row.
    row: Vec<u8>,
    is_first: bool,
    /// What is written and not taken.
    written: BytesMut,
}

impl TranscriptText {
    /// The last `tail` rows.
    pub(super) fn new(projection: &Projection, tail: usize) -> Self {
        let (times, has_older) = projection.tail_times(tail);
        let head = format!(r#"{{"type":"TranscriptSnapshot","cursor":{},"rows":["#, projection.cursor());
        Self {
            rows: projection.tail_texts(tail),
            tail: Some(after_rows(&times, has_older)),
            row: Vec::new(),
            is_first: true,
            written: BytesMut::from(head.as_bytes()),
        }
    }

    /// The next piece, no longer than `most` bytes, and whether it is the last. After the last one pieces are empty.
    pub(crate) fn next_piece(&mut self, most: usize) -> (Bytes, bool) {
        while self.written.len() < most && self.tail.is_some() {
            self.row.clear();
            if !self.rows.write_next(&mut self.row) {
                self.written.put_slice(&self.tail.take().unwrap_or_default());
            } else if !self.row.is_empty() {
                if !std::mem::take(&mut self.is_first) {
                    self.written.put_u8(b',');
                }
                self.written.put_slice(&self.row);
            }
        }
        let piece = self.written.split_to(self.written.len().min(most)).freeze();
        (piece, self.tail.is_none() && self.written.is_empty())
    }
}

fn after_rows(times: &Times, has_older: bool) -> Vec<u8> {
    let times = serde_json::to_string(times).expect("times have text for keys");
    let older = if has_older { r#","older":true"# } else { "" };
    format!(r#"],"times":{times}{older}}}"#).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::TranscriptText;
    use maestro_projection::Projection;
    use maestro_protocol::Frame;

    #[test]
    fn pieces_put_together_are_the_frame() {
        let mut projection = Projection::new();
        let mut check = |messages: u64, tail: usize, most: usize| {
            for number in 0..messages {
                let line = format!(
                    r#"{{"sessionId":"s","update":{{"sessionUpdate":"agent_message_chunk","messageId":"{number}","content":{{"type":"text","text":"é\n{number}"}}}}}}"#
                );
                projection.apply(projection.cursor() + 1, line.as_bytes());
                projection.pack();
            }
            let (rows, times, older) = projection.tail(tail);
            let frame = Frame::TranscriptSnapshot { cursor: projection.cursor(), rows, times, older };
            let (mut text, mut put_together) = (TranscriptText::new(&projection, tail), Vec::new());
            loop {
                let (piece, is_last) = text.next_piece(most);
                assert!(piece.len() == most || is_last && piece.len() <= most);
                put_together.extend_from_slice(&piece);
                if is_last {
                    break;
                }
            }
            assert_eq!(String::from_utf8(put_together), Ok(serde_json::to_string(&frame).expect("JSON")));
            assert_eq!(text.next_piece(most).0.len(), 0);
        };
        check(0, usize::MAX, 64);
        check(1, usize::MAX, 64);
        check(3, 2, 7);
        check(0, 0, 1 << 16);
        check(2000, usize::MAX, 1 << 10);
        check(0, 700, 1 << 16);
    }
}
