//! Starts that work, and starts that do not.

use crate::support::{CHILD, Member, Roll, request, spawner, stat, until, within};
use maestro_process::{
    AgentExit, GuardProgram, ProcessDefaults, SpawnError, SpawnRequest, Spawner, StartError,
};
use rustix::process::Signal;
use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// Spawns what cannot start. `expect` is the error's text; `@` in it is the folder that `make` fills and that
/// the request is about.
async fn check(make: impl FnOnce(&Path) -> SpawnRequest, expect: &str, errno: Option<i32>) {
    let folder = tempfile::tempdir().unwrap();
    let request = make(folder.path());
    let error = within("an answer", spawner().spawn(request)).await.unwrap_err();
    assert_eq!(error.to_string(), expect.replace('@', folder.path().to_str().unwrap()));
    let source = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<std::io::Error>());
    assert_eq!(source.and_then(std::io::Error::raw_os_error), errno);
}

fn file(path: &Path, text: &str, mode: u32) -> SpawnRequest {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    request(path.to_str().unwrap(), &[])
}

#[tokio::test]
async fn a_start_that_fails_says_what_failed() {
    let missing = |folder: &Path| request(folder.join("agent").to_str().unwrap(), &[]);
    check(missing, "cannot run the agent's program @/agent", Some(libc::ENOENT)).await;
    let closed = |folder: &Path| file(&folder.join("agent"), "#!/bin/sh\n", 0o644);
    check(closed, "cannot run the agent's program @/agent", Some(libc::EACCES)).await;
    let headless = |folder: &Path| file(&folder.join("agent"), "#!/no/such/interpreter\n", 0o755);
    let expect = "cannot run the agent's program @/agent: the interpreter it names is missing";
    check(headless, expect, Some(libc::ENOENT)).await;
    let nowhere = |folder: &Path| SpawnRequest { cwd: folder.join("gone"), ..request(CHILD, &["exit", "0"]) };
    check(nowhere, "cannot enter the working directory @/gone", Some(libc::ENOENT)).await;
    let relative = |_: &Path| request("agent", &[]);
    check(relative, "the agent's program agent is not an absolute path", None).await;
    for (name, value) in [("", "v"), ("A=B", "v"), ("A\0", "v"), ("A", "v\0")] {
        let env = vec![(name.into(), value.into())];
        let odd = |_: &Path| SpawnRequest { env, ..request(CHILD, &["exit", "0"]) };
        let rule =
            "cannot be an environment variable: a name needs a letter and no `=`, neither part a NUL byte";
        check(odd, &format!("{name:?} {rule}"), None).await;
    }
}

#[tokio::test]
async fn a_guard_that_is_no_guard_is_an_error() {
    let spawn = async |guard: &str| {
        let guard = GuardProgram::open(Path::new(guard)).unwrap();
        let spawner = Spawner::start(guard, ProcessDefaults::replace()).unwrap();
        within("an answer", spawner.spawn(request(CHILD, &["exit", "0"]))).await.unwrap_err()
    };
    assert!(matches!(spawn("/bin/true").await, SpawnError::GuardLost { .. }));
    assert!(matches!(spawn("/etc/passwd").await, SpawnError::Guard { .. }));
    let missing = GuardProgram::open(Path::new("/no/such/program")).unwrap_err();
    assert!(matches!(missing, StartError::Executable { .. }));
}

#[tokio::test]
async fn a_replaced_executable_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("maestro");
    fs::copy(CHILD, &program).unwrap();
    let guard = GuardProgram::open(&program).unwrap();
    let spawner = Spawner::start(guard, ProcessDefaults::replace()).unwrap();
    let spawn = async || {
        let mut child = within("spawn", spawner.spawn(request(CHILD, &["exit", "3"]))).await.unwrap();
        assert_eq!(within("exit", child.exit.wait()).await, AgentExit::Code(3));
    };
    spawn().await;
    fs::remove_file(&program).unwrap();
    spawn().await;
    file(&program, "#!/bin/false\n", 0o755);
    spawn().await;
}

#[test]
fn an_agent_outlives_the_thread_that_asked_for_it() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_keep_alive(Duration::from_millis(10))
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let spawner = spawner();
        let begin = move || {
            let runtime = tokio::runtime::Handle::current();
            let child = runtime.block_on(within("spawn", spawner.spawn(request(CHILD, &["echo"])))).unwrap();
            (child, rustix::thread::gettid())
        };
        let (mut child, thread) = tokio::task::spawn_blocking(begin).await.unwrap();
        let thread = PathBuf::from(format!("/proc/self/task/{thread}"));
        until("the thread that asked is gone", || (!thread.exists()).then_some(())).await;
        within("write", child.stdin.write_all(b"alive")).await.unwrap();
        let mut said = [0; 5];
        within("read", child.stdout.read_exact(&mut said)).await.unwrap();
        assert_eq!(&said, b"alive");
        drop(child.stdin);
        assert_eq!(within("exit", child.exit.wait()).await, AgentExit::Code(0));
    });
}

#[tokio::test]
async fn a_spawn_that_nobody_waits_for_leaves_nothing() {
    let spawner = spawner();
    let roll = Roll::new();
    for _ in 0..20 {
        let spawn = spawner.spawn(request(CHILD, &["stubborn", roll.path()]));
        // Given up after the order has gone out, before the answer.
        assert!(tokio::time::timeout(Duration::ZERO, spawn).await.is_err());
    }
    let mut last = within("spawn", spawner.spawn(request(CHILD, &["exit", "0"]))).await.unwrap();
    within("gone", last.exit.gone()).await;
    let me = std::process::id();
    let children = || {
        fs::read_dir("/proc").unwrap().any(|entry| {
            let pid = entry.unwrap().file_name().to_str().and_then(|name| name.parse().ok());
            pid.and_then(stat).is_some_and(|stat| stat.parent == me)
        })
    };
    until("no guard is left", || (!children()).then_some(())).await;
    roll.all_dead().await;
}

#[tokio::test]
async fn a_stopped_guard_does_not_keep_the_next_spawn() {
    let spawner = spawner();
    let stopped = within("spawn", spawner.spawn(request(CHILD, &["echo"]))).await.unwrap();
    let guard = Member::of(stopped.record.guard_pid);
    guard.signal(Signal::STOP);
    let mut other = within("spawn", spawner.spawn(request(CHILD, &["exit", "0"]))).await.unwrap();
    assert_eq!(within("exit", other.exit.wait()).await, AgentExit::Code(0));
    guard.signal(Signal::CONT);
}
