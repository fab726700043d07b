use crate::store::{Store, append, wait};
use std::{
    fs::OpenOptions,
    sync::atomic::{AtomicU64, Ordering::SeqCst},
    thread,
};

const COUNT: u64 = 10_000;

fn line(cursor: u64) -> Vec<u8> {
    format!("{{\"line\":{cursor},\"pad\":\"{}\"}}", "p".repeat((cursor * 37 % 400) as usize)).into_bytes()
}

#[test]
fn a_reader_beside_the_writer_sees_whole_lines_from_the_first_on() {
    let store = Store::with(&[]);
    let mut log = store.open().log;
    let reader = log.reader();
    let appended = AtomicU64::new(0);
    let read_until_all_are_there = || {
        let mut passes = 0;
        loop {
            let before = appended.load(SeqCst);
            let mut seen = 0;
            for found in reader.lines() {
                seen += 1;
                assert_eq!(found.unwrap(), line(seen));
            }
            assert!(seen >= before, "what was appended is visible: {seen} of {before}");
            passes += 1;
            if seen == COUNT {
                return passes;
            }
        }
    };
    let passes = thread::scope(|scope| {
        let readers = [scope.spawn(read_until_all_are_there), scope.spawn(read_until_all_are_there)];
        for cursor in 1..=COUNT {
            assert_eq!(append(&mut log, &line(cursor)), cursor);
            appended.store(cursor, SeqCst);
        }
        readers.map(|reader| reader.join().unwrap())
    });
    assert!(passes.iter().all(|passes| *passes >= 1));
    wait(log.flush()).unwrap();
}

#[test]
fn lines_end_where_the_log_ended_when_they_were_asked_for() {
    let store = Store::with(&[b"one", b""]);
    let mut opened = store.open();
    let reader = opened.log.reader();
    let before = reader.lines();
    append(&mut opened.log, &vec![b'x'; 8 << 20]);
    assert_eq!(before.count(), 2);
    assert_eq!(reader.lines().map(|line| line.unwrap().len()).collect::<Vec<_>>(), [3, 0, 8 << 20]);
    drop(opened);
    assert_eq!(reader.lines().count(), 3, "a reader outlives the writer");
}

#[test]
fn a_file_that_someone_cut_ends_in_an_error_not_in_part_of_a_line() {
    let store = Store::with(&[b"one", b"second"]);
    let opened = store.open();
    let file = OpenOptions::new().write(true).open(store.file("events.jsonl")).unwrap();
    file.set_len(6).unwrap();
    let mut lines = opened.log.reader().lines();
    assert_eq!(lines.next().unwrap().unwrap(), b"one");
    assert!(lines.next().unwrap().is_err());
    assert!(lines.next().is_none());
}
