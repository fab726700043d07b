//! Processes that are not ours, and those that pretend not to be.

use crate::support::{CHILD, Member, Roll, marker, request, start, until};
use maestro_process::{
    SpawnRecord, SweepReport,
    lineage::{self, Lineage},
    sweep,
};
use std::{
    fs,
    os::{
        fd::AsFd as _,
        unix::net::{UnixListener, UnixStream},
    },
    process::{Child, Command, Stdio},
};
use uuid::Uuid;

/// An ordinary process, ended with the value.
struct Bystander(Child);

impl Drop for Bystander {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Bystander {
    fn new(program: &mut Command) -> Self {
        Self(program.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap())
    }
}

fn boot_id() -> Uuid {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap().trim().parse().unwrap()
}

/// Sweeps for a record that `forge` made out of the true one of a living process which carries its marker.
fn check(forge: impl FnOnce(&mut SpawnRecord), expect_ended: bool) {
    let marker = marker();
    let mut process = Command::new(CHILD);
    process.args(["echo"]).env("MAESTRO_SESSION", marker.session.to_string());
    let process = Bystander::new(process.env("MAESTRO_SPAWN", marker.token.to_string()));
    let member = Member::of(process.0.id());
    let mut record =
        SpawnRecord { boot_id: boot_id(), guard_pid: 1, guard_start_ticks: member.start, marker };
    forge(&mut record);
    let report = sweep(&[record]);
    assert_eq!(member.is_alive(), !expect_ended);
    assert_eq!(report.ended.iter().map(|process| process.pid).eq([member.pid]), expect_ended, "{report:?}");
    if !expect_ended {
        assert_eq!(report, SweepReport::default());
    }
}

#[test]
fn a_sweep_ends_what_fits_in_every_respect_and_nothing_else() {
    check(|_| {}, true);
    check(|record| record.guard_start_ticks -= 1, true);
    check(|record| record.guard_start_ticks += 1, false);
    check(|record| record.boot_id = Uuid::new_v4(), false);
    check(|record| record.marker.token = Uuid::new_v4(), false);
    check(|record| record.marker.session = marker().session, false);
}

#[test]
fn a_pid_in_a_record_is_no_reason() {
    let process = Bystander::new(Command::new(CHILD).arg("echo"));
    let member = Member::of(process.0.id());
    for guard_start_ticks in [member.start, 0] {
        let record =
            SpawnRecord { boot_id: boot_id(), guard_pid: member.pid, guard_start_ticks, marker: marker() };
        assert_eq!(sweep(&[record]), SweepReport::default());
        assert!(member.is_alive());
    }
}

fn is_agent(pid: u32) -> bool {
    Lineage::of(pid).is_agent()
}

#[tokio::test]
async fn a_process_below_a_guard_is_an_agents_whatever_it_sheds() {
    let roll = Roll::new();
    let file = roll.file("answer");
    let child = start(request(CHILD, &["lineage-below", file.to_str().unwrap()])).await;
    assert_eq!(until("an answer", || fs::read_to_string(&file).ok()).await, "true");
    assert!(is_agent(child.pid));
    assert!(is_agent(child.record.guard_pid));
}

#[test]
fn an_ordinary_process_is_no_agents() {
    let process = Bystander::new(Command::new(CHILD).arg("echo"));
    assert!(!is_agent(process.0.id()));
    assert!(!is_agent(std::process::id()));
    assert!(!lineage::self_is_agent());
    assert!(!is_agent(1));
}

#[test]
fn a_marker_makes_an_agents_process_of_itself_and_all_below() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("answer");
    let answer = |command: &mut Command| {
        assert!(command.arg(&file).status().unwrap().success());
        fs::read_to_string(&file).unwrap()
    };
    let marked = |command: &mut Command| {
        let marker = marker();
        command.env("MAESTRO_SESSION", marker.session.to_string());
        command.env("MAESTRO_SPAWN", marker.token.to_string());
    };
    let mut plain = Command::new(CHILD);
    assert_eq!(answer(plain.arg("lineage")), "false");
    let mut own = Command::new(CHILD);
    marked(&mut own);
    assert_eq!(answer(own.arg("lineage")), "true");
    let mut below = Command::new("/bin/sh");
    marked(&mut below);
    let script = r#"env -i "$0" lineage "$1"; exit $?"#;
    assert_eq!(answer(below.args(["-c", script, CHILD])), "true");
}

#[test]
fn who_is_gone_counts_as_an_agents() {
    let mut process = Command::new("/bin/true").spawn().unwrap();
    let pid = process.id();
    process.wait().unwrap();
    assert!(is_agent(pid));
    assert!(is_agent(u32::MAX));
    assert!(is_agent(0));
}

/// A process may say what it likes; its guard knows better.
#[tokio::test]
async fn an_agents_session_is_the_one_that_its_guard_names() {
    let door = Door::new();
    let lies = format!(r#"MAESTRO_SESSION={} "$0" "$@""#, marker().session);
    let agent = start(request("/bin/sh", &["-c", &lies, CHILD, "connect", &door.path()])).await;
    let socket = door.accept().await;
    let session = Some(agent.record.marker.session);
    assert_eq!(lineage::of_peer(&socket).unwrap(), Lineage::Agent { session });
    drop(agent);

    let other = marker();
    let marked = Bystander::new(
        Command::new(CHILD)
            .args(["connect", &door.path()])
            .env("MAESTRO_SESSION", other.session.to_string())
            .env("MAESTRO_SPAWN", other.token.to_string()),
    );
    let socket = door.accept().await;
    assert_eq!(lineage::of_peer(&socket).unwrap(), Lineage::Agent { session: Some(other.session) });
    drop(marked);
}

/// Accepts one connection on a socket of its own.
struct Door {
    roll: Roll,
    listener: UnixListener,
}

impl Door {
    fn new() -> Self {
        let roll = Roll::new();
        let listener = UnixListener::bind(roll.file("socket")).unwrap();
        listener.set_nonblocking(true).unwrap();
        Self { roll, listener }
    }

    fn path(&self) -> String {
        self.roll.file("socket").to_str().unwrap().into()
    }

    async fn accept(&self) -> UnixStream {
        until("a connection", || self.listener.accept().ok()).await.0
    }
}

#[tokio::test]
async fn the_peer_of_a_socket_is_judged() {
    let door = Door::new();
    let ordinary = Bystander::new(Command::new(CHILD).args(["connect", &door.path()]));
    let socket = door.accept().await;
    assert!(!lineage::of_peer(&socket).unwrap().is_agent());
    drop(ordinary);
    assert!(lineage::of_peer(&socket).unwrap().is_agent(), "gone");

    let agent = start(request(CHILD, &["connect", &door.path()])).await;
    let socket = door.accept().await;
    let session = Some(agent.record.marker.session);
    assert_eq!(lineage::of_peer(&socket).unwrap(), Lineage::Agent { session });
    drop(agent);

    let own = UnixStream::connect(door.path()).unwrap();
    assert!(!lineage::of_peer(door.accept().await).unwrap().is_agent());
    assert!(lineage::of_handle(own.as_fd()).is_err(), "not a pidfd");
}
