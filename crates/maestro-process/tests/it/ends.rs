//! How agents end, and that nothing of them stays.

use crate::support::{CHILD, GRACE, Member, Roll, TREE, request, spawner, start, tree, until, within};
use maestro_process::{AgentExit, SpawnRecord, SweepReport, TreeEnd, sweep};
use rustix::process::Signal;
use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
    time::{Duration, Instant},
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// What an end may take beyond the grace.
const SLACK: Duration = Duration::from_secs(2);

/// Runs an agent that ends by itself.
async fn check(args: &[&str], expect: AgentExit) {
    let mut child = start(request(CHILD, args)).await;
    assert_eq!(within("exit", child.exit.wait()).await, expect);
    assert_eq!(within("gone", child.exit.gone()).await, TreeEnd::Gone);
    assert_eq!(child.exit.wait().await, expect, "may be asked again");
}

#[tokio::test]
async fn codes_are_reported() {
    check(&["exit", "0"], AgentExit::Code(0)).await;
    check(&["exit", "7"], AgentExit::Code(7)).await;
    check(&["exit", "127"], AgentExit::Code(127)).await;
}

#[tokio::test]
async fn a_killed_agent_is_reported_at_once_and_its_tree_is_ended() {
    let roll = Roll::new();
    let (mut child, members) = tree(&spawner(), &roll).await;
    let root = members.iter().find(|member| member.role == "root").unwrap();
    assert_eq!(root.pid, child.pid);
    root.signal(Signal::KILL);
    assert_eq!(within("exit", child.exit.wait()).await, AgentExit::Signal(9));
    assert!(
        members.iter().any(|member| member.role == "stubborn" && member.is_alive()),
        "the exit is not held back until the tree is gone"
    );
    assert_eq!(within("gone", child.exit.gone()).await, TreeEnd::Gone);
    assert!(!members.iter().any(Member::is_listed));
}

#[tokio::test]
async fn what_an_agent_leaves_at_its_own_exit_is_ended() {
    let roll = Roll::new();
    let leaves = (TREE - 1).to_string();
    let mut child = start(request(CHILD, &["tree-exit", roll.path(), &leaves])).await;
    assert_eq!(within("exit", child.exit.wait()).await, AgentExit::Code(0));
    assert_eq!(within("gone", child.exit.gone()).await, TreeEnd::Gone);
    let members = roll.members();
    assert_eq!(members.len(), TREE - 1);
    assert!(!members.iter().any(Member::is_listed));
}

#[tokio::test]
async fn a_whole_tree_ends_on_demand() {
    let roll = Roll::new();
    let (mut child, members) = tree(&spawner(), &roll).await;
    let guard = Member::of(child.record.guard_pid);
    let begin = Instant::now();
    child.terminator.end_tree();
    child.terminator.end_tree();
    assert_eq!(within("exit", child.exit.wait()).await, AgentExit::Signal(15));
    assert_eq!(within("gone", child.terminator.ended()).await, TreeEnd::Gone);
    let took = begin.elapsed();
    assert!(took >= GRACE && took < GRACE + SLACK, "{took:?}");
    assert!(!members.iter().chain([&guard]).any(Member::is_listed));
    child.terminator.end_tree();
    let mut rest = Vec::new();
    within("the output ends with its last holder", child.stdout.read_to_end(&mut rest)).await.unwrap();
}

#[tokio::test]
async fn an_agent_that_obeys_ends_before_the_grace() {
    let mut long = request(CHILD, &["echo"]);
    long.grace_ms = u64::MAX;
    let mut child = start(long).await;
    child.terminator.end_tree();
    assert_eq!(within("exit", child.exit.wait()).await, AgentExit::Signal(15));
    assert_eq!(within("gone", child.exit.gone()).await, TreeEnd::Gone);
}

#[tokio::test]
async fn agents_that_ignore_requests_or_are_stopped_are_killed() {
    for stop in [false, true] {
        let roll = Roll::new();
        let mut child = start(request(CHILD, &["stubborn", roll.path()])).await;
        let agent = &roll.full(1).await[0];
        agent.signal(Signal::INT);
        agent.signal(Signal::TERM);
        if stop {
            agent.signal(Signal::STOP);
        }
        child.terminator.end_tree();
        assert_eq!(within("exit", child.exit.wait()).await, AgentExit::Signal(9));
        assert_eq!(within("gone", child.exit.gone()).await, TreeEnd::Gone);
    }
}

#[tokio::test]
async fn processes_that_never_stop_forking_are_caught() {
    let roll = Roll::new();
    let mut child = start(request(CHILD, &["bomb", roll.path(), "3"])).await;
    let members = roll.full(15).await;
    let begin = Instant::now();
    child.terminator.end_tree();
    assert_eq!(within("gone", child.exit.gone()).await, TreeEnd::Gone);
    assert!(!members.iter().any(Member::is_listed));
    let took = begin.elapsed();
    assert!(took < GRACE + SLACK, "{took:?}");
}

