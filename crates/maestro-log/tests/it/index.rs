use crate::store::{Store, append};
use maestro_log::{IndexError, IndexLine, IndexState, ReadIndexError};
use std::{fs, ops::RangeInclusive, os::unix::fs::symlink};

fn lines(count: usize) -> Vec<Vec<u8>> {
    (1..=count).map(|n| format!("{{\"line\":{n},\"pad\":\"{}\"}}", "x".repeat(n % 7)).into_bytes()).collect()
}

fn store(count: usize) -> Store {
    Store::with(&lines(count).iter().map(Vec::as_slice).collect::<Vec<_>>())
}

/// Changes one file of the index of a log of 40 lines; opening it gives the same index as before.
fn check_rebuilt(suffix: &str, what: &str, change: impl Fn(Vec<u8>) -> Option<Vec<u8>>) {
    let store = store(40);
    let good = (store.index_bytes(), store.side_bytes());
    match change(fs::read(store.file(suffix)).unwrap()) {
        Some(bytes) => fs::write(store.file(suffix), bytes).unwrap(),
        None => fs::remove_file(store.file(suffix)).unwrap(),
    }
    let opened = store.open();
    assert!(matches!(opened.report.index, IndexState::Rebuilt), "{what}");
    assert!(opened.report.damaged.is_empty(), "{what}");
    assert_eq!(opened.lines, lines(40), "{what}");
    assert_eq!((store.index_bytes(), store.side_bytes()), good, "{what}");
    let found = opened.look_up();
    assert!(found.iter().rev().eq(&lines(40)), "{what}");
    drop(opened);
    assert!(matches!(store.open().report.index, IndexState::Kept), "{what}");
}

#[test]
fn a_lost_or_foreign_index_is_rebuilt_equal() {
    for suffix in ["index", "checkpoints"] {
        let len = fs::read(store(40).file(suffix)).unwrap().len();
        check_rebuilt(suffix, "missing", |_| None);
        check_rebuilt(suffix, "empty", |_| Some(Vec::new()));
        check_rebuilt(suffix, "an older version", |mut bytes| {
            bytes[7] -= 1;
            Some(bytes)
        });
        check_rebuilt(suffix, "text", |_| Some(b"something else entirely".to_vec()));
        check_rebuilt(suffix, "too long", |bytes| Some([&bytes[..], &bytes[8..]].concat()));
        (0..len)
            .step_by(11)
            .for_each(|cut| check_rebuilt(suffix, "short", |bytes| Some(bytes[..cut].to_vec())));
        (0..len).step_by(7).for_each(|at| {
            check_rebuilt(suffix, "corrupt", |mut bytes| {
                bytes[at] ^= 1 << (at % 8);
                Some(bytes)
            });
        });
    }
}

#[test]
fn any_line_is_found_by_its_cursor() {
    let store = store(300);
    let mut opened = store.open();
    for cursor in 301..=700 {
        append(&mut opened.log, &lines(cursor)[cursor - 1]);
    }
    assert!(opened.look_up().iter().rev().eq(&lines(700)));
    let mut earlier = opened.log.reader().indexed().unwrap();
    append(&mut opened.log, b"later");
    assert_eq!(earlier.last(), 700, "it is of the moment at which it was made");
    for outside in [0, 701, u64::MAX] {
        assert!(matches!(earlier.line(outside), Err(ReadIndexError::Wrong { .. })), "{outside}");
    }
    drop(opened);
    assert_eq!(earlier.line(700).unwrap(), lines(700)[699], "it outlives the writer");
}

#[test]
fn a_line_that_is_not_the_indexed_one_is_not_given() {
    let store = store(40);
    let opened = store.open();
    let mut bytes = store.log_bytes();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    fs::write(store.file("events.jsonl"), &bytes).unwrap();
    let mut log = opened.log.reader().indexed().unwrap();
    let wrong: Vec<_> = (1..=40).filter(|cursor| log.line(*cursor).is_err()).collect();
    let line = bytes[..at].split(|byte| *byte == b'\n').count() as u64;
    assert_eq!(wrong, [line]);
}

#[test]
fn appending_and_rebuilding_give_the_same_index() {
    let store = store(10);
    let mut opened = store.open();
    lines(200)[10..].iter().for_each(|line| assert!(append(&mut opened.log, line) > 10));
    drop(opened);
    let appended = (store.index_bytes(), store.side_bytes());
    fs::remove_file(store.file("index")).unwrap();
    drop(store.open());
    assert_eq!((store.index_bytes(), store.side_bytes()), appended);
}

