//! The lines of an audit log and how each follows from the one before it (CONTRACT §12.1). Pure.

use maestro_protocol::{AuditEntry, AuditPage, Cursor};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::{collections::VecDeque, fmt::Write as _};

/// What the first line follows.
const BEGINNING: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// A line as it is stored.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    #[serde(flatten)]
    entry: AuditEntry,
    /// The SHA-256 of the line before this one, without its newline.
    prev: String,
}

/// The end of a log, to which lines are added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tip {
    number: Cursor,
    hash: String,
}

impl Default for Tip {
    fn default() -> Self {
        Self { number: 0, hash: BEGINNING.into() }
    }
}

impl Tip {
    /// The number of the next entry.
    pub(super) fn next(&self) -> Cursor {
        self.number + 1
    }

    /// The line of an entry that has the next number, with its newline.
    pub(super) fn add(&mut self, entry: AuditEntry) -> Vec<u8> {
        self.number = entry.number;
        let line = Line { entry, prev: std::mem::take(&mut self.hash) };
        let mut text = serde_json::to_vec(&line).expect("an entry has only plain fields");
        self.hash = hash(&text);
        text.push(b'\n');
        text
    }

    /// Goes over a line that is there. Whether it is whole and follows from what was before.
    pub(super) fn pass(&mut self, text: &[u8]) -> Option<AuditEntry> {
        let read = serde_json::from_slice::<Line>(text).ok();
        let follows =
            read.as_ref().is_some_and(|line| line.prev == self.hash && line.entry.number == self.next());
        self.hash = hash(text);
        self.number = read.as_ref().map_or(self.number, |line| line.entry.number);
        read.filter(|_| follows).map(|line| line.entry)
    }
}

fn hash(text: &[u8]) -> String {
    Sha256::digest(text).iter().fold(String::with_capacity(64), |mut hex, byte| {
        // A String takes everything.
        write!(hex, "{byte:02x}").unwrap_or_default();
        hex
    })
}

/// Makes a page of the lines of a log, which are given from the first on, without their newlines.
pub(super) struct Pager<'a> {
    account: &'a str,
    before: Cursor,
    limit: usize,
    tip: Tip,
    lines: u64,
    entries: VecDeque<AuditEntry>,
    has_older: bool,
    broken_line: Option<u64>,
}

impl<'a> Pager<'a> {
    pub(super) fn new(account: &'a str, before: Cursor, limit: usize) -> Self {
        let (tip, entries) = (Tip::default(), VecDeque::new());
        Self { account, before, limit, tip, lines: 0, entries, has_older: false, broken_line: None }
    }

    /// Takes the next line; false once the page is complete.
    pub(super) fn take(&mut self, text: &[u8]) -> bool {
        self.lines += 1;
        let read = serde_json::from_slice::<Line>(text).ok().map(|line| line.entry);
        if self.tip.pass(text).is_none() {
            self.broken_line.get_or_insert(self.lines);
        }
        // What cannot be trusted is shown all the same, and marked.
        let Some(entry) = read else { return true };
        if entry.number >= self.before {
            return false;
        }
        if entry.account == self.account {
            self.entries.push_back(entry);
            if self.entries.len() > self.limit {
                self.entries.pop_front();
                self.has_older = true;
            }
        }
        true
    }

    pub(super) fn page(self) -> AuditPage {
        let before = self.entries.front().filter(|_| self.has_older).map(|entry| entry.number);
        AuditPage { entries: self.entries.into(), before, broken_line: self.broken_line }
    }
}

#[cfg(test)]
mod tests {
    use super::{Pager, Tip};
    use maestro_protocol::{AuditEntry, AuditEvent, AuditPage, Timestamp};
    use proptest::prelude::*;

    const OWN: &str = "owner@localhost";

    fn log(accounts: &[&str]) -> Vec<Vec<u8>> {
        let mut tip = Tip::default();
        let line = |account: &&str| {
            let event = AuditEvent::LeftOut { count: tip.next() };
            let at = Timestamp::from_millisecond(0);
            let mut line = tip.add(AuditEntry { number: tip.next(), at, account: (*account).into(), event });
            assert_eq!(line.pop(), Some(b'\n'));
            line
        };
        accounts.iter().map(line).collect()
    }

    fn page(lines: &[Vec<u8>], before: u64, limit: usize) -> AuditPage {
        let mut pager = Pager::new(OWN, before, limit);
        let _all = lines.iter().all(|line| pager.take(line));
        pager.page()
    }

    #[test]
    fn a_page_holds_the_accounts_own_entries_before_a_number() {
        let lines = log(&[OWN, "b@x", OWN, OWN, "b@x", OWN]);
        let check = |before: u64, limit: usize, expect: &[u64], older: Option<u64>| {
            let page = page(&lines, before, limit);
            let numbers: Vec<u64> = page.entries.iter().map(|entry| entry.number).collect();
            assert_eq!((numbers.as_slice(), page.before, page.broken_line), (expect, older, None));
        };
        check(u64::MAX, 10, &[1, 3, 4, 6], None);
        check(u64::MAX, 2, &[4, 6], Some(4));
        check(4, 2, &[1, 3], None);
        check(1, 2, &[], None);
    }

    #[test]
    fn what_was_changed_is_found() {
        let whole = log(&[OWN; 5]);
        let check = |change: &dyn Fn(&mut Vec<Vec<u8>>), expect: Option<u64>| {
            let mut lines = whole.clone();
            change(&mut lines);
            assert_eq!(page(&lines, u64::MAX, 10).broken_line, expect);
        };
        check(&|_| {}, None);
        check(&|lines| drop(lines.remove(2)), Some(3));
        check(&|lines| lines.swap(1, 2), Some(2));
        check(&|lines| lines.insert(2, lines[1].clone()), Some(3));
        check(&|lines| lines[0] = b"{}".to_vec(), Some(1));
        check(&|lines| lines[2].truncate(20), Some(3));
        // A line that is changed in itself no longer has the hash that the next one names.
        check(
            &|lines| lines[1] = String::from_utf8_lossy(&lines[1]).replace("owner", "other").into(),
            Some(3),
        );
        check(&|lines| drop(lines.drain(..1)), Some(1));
    }

    proptest! {
        #[test]
        fn any_flipped_bit_is_found_while_a_line_follows(line in 0..4_usize, at in 0..100_usize, bit in 0..8_u32) {
            let mut lines = log(&[OWN; 5]);
            let at = at % lines[line].len();
            lines[line][at] ^= 1 << bit;
            prop_assert!(page(&lines, u64::MAX, 10).broken_line.is_some());
        }

        #[test]
        fn no_bytes_make_a_page_fail(lines: Vec<Vec<u8>>) {
            let told = page(&lines, u64::MAX, 10);
            prop_assert!(told.entries.is_empty() && told.broken_line == (!lines.is_empty()).then_some(1));
        }
    }
}
