//! Whatever happens between, a line keeps its position, and a line whose flush was answered is never lost.

use crate::store::{Opened, Store, append, wait};
use proptest::prelude::*;
use std::fs::{self, OpenOptions};

#[derive(Debug, Clone)]
enum Step {
    Append(Vec<u8>),
    Flush,
    /// The machine stops: of what was not flushed, this part is on disk; of the index, that part.
    Crash {
        log: f64,
        index: f64,
    },
    Reopen,
    LoseIndex,
}

fn step() -> impl Strategy<Value = Step> {
    let byte = prop_oneof![9 => b' '..=b'~', 1 => any::<u8>()].prop_filter("one line", |byte| *byte != b'\n');
    prop_oneof![
        8 => prop::collection::vec(byte, 0..40).prop_map(Step::Append),
        3 => Just(Step::Flush),
        2 => (0.0..=1.0, 0.0..=1.0).prop_map(|(log, index)| Step::Crash { log, index }),
        1 => Just(Step::Reopen),
        1 => Just(Step::LoseIndex),
    ]
}

struct Model {
    store: Store,
    opened: Option<Opened>,
    /// The log as it must be.
    lines: Vec<Vec<u8>>,
    /// The length of the log that an answered flush covers.
    flushed: usize,
}

impl Model {
    fn bytes(&self) -> Vec<u8> {
        self.lines.iter().flat_map(|line| line.iter().copied().chain([b'\n'])).collect()
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Append(line) => {
                let opened = self.opened.as_mut().unwrap();
                let cursor = append(&mut opened.log, &line);
                self.lines.push(line);
                assert_eq!(cursor, self.lines.len() as u64);
            }
            Step::Flush => {
                wait(self.opened.as_ref().unwrap().log.flush()).unwrap();
                self.flushed = self.bytes().len();
            }
            Step::Crash { log, index } => {
                self.opened = None;
                let bytes = self.bytes();
                let kept = self.flushed + share(bytes.len() - self.flushed, log);
                cut(&self.store, "events.jsonl", kept);
                cut(&self.store, "index", share(self.store.index_bytes().len(), index));
                let torn = !bytes[..kept].ends_with(b"\n") && kept > 0;
                self.lines = bytes[..kept].split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
                if !torn {
                    self.lines.pop();
                }
                self.reopen(torn);
            }
            Step::Reopen => self.reopen(false),
            Step::LoseIndex => {
                self.opened = None;
                fs::remove_file(self.store.file("index")).unwrap();
                self.reopen(false);
            }
        }
        let opened = self.opened.as_ref().unwrap();
        assert_eq!(opened.read(), self.lines);
        assert!(opened.look_up().iter().rev().eq(&self.lines));
        assert_eq!(self.store.log_bytes(), self.bytes());
    }

    fn reopen(&mut self, torn: bool) {
        self.opened = None;
        let opened = self.store.open();
        assert_eq!(opened.lines, self.lines);
        assert_eq!(opened.report.torn, torn);
        assert!(opened.report.damaged.is_empty(), "{:?}", opened.report.damaged);
        self.opened = Some(opened);
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a share of a small number lies between 0 and that number"
)]
fn share(of: usize, part: f64) -> usize {
    ((of as f64) * part).round() as usize
}

fn cut(store: &Store, suffix: &str, len: usize) {
    let file = OpenOptions::new().write(true).open(store.file(suffix)).unwrap();
    file.set_len(len as u64).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn answered_lines_stay_in_place(steps in prop::collection::vec(step(), 1..40)) {
        let store = Store::with(&[]);
        let opened = Some(store.open());
        let mut model = Model { store, opened, lines: Vec::new(), flushed: 0 };
        for step in steps {
            model.take(step);
        }
    }

    #[test]
    fn any_bytes_open_as_their_lines(bytes in prop::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..200)) {
        let store = Store::with(&[]);
        fs::write(store.file("events.jsonl"), &bytes).unwrap();
        let torn = bytes.last().is_some_and(|last| *last != b'\n');
        let mut expected: Vec<_> = bytes.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        if !torn {
            expected.pop();
        }
        let opened = store.open();
        prop_assert_eq!(&opened.lines, &expected);
        prop_assert_eq!(opened.read(), expected);
        prop_assert_eq!(opened.report.torn, torn);
    }
}
