//! Many spawns in a row. Alone in its binary: it counts this process's descriptors and children.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "it/support.rs"]
#[expect(dead_code, reason = "shared with the other tests")]
mod support;

use maestro_process::{AgentExit, TreeEnd};
use std::{fs, process::Command, time::Instant};
use support::{CHILD, request, spawner, stat, within};

const SPAWNS: usize = 500;

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

fn children() -> usize {
    let me = std::process::id();
    let entries = fs::read_dir("/proc").unwrap();
    let pids = entries.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    pids.filter_map(stat).filter(|stat| stat.parent == me).count()
}

#[tokio::test]
async fn five_hundred_spawns_leave_no_descriptor_and_no_zombie_and_disturb_nobody() {
    let spawner = spawner();
    let one = async || {
        let begin = Instant::now();
        let mut child = within("spawn", spawner.spawn(request("/bin/true", &[]))).await.unwrap();
        let took = begin.elapsed();
        // Another child of this process, waited for in the ordinary way.
        let mut other = Command::new("/bin/true").spawn().unwrap();
        assert!(other.wait().unwrap().success());
        assert_eq!(within("exit", child.exit.wait()).await, AgentExit::Code(0));
        assert_eq!(within("gone", child.exit.gone()).await, TreeEnd::Gone);
        took
    };
    one().await;
    let before = descriptors();
    let mut took = Vec::new();
    for _ in 0..SPAWNS {
        took.push(one().await);
    }
    assert_eq!((descriptors(), children()), (before, 0));
    took.sort_unstable();
    println!("spawn: median {:?}, p99 {:?}", took[SPAWNS / 2], took[SPAWNS * 99 / 100]);
    let idle = within("spawn", spawner.spawn(request(CHILD, &["echo"]))).await.unwrap();
    let status = fs::read_to_string(format!("/proc/{}/status", idle.record.guard_pid)).unwrap();
    let memory: Vec<_> =
        status.lines().filter(|line| line.starts_with("VmRSS") || line.starts_with("RssAnon")).collect();
    println!("guard: {memory:?}");
}