#[test]
fn touches_that_changed_are_written_anew() {
    let store = store(10);
    let good = store.index_bytes();
    let (log, report) = store.dir.open_log(store.id, |_, _| IndexLine::default()).unwrap();
    assert!(matches!(report.index, IndexState::Rebuilt));
    assert!(report.damaged.is_empty());
    drop(log);
    assert_ne!(store.index_bytes(), good);
    drop(store.open());
    assert_eq!(store.index_bytes(), good);
}

/// Flips bits of the log; says which lines are reported, at this opening and at the next.
fn check_flip(at: usize, mask: u8) -> Vec<RangeInclusive<u64>> {
    let store = store(12);
    let mut bytes = store.log_bytes();
    bytes[at] ^= mask;
    fs::write(store.file("events.jsonl"), &bytes).unwrap();
    let opened = store.open();
    let by_newline: Vec<_> =
        bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end).collect();
    assert_eq!(opened.lines.len(), by_newline.len(), "byte {at} mask {mask}");
    assert_eq!(opened.lines.last().unwrap(), lines(12).last().unwrap(), "later lines are served");
    let damaged = opened.report.damaged.clone();
    drop(opened);
    assert_eq!(store.open().report.damaged, damaged, "told again");
    assert_eq!(store.log_bytes(), bytes, "the log is not touched");
    damaged
}

#[test]
fn a_flipped_bit_in_a_middle_line_is_reported_at_every_opening() {
    let lines = lines(12);
    let start = |line: usize| lines[..line - 1].iter().map(|line| line.len() + 1).sum::<usize>();
    for at in start(5)..start(6) - 1 {
        for bit in 0..8 {
            let expect = if lines[4][at - start(5)] ^ (1 << bit) == b'\n' { 5..=6 } else { 5..=5 };
            assert_eq!(check_flip(at, 1 << bit), [expect], "byte {at} bit {bit}");
        }
    }
    assert_eq!(check_flip(start(5) + 3, lines[4][3] ^ b'\n'), [5..=6], "a line that became two");
    assert_eq!(check_flip(start(6) - 1, b'\n' ^ b' '), [5..=5], "two lines that became one");
}

#[test]
fn the_log_goes_on_without_an_index() {
    let check = |suffix_is: fn(&Store)| {
        let store = store(3);
        fs::remove_file(store.file("index")).unwrap();
        suffix_is(&store);
        let mut opened = store.open();
        assert!(matches!(opened.report.index, IndexState::Off(IndexError::File { .. })));
        let cursor = opened.log.append(b"four").unwrap();
        assert!(matches!(opened.log.index(cursor, &IndexLine::default()), Err(IndexError::Off)));
        assert_eq!(opened.read().len(), 4);
    };
    check(|store| fs::create_dir(store.file("index")).unwrap());
    check(|store| symlink("/dev/null", store.file("index")).unwrap());
}

#[test]
fn a_new_log_tells_why_its_index_is_off() {
    let store = store(0);
    fs::remove_file(store.file("events.jsonl")).unwrap();
    fs::remove_file(store.file("index")).unwrap();
    fs::create_dir(store.file("index")).unwrap();
    let mut log = store.dir.create_log(store.id).unwrap();
    let mut index = || {
        let cursor = log.append(b"x").unwrap();
        log.index(cursor, &IndexLine::default())
    };
    assert!(matches!(index(), Err(IndexError::File { .. })));
    assert!(matches!(index(), Err(IndexError::Off)));
}

#[test]
fn a_line_that_is_passed_over_ends_the_index_not_the_log() {
    let store = store(3);
    let good = store.index_bytes();
    let mut opened = store.open();
    opened.log.append(b"four").unwrap();
    let five = opened.log.append(b"five").unwrap();
    let told = opened.log.index(five, &IndexLine::default());
    assert!(matches!(told, Err(IndexError::OutOfOrder { wanted: 4, given: 5 })), "{told:?}");
    assert!(matches!(opened.log.index(five, &IndexLine::default()), Err(IndexError::OutOfOrder { .. })));
    drop(opened);
    assert_eq!(store.index_bytes(), good);
    let opened = store.open();
    assert!(matches!(opened.report.index, IndexState::Rebuilt));
    assert_eq!(opened.report.lines, 5);
    assert!(opened.report.damaged.is_empty());
}
