use crate::store::{Store, append};
use maestro_log::OpenLogError;
use std::{
    fs::{self, OpenOptions},
    os::unix::fs::{PermissionsExt as _, symlink},
};

const LINES: [&[u8]; 4] = [b"{\"n\":1}", b"", b"{\"text\":\"\xc3\xa4\"}", b"{\"last\":\"one of them\"}"];

#[test]
fn a_log_cut_at_any_byte_of_its_last_line_keeps_all_positions() {
    let whole = Store::with(&LINES).log_bytes();
    let last = whole.len() - LINES[3].len() - 1;
    let check = |cut: usize| {
        let store = Store::with(&LINES);
        let file = OpenOptions::new().write(true).open(store.file("events.jsonl")).unwrap();
        file.set_len(cut as u64).unwrap();
        let rest = &whole[last..cut];
        let expected: Vec<&[u8]> = match rest {
            [] => LINES[..3].to_vec(),
            [line @ .., b'\n'] | line => [&LINES[..3], &[line]].concat(),
        };
        let mut opened = store.open();
        assert_eq!(opened.lines, expected, "{cut}");
        assert_eq!(opened.report.lines, expected.len() as u64, "{cut}");
        assert_eq!(opened.report.torn, !rest.is_empty() && cut < whole.len(), "{cut}");
        assert!(opened.report.damaged.is_empty(), "{cut}");
        assert_eq!(opened.read(), expected, "{cut}");
        assert_eq!(append(&mut opened.log, b"fresh"), expected.len() as u64 + 1, "{cut}");
        drop(opened);
        let again = store.open();
        assert_eq!(again.lines, [&expected[..], &[b"fresh"]].concat(), "{cut}");
        assert!(!again.report.torn, "{cut}");
    };
    (last..=whole.len()).for_each(check);
}

#[test]
fn opening_changes_nothing_of_a_whole_log() {
    let store = Store::with(&LINES);
    let before = (store.log_bytes(), store.index_bytes());
    assert_eq!(store.open().lines, LINES);
    assert_eq!((store.log_bytes(), store.index_bytes()), before);
}

#[test]
fn the_files_of_a_log_are_private() {
    let store = Store::with(&LINES);
    for suffix in ["events.jsonl", "index"] {
        let mode = fs::metadata(store.file(suffix)).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600, "{suffix}");
    }
}

#[test]
fn what_is_no_log_is_not_opened() {
    let check = |expect: &str, prepare: fn(&Store)| {
        let store = Store::with(&[]);
        fs::remove_file(store.file("events.jsonl")).unwrap();
        prepare(&store);
        let kind = match store.dir.open_log(store.id, |_, _| maestro_log::IndexLine::default()) {
            Ok(_) => "opened",
            Err(OpenLogError::Missing { .. }) => "missing",
            Err(OpenLogError::Open { .. }) => "open",
            Err(other) => panic!("{other:?}"),
        };
        assert_eq!(kind, expect);
    };
    check("missing", |_| ());
    check("opened", |store| fs::write(store.file("events.jsonl"), "").unwrap());
    check("open", |store| fs::create_dir(store.file("events.jsonl")).unwrap());
    check("open", |store| symlink("/dev/null", store.file("events.jsonl")).unwrap());
    check("open", |store| {
        let fifo = rustix::fs::mknodat(
            rustix::fs::CWD,
            store.file("events.jsonl"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        );
        fifo.unwrap();
    });
}

#[test]
fn a_log_is_made_once() {
    let store = Store::with(&LINES);
    assert!(matches!(store.dir.create_log(store.id), Err(OpenLogError::Exists { .. })));
    assert_eq!(store.open().lines, LINES);
}

#[test]
fn a_removed_session_leaves_nothing() {
    let store = Store::with(&LINES);
    store.dir.write_sidecar(store.id, &1).unwrap();
    store.dir.write_marker(store.id).unwrap();
    store.dir.remove(store.id).unwrap();
    assert_eq!(fs::read_dir(store.path()).unwrap().count(), 0);
    store.dir.remove(store.id).unwrap();
}