#[tokio::test]
async fn dropping_the_terminator_ends_the_tree() {
    let roll = Roll::new();
    let (child, _) = tree(&spawner(), &roll).await;
    let mut exit = child.exit.clone();
    let second = child.terminator.clone();
    drop(child);
    assert!(tokio::time::timeout(GRACE * 2, exit.wait()).await.is_err(), "a clone keeps the agent");
    drop(second);
    assert_eq!(within("gone", exit.gone()).await, TreeEnd::Gone);
    roll.all_dead().await;
}

#[tokio::test]
async fn orphans_are_reaped_while_the_agent_lives() {
    let roll = Roll::new();
    let script = r#""$0" orphan "$1" brief; read line"#;
    let mut child = start(request("/bin/sh", &["-c", script, CHILD, roll.path()])).await;
    let orphan = &roll.full(1).await[0];
    until("the orphan is reaped", || (!orphan.is_listed()).then_some(())).await;
    within("write", child.stdin.write_all(b"\n")).await.unwrap();
    assert_eq!(within("exit", child.exit.wait()).await, AgentExit::Code(0));
}

#[tokio::test]
async fn a_guard_is_ended_by_nothing_but_a_kill() {
    let mut child = start(request(CHILD, &["echo"])).await;
    let guard = Member::of(child.record.guard_pid);
    for signal in
        [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT, Signal::PIPE, Signal::USR1, Signal::CHILD]
    {
        guard.signal(signal);
    }
    within("write", child.stdin.write_all(b"still here")).await.unwrap();
    let mut said = [0; 10];
    within("read", child.stdout.read_exact(&mut said)).await.unwrap();
    assert_eq!(&said, b"still here");
    assert!(guard.is_alive());
}

#[tokio::test]
async fn a_killed_guard_takes_the_agent_along_and_the_rest_is_swept() {
    let roll = Roll::new();
    let (mut child, members) = tree(&spawner(), &roll).await;
    Member::of(child.record.guard_pid).signal(Signal::KILL);
    assert_eq!(within("exit", child.exit.wait()).await, AgentExit::GuardLost);
    let end = within("gone", child.exit.gone()).await;
    let TreeEnd::Swept(SweepReport { ended, left, trouble: None }) = end else { panic!("{end:?}") };
    assert!(left.is_empty() && ended.len() >= TREE - 2, "{ended:?} {left:?}");
    assert!(ended.iter().all(|process| process.session == child.record.marker.session));
    assert!(!members.iter().any(Member::is_alive));
}

/// A daemon of its own with a tree under it.
struct Killable {
    daemon: std::process::Child,
    record: SpawnRecord,
    members: Vec<Member>,
    roll: Roll,
}

async fn killable() -> Killable {
    let roll = Roll::new();
    let mut command = Command::new(CHILD);
    command.args(["daemon", "keep", "tree", roll.path()]).stdout(Stdio::piped());
    let mut daemon = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(daemon.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let members = roll.full(TREE).await;
    Killable { daemon, record: serde_json::from_str(&line).unwrap(), members, roll }
}

#[tokio::test]
async fn a_killed_daemon_leaves_nothing() {
    let Killable { mut daemon, record, roll, .. } = killable().await;
    let guard = Member::of(record.guard_pid);
    let begin = Instant::now();
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    roll.all_dead().await;
    let took = begin.elapsed();
    assert!(took < Duration::from_millis(200) + SLACK, "{took:?}");
    until("the guard is gone", || (!guard.is_alive()).then_some(())).await;
}

#[tokio::test]
async fn a_later_daemon_sweeps_what_killed_guard_and_daemon_left() {
    let Killable { mut daemon, record, members, roll } = killable().await;
    Member::of(daemon.id()).signal(Signal::STOP);
    Member::of(record.guard_pid).signal(Signal::KILL);
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    let root = members.iter().find(|member| member.role == "root").unwrap();
    until("the agent dies with its guard", || (!root.is_alive()).then_some(())).await;
    assert_eq!(members.iter().filter(|member| member.is_alive()).count(), TREE - 1);
    let report = tokio::task::spawn_blocking(move || sweep(&[record])).await.unwrap();
    assert_eq!((report.ended.len(), report.left.len(), report.trouble), (TREE - 1, 0, None));
    roll.all_dead().await;
}

#[tokio::test]
async fn a_sweep_leaves_a_living_guard_its_time() {
    let Killable { mut daemon, record, roll, .. } = killable().await;
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    let report = tokio::task::spawn_blocking(move || sweep(&[record])).await.unwrap();
    assert_eq!((report.left.len(), report.trouble), (0, None));
    assert!(roll.members().iter().all(|member| !member.is_alive()));
}
