use crate::store::{Store, log_dir, session_id};
use maestro_log::SidecarError;
use maestro_protocol::SessionId;
use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    thread,
};

type Value = BTreeMap<String, Vec<u32>>;

fn value(writer: &str, size: u32) -> Value {
    BTreeMap::from([(writer.to_owned(), (0..size).collect())])
}

fn names(store: &Store) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(store.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_sidecar_is_private_and_comes_back() {
    let store = Store::with(&[]);
    assert_eq!(store.dir.read_sidecar::<Value>(store.id).unwrap(), None);
    for size in [3, 5000, 0] {
        store.dir.write_sidecar(store.id, &value("a", size)).unwrap();
        assert_eq!(store.dir.read_sidecar(store.id).unwrap(), Some(value("a", size)));
    }
    assert_eq!(fs::metadata(store.file("json")).unwrap().permissions().mode() & 0o7777, 0o600);
    assert_eq!(names(&store).len(), 4, "no temporary file stays: {:?}", names(&store));
}

#[test]
fn two_writers_never_leave_half_a_file() {
    let store = Store::with(&[]);
    store.dir.write_sidecar(store.id, &value("a", 1)).unwrap();
    let done = AtomicBool::new(false);
    let write = |writer: &'static str| {
        for round in 0..40 {
            store.dir.write_sidecar(store.id, &value(writer, round % 7 * 1500)).unwrap();
        }
    };
    let read = || {
        let mut reads = 0;
        while !done.load(SeqCst) || reads == 0 {
            let found: Value = store.dir.read_sidecar(store.id).unwrap().expect("it is never missing");
            let (writer, numbers) = found.first_key_value().unwrap();
            assert_eq!(found, value(writer, u32::try_from(numbers.len()).unwrap()));
            reads += 1;
        }
    };
    thread::scope(|scope| {
        scope.spawn(read);
        let writers = [scope.spawn(|| write("a")), scope.spawn(|| write("b"))];
        let ended = writers.map(thread::ScopedJoinHandle::join);
        done.store(true, SeqCst);
        assert!(ended.iter().all(Result::is_ok));
    });
    assert_eq!(names(&store).len(), 4, "{:?}", names(&store));
}

#[test]
fn what_a_killed_writer_left_is_cleaned_and_nothing_else() {
    let store = Store::with(&[b"one"]);
    store.dir.write_sidecar(store.id, &value("a", 3)).unwrap();
    let junk = ["note.tmp", ".tmp", "x.json.1.tmp", "README"];
    for name in junk {
        fs::write(store.path().join(name), "kept").unwrap();
    }
    let before = names(&store);
    fs::write(store.path().join(format!("{}.json.Ab12Cd.tmp", store.id)), "{\"a\":[0").unwrap();
    let dir = log_dir(store.path());
    assert_eq!(names(&store), before);
    assert_eq!(dir.read_sidecar(store.id).unwrap(), Some(value("a", 3)));
}

#[test]
fn the_queue_of_a_session_that_never_was_is_cleaned() {
    let store = Store::with(&[b"one"]);
    assert_eq!(store.dir.read_queue::<Value>(store.id).unwrap(), None);
    store.dir.write_queue(store.id, &value("a", 3)).unwrap();
    assert_eq!(fs::metadata(store.file("queue.json")).unwrap().permissions().mode() & 0o7777, 0o600);
    store.dir.write_sidecar(store.id, &value("b", 1)).unwrap();
    let kept = log_dir(store.path()).read_queue(store.id).unwrap();
    assert_eq!(kept, Some(value("a", 3)), "a session that is there keeps its queue");
    fs::remove_file(store.file("json")).unwrap();
    log_dir(store.path());
    assert!(!store.file("queue.json").exists());
    store.dir.write_queue(store.id, &value("a", 3)).unwrap();
    store.dir.remove(store.id).unwrap();
    assert_eq!(names(&store), Vec::<String>::new());
}

#[test]
fn a_listing_holds_sessions_only_and_names_the_bad_ones() {
    let store = Store::with(&[]);
    let ids: Vec<SessionId> =
        (0..6).map(|n| format!("00000000-0000-4000-8000-00000000000{n}").parse().unwrap()).collect();
    let path = |id: SessionId| store.path().join(format!("{id}.json"));
    store.dir.write_sidecar(ids[1], &value("one", 1)).unwrap();
    store.dir.write_sidecar(ids[0], &value("zero", 1)).unwrap();
    fs::write(path(ids[2]), "{\"half\":").unwrap();
    fs::create_dir(path(ids[3])).unwrap();
    symlink(path(ids[0]), path(ids[4])).unwrap();
    fs::write(path(ids[5]), "").unwrap();
    for junk in ["x.json", "..json", "00000000-0000-4000-8000-00000000000A.json", ".json", "README"] {
        fs::write(store.path().join(junk), "{}").unwrap();
    }
    fs::write(store.path().join(format!("{}.queue.json", ids[0])), "{}").unwrap();
    let found = store.dir.sidecars::<Value>().unwrap();
    assert_eq!(found.read, [(ids[0], value("zero", 1)), (ids[1], value("one", 1))]);
    let unreadable: Vec<_> = found
        .unreadable
        .iter()
        .map(|(id, error)| (*id, matches!(error, SidecarError::Decode { .. })))
        .collect();
    assert_eq!(unreadable, [(ids[2], true), (ids[3], false), (ids[4], false), (ids[5], true)]);
}

#[test]
fn a_value_without_a_json_form_changes_nothing() {
    let store = Store::with(&[]);
    store.dir.write_sidecar(store.id, &value("a", 3)).unwrap();
    let formless = BTreeMap::from([(vec![1], 1)]);
    assert!(matches!(store.dir.write_sidecar(store.id, &formless), Err(SidecarError::Encode { .. })));
    assert_eq!(store.dir.read_sidecar(store.id).unwrap(), Some(value("a", 3)));
}

#[test]
fn a_marker_is_taken_once() {
    let store = Store::with(&[]);
    assert!(!store.dir.take_marker(store.id).unwrap());
    for _ in 0..20 {
        store.dir.write_marker(store.id).unwrap();
        store.dir.write_marker(store.id).unwrap();
        let marker = fs::metadata(store.file("recover")).unwrap();
        assert_eq!((marker.len(), marker.permissions().mode() & 0o7777), (0, 0o600));
        let taken = AtomicUsize::new(0);
        let take = || taken.fetch_add(usize::from(store.dir.take_marker(session_id()).unwrap()), SeqCst);
        thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(take))));
        assert_eq!(taken.into_inner(), 1);
        assert!(!store.file("recover").exists());
    }
}
