use super::{DataDir, DataDirError, LockError, WRITABLE_BY_OTHERS, check_own, socket};
use std::{
    fs::{self, Permissions},
    os::unix::{
        ffi::OsStrExt as _,
        fs::{PermissionsExt as _, symlink},
    },
    path::Path,
};

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn the_layout_is_private() {
    let temp = tempfile::tempdir().unwrap();
    let dir = DataDir::open(&temp.path().join("a/data")).unwrap();
    let lock = dir.lock().unwrap();
    for made in [dir.path(), &dir.sessions(), &dir.run(), &temp.path().join("a")] {
        assert_eq!(mode(made), 0o700, "{}", made.display());
    }
    assert_eq!(mode(&dir.path().join("lock")), 0o600);
    assert_eq!(dir.socket_path().unwrap(), dir.run().join("daemon.sock"));
    DataDir::open(dir.path()).unwrap();
    drop(lock);
}

#[test]
fn a_directory_that_others_may_write_is_refused() {
    let check = |part: &str, given: u32, refused: bool| {
        let temp = tempfile::tempdir().unwrap();
        let data = temp.path().join("data");
        fs::create_dir_all(data.join("run")).unwrap();
        fs::create_dir(data.join("sessions")).unwrap();
        set_mode(&temp.path().join(part), given);
        let opened = DataDir::open(&data);
        set_mode(&temp.path().join(part), 0o700);
        match opened {
            Ok(_) => assert!(!refused, "{part} {given:o}"),
            Err(DataDirError::WritableByOthers { mode, .. } | DataDirError::UnsafeParent { mode, .. }) => {
                assert!(refused && mode == given, "{part} {given:o}");
            }
            Err(other) => panic!("{part} {given:o}: {other}"),
        }
    };
    check("data", 0o700, false);
    check("data", 0o711, false);
    check("data", 0o755, false);
    check("data", 0o770, true);
    check("data", 0o702, true);
    check("data", 0o1777, true);
    check("data/run", 0o777, true);
    check("data/sessions", 0o720, true);
    check(".", 0o777, true);
    check(".", 0o1777, false);
}

#[test]
fn a_directory_of_another_user_is_refused() {
    let temp = tempfile::tempdir().unwrap();
    // Whoever runs this does not own both.
    let foreign = if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(temp.path(), Some(65_534), None).unwrap();
        temp.path()
    } else {
        Path::new("/")
    };
    assert!(matches!(check_own(foreign, WRITABLE_BY_OTHERS), Err(DataDirError::ForeignOwner { .. })));
}

#[test]
fn a_link_is_followed_to_the_data_directory_but_not_inside_it() {
    let temp = tempfile::tempdir().unwrap();
    let real = DataDir::open(&temp.path().join("real")).unwrap();
    symlink(real.path(), temp.path().join("link")).unwrap();
    assert_eq!(DataDir::open(&temp.path().join("link")).unwrap().path(), real.path());
    fs::remove_dir(real.sessions()).unwrap();
    symlink(temp.path(), real.sessions()).unwrap();
    assert!(matches!(DataDir::open(real.path()), Err(DataDirError::NotADirectory { .. })));
}

#[test]
fn a_second_lock_names_the_holder() {
    let temp = tempfile::tempdir().unwrap();
    let dir = DataDir::open(temp.path()).unwrap();
    fs::write(dir.path().join("lock"), "a longer text than any number\n").unwrap();
    let held = dir.lock().unwrap();
    let Err(refused) = dir.lock() else { panic!("it was locked twice") };
    assert!(
        matches!(refused, LockError::Held { pid: Some(pid), .. } if pid == std::process::id()),
        "{refused}"
    );
    drop(held);
    drop(dir.lock().unwrap());
    fs::remove_file(dir.path().join("lock")).unwrap();
    symlink(temp.path().join("elsewhere"), dir.path().join("lock")).unwrap();
    assert!(matches!(dir.lock(), Err(LockError::Take { .. })));
}

#[test]
fn a_directory_is_the_same_after_a_move_and_another_after_a_copy() {
    let temp = tempfile::tempdir().unwrap();
    let (first, moved, copied) = (temp.path().join("a"), temp.path().join("b"), temp.path().join("c"));
    let id = |path: &Path| DataDir::open(path).unwrap().lock().unwrap().directory();
    let original = id(&first);
    assert_eq!(id(&first), original);
    fs::rename(&first, &moved).unwrap();
    assert_eq!(id(&moved), original);
    fs::create_dir(&copied).unwrap();
    fs::copy(moved.join("lock"), copied.join("lock")).unwrap();
    assert_ne!(id(&copied), original);
}

#[test]
fn a_long_socket_path_moves_to_a_closed_directory() {
    let temp = tempfile::tempdir().unwrap();
    let path = |run_len: usize| {
        let run = Path::new("/").join("r".repeat(run_len - 1));
        socket::path(&run, &run, temp.path())
    };
    let room = "/daemon.sock".len();
    assert!(!path(100 - room).unwrap().starts_with(temp.path()));
    let moved = path(101 - room).unwrap();
    assert!(moved.starts_with(temp.path()) && moved.ends_with("daemon.sock"));
    assert_eq!(moved, path(101 - room).unwrap(), "it is the same each time");
    assert_ne!(moved, path(102 - room).unwrap(), "each data directory has its own");
    let of_root = moved.parent().unwrap();
    let of_user = of_root.parent().unwrap();
    assert_eq!((mode(of_root), mode(of_user)), (0o700, 0o700));
    assert!(
        Path::new("/tmp").join(moved.strip_prefix(temp.path()).unwrap()).as_os_str().as_bytes().len() <= 100
    );

    set_mode(of_user, 0o750);
    assert!(matches!(path(101 - room), Err(DataDirError::OpenToOthers { .. })));
    fs::remove_dir_all(of_user).unwrap();
    fs::create_dir(temp.path().join("elsewhere")).unwrap();
    symlink(temp.path().join("elsewhere"), of_user).unwrap();
    assert!(matches!(path(101 - room), Err(DataDirError::NotADirectory { .. })));
}
