//! Lines that must still get into the log: they say what is over already, and found no space (CONTRACT §5.4). Pure.
//!
//! They are written before anything else is, in their order, so that the log tells things as they came. Meanwhile a fold
//! that runs ahead of the log knows what it will say.

use maestro_projection::{Line, StateFold};
use std::collections::VecDeque;

/// How much may be owed, in bytes. While its agent runs a session owes a few short lines, because nothing new begins
/// before they are written; of an agent that ended it owes what was still in the pipe and in the queue behind it, each
/// at most 1 MiB, and one line of 8 MiB.
const OWED_BYTES_MAX: usize = 16 * 1024 * 1024;

/// What a line counts besides its bytes, so that many short ones are bounded too.
const LINE_BYTES: usize = 64;

/// More is owed than is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("more than {OWED_BYTES_MAX} bytes wait for space in the event log already")]
pub(super) struct Overflow;

/// See above.
#[derive(Debug, Default)]
pub(super) struct Owed {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    /// The log's fold with all owed lines applied; while nothing is owed there is none.
    ahead: Option<StateFold>,
}

impl Owed {
    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    /// Keeps a line. `log` is the fold of the log as it is.
    pub(super) fn push(&mut self, line: Vec<u8>, log: &StateFold) -> Result<(), Overflow> {
        let bytes = self.bytes + line.len() + LINE_BYTES;
        if bytes > OWED_BYTES_MAX {
            return Err(Overflow);
        }
        let ahead = self.ahead.get_or_insert_with(|| log.clone());
        ahead.apply(ahead.cursor() + 1, &Line::parse(&line));
        self.bytes = bytes;
        self.lines.push_back(line);
        Ok(())
    }

    /// The line that is to be written next.
    pub(super) fn front(&self) -> Option<&[u8]> {
        self.lines.front().map(Vec::as_slice)
    }

    /// The front line is in the log.
    pub(super) fn paid(&mut self) {
        if let Some(line) = self.lines.pop_front() {
            self.bytes -= line.len() + LINE_BYTES;
        }
        if self.lines.is_empty() {
            self.ahead = None;
        }
    }

    /// What the log will say when everything is written, if anything is owed.
    pub(super) fn ahead(&self) -> Option<&StateFold> {
        self.ahead.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use maestro_protocol::{Envelope, Origin, Timestamp, TurnLine};
    use proptest::prelude::*;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millisecond(ms)
    }

    fn started() -> Vec<u8> {
        Envelope::Turn(TurnLine::Started {
            origin: Origin::Person,
            message_id: None,
            queue_item: None,
            request: None,
            at: at(1),
        })
        .to_line()
    }

    fn ended(reason: &str) -> Vec<u8> {
        let reason = reason.to_owned();
        let line = TurnLine::Ended { origin: Origin::Person, reason, error: None, usage: None, at: at(2) };
        Envelope::Turn(line).to_line()
    }

    fn log_of(lines: &[Vec<u8>]) -> StateFold {
        let mut fold = StateFold::new();
        for (cursor, line) in (1..).zip(lines) {
            fold.apply(cursor, &Line::parse(line));
        }
        fold
    }

    #[test]
    fn an_owed_end_is_an_end_before_it_is_written() {
        let log = log_of(&[started()]);
        let mut owed = Owed::default();
        assert!(owed.ahead().is_none());
        owed.push(ended("cancelled"), &log).unwrap();
        assert_eq!(log.open_turn(), Some(Origin::Person));
        let ahead = owed.ahead().unwrap();
        assert_eq!((ahead.open_turn(), ahead.cursor()), (None, 2));
        assert_eq!(owed.front(), Some(ended("cancelled").as_slice()));
        owed.paid();
        assert!(owed.is_empty() && owed.ahead().is_none());
    }

    #[test]
    fn what_is_owed_is_bounded() {
        let mut owed = Owed::default();
        let line = vec![b'x'; OWED_BYTES_MAX / 4];
        let kept = (0..10).take_while(|_| owed.push(line.clone(), &StateFold::new()).is_ok()).count();
        assert_eq!((kept, owed.len()), (3, 3));
        owed.paid();
        assert_eq!(owed.push(line, &StateFold::new()), Ok(()), "what is paid makes room");
        let mut owed = Owed::default();
        let more = OWED_BYTES_MAX / LINE_BYTES + 10;
        let kept = (0..more).take_while(|_| owed.push(Vec::new(), &StateFold::new()).is_ok()).count();
        assert_eq!(kept, OWED_BYTES_MAX / LINE_BYTES, "empty lines count too");
    }

    proptest! {
        /// However pushes and payments alternate, the log gets the lines in their order, and the fold that runs ahead is
        /// the fold of the log once all is paid.
        #[test]
        fn the_log_gets_what_was_owed_in_order(steps in prop::collection::vec(any::<bool>(), 0..40)) {
            let (mut owed, mut log, mut pushed) = (Owed::default(), vec![], vec![]);
            for (number, push) in steps.into_iter().enumerate() {
                if push {
                    let line = if number % 2 == 0 { started() } else { ended(&number.to_string()) };
                    owed.push(line.clone(), &log_of(&log)).unwrap();
                    pushed.push(line);
                } else if let Some(line) = owed.front() {
                    log.push(line.to_vec());
                    owed.paid();
                }
                let (fold, in_log) = (log_of(&pushed), log_of(&log));
                prop_assert_eq!(owed.ahead().unwrap_or(&in_log), &fold);
            }
            prop_assert_eq!(log.len() + owed.len(), pushed.len());
            prop_assert_eq!(&pushed[..log.len()], log.as_slice());
        }
    }
}
