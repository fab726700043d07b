//! What an agent is given, and what not.

use crate::support::{CHILD, request, spawner, within};
use std::process::Command;
use tokio::io::AsyncReadExt as _;

/// What an agent says under a daemon that holds secrets, a descriptor that is not close-on-exec, a umask, a
/// limit and signal dispositions of its own.
fn relay(agent: &[&str]) -> Vec<String> {
    let mut command = Command::new(CHILD);
    command.args(["daemon", "relay"]).args(agent);
    command.env_clear().envs([
        ("PATH", "/usr/bin:/bin"),
        ("LC_ALL", "C"),
        ("CANARY_API_KEY", "canary"),
        ("MAESTRO_CANARY", "canary"),
        ("DATABASE_URL", "canary"),
    ]);
    let output = command.output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().lines().map(Into::into).collect()
}

#[test]
fn an_agent_gets_its_own_and_nothing_of_the_daemons() {
    let lines = relay(&["report"]);
    let mut names: Vec<_> =
        lines.iter().filter_map(|line| line.strip_prefix("env ")?.split('=').next()).collect();
    names.sort_unstable();
    assert_eq!(names, ["LC_ALL", "MAESTRO_SESSION", "MAESTRO_SPAWN", "PATH"]);
    assert!(!lines.iter().any(|line| line.contains("canary")), "{lines:?}");
    let mut descriptors: Vec<_> = lines.iter().filter(|line| line.starts_with("fd ")).collect();
    descriptors.sort_unstable();
    assert_eq!(descriptors, ["fd 0", "fd 1", "fd 2"]);
    let has = |line: &str| assert!(lines.iter().any(|said| said == line), "{line} in {lines:?}");
    has("umask 027");
    assert!(lines.iter().any(|line| line.starts_with("files Some(300) ")), "{lines:?}");
    has("own group true");
    has("own session false");
    has("cwd /tmp");
    has("daemon has its own values true");
    has("daemon has forked false");
}

#[test]
fn signals_are_as_in_a_fresh_process() {
    let lines = relay(&["/bin/cat", "/proc/self/status"]);
    for field in ["SigBlk:", "SigIgn:"] {
        let value = lines.iter().find_map(|line| line.strip_prefix(field)).unwrap();
        let value = u64::from_str_radix(value.trim(), 16).unwrap();
        // The C library keeps signals 32 and 33 to itself and lets nobody set them.
        assert_eq!(value & !(0b11 << 31), 0, "{field} {value:x}");
    }
}

#[test]
fn a_guard_holds_no_secret_and_nothing_of_the_daemons() {
    // The agent looks at its parent.
    let script = "tr '\\0' '\\n' < /proc/$PPID/environ; tr '\\0' ' ' < /proc/$PPID/cmdline; echo; \
                  cat /proc/$PPID/comm; readlink /proc/$PPID/cwd; readlink /proc/$PPID/fd/* | grep -v -e pipe: -e anon_inode";
    let lines = relay(&["/bin/sh", "-c", script]);
    let text = lines.join("\n");
    assert!(!text.contains("canary") && !text.contains("PATH="), "{text}");
    let [session, spawn, command_line, name, cwd, rest @ ..] = &lines[..] else { panic!("{text}") };
    let id = session.strip_prefix("MAESTRO_SESSION=").unwrap();
    assert!(spawn.starts_with("MAESTRO_SPAWN="));
    assert_eq!(*command_line, format!("maestro __guard {id} "));
    assert_eq!((name.as_str(), cwd.as_str()), ("maestro-guard", "/"));
    assert!(!rest.iter().any(|line| line.contains("test-child")), "the daemon's open file: {text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_leaks_between_processes_that_start_at_the_same_time() {
    let listed = |text: &str| text.lines().filter(|line| line.starts_with("fd ")).count();
    let plain = move || {
        let output = Command::new(CHILD).arg("report").output().unwrap();
        listed(std::str::from_utf8(&output.stdout).unwrap())
    };
    // A plain child also gets what this process was born with.
    let quiet = plain();
    let others = std::thread::spawn(move || (0..40).all(|_| plain() == quiet));
    let spawner = spawner();
    let agents = (0..40).map(|_| {
        let spawner = spawner.clone();
        tokio::spawn(async move {
            let mut child = within("spawn", spawner.spawn(request(CHILD, &["report"]))).await.unwrap();
            let mut text = String::new();
            within("output", child.stdout.read_to_string(&mut text)).await.unwrap();
            within("gone", child.exit.gone()).await;
            assert_eq!(listed(&text), 3, "{text}");
        })
    });
    for agent in agents.collect::<Vec<_>>() {
        agent.await.unwrap();
    }
    assert!(others.join().unwrap());
}
