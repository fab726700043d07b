//! Two daemons and one data directory, or a copy of it.

use crate::stage::{LIMIT, Outcome, Stage, opened};
use maestro_protocol::{EndReason, SessionList, Status};
use maestro_testkit::{Descent, Door, Steps, wait_until};
use serde_json::json;
use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

const WILD: Descent = Descent { setsid: true, double_fork: true, ignore_signals: true, hold_stdout: false };

fn breeds(turn: Steps) -> Steps {
    turn.ignore_signals().descend(WILD).chunk("bred").hang()
}

/// A session in a turn, with a process that nothing but a guard or a sweep would end.
async fn busy() -> Result<Stage, Box<dyn std::error::Error>> {
    let mut stage = Stage::open(opened().on_prompt(breeds)).await?;
    stage.begin("go").await?;
    stage.says("bred").await?;
    Ok(stage)
}

/// A further daemon, which ends with its owner.
struct Further(Child);

impl Further {
    fn start(mut command: Command, data: &Path) -> io::Result<Self> {
        command.args(["serve", "--data-path"]).arg(data);
        Ok(Self(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?))
    }
}

impl Drop for Further {
    fn drop(&mut self) {
        // One that has ended already needs no kill.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Copies directories and regular files, as a backup does.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o700).create(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (kind, target) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            copy(&entry.path(), &target)?;
        } else if kind.is_file() {
            fs::copy(entry.path(), &target)?;
            fs::set_permissions(&target, fs::Permissions::from_mode(0o600))?;
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copied_directory_is_another_one_and_leaves_the_original_alone() -> Outcome {
    let stage = busy().await?;
    let mut processes = stage.processes();
    assert!(processes.len() >= 3, "a guard, an agent and what it left: {processes:?}");
    let copied = stage.daemon.place().join("copy");
    copy(&stage.daemon.data(), &copied)?;
    let further = Further::start(stage.daemon.command(), &copied)?;
    let door = Door::new(copied.join("run/daemon.sock"));
    wait_until(LIMIT, "the copy's socket", || door.path().exists()).await?;
    let list: SessionList = door.get("/api/sessions").await?.expect(200).read();
    let ends: Vec<_> = list.sessions.iter().map(|session| (session.status, session.end_reason)).collect();
    assert_eq!(ends, [(Status::Dead, Some(EndReason::DaemonCrash))], "in the copy it ended with the copying");
    door.post(&format!("/api/sessions/{}/restart", stage.id), &json!({})).await?.expect(202);
    drop(further);

    assert_eq!(stage.door.session(&stage.id).await?.status, Status::Running);
    let mut left = stage.processes();
    left.retain(|pid| processes.contains(pid));
    left.sort_unstable();
    processes.sort_unstable();
    assert_eq!(left, processes, "the original's processes live");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_kill_of_the_holder_one_of_two_daemons_starts_at_once() -> Outcome {
    let mut stage = busy().await?;
    stage.daemon.kill()?;
    assert!(!stage.processes().is_empty(), "the guard is still ending what the agent left");
    let data = stage.daemon.data();
    let mut further =
        [Further::start(stage.daemon.command(), &data)?, Further::start(stage.daemon.command(), &data)?];
    let mut ended = None;
    wait_until(LIMIT, "one of two daemons to give way", || {
        ended =
            further.iter_mut().position(|daemon| daemon.0.try_wait().is_ok_and(|status| status.is_some()));
        ended.is_some()
    })
    .await?;
    let loser = ended.ok_or("none gave way")?;
    assert_eq!(further[loser].0.wait()?.code(), Some(75));
    let end = Instant::now() + LIMIT;
    // The killed one's socket is still there until the other binds its own.
    while let Err(error) = stage.door.get("/api/sessions").await {
        assert!(Instant::now() < end, "the other does not answer: {error}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let session = stage.door.session(&stage.id).await?;
    assert_eq!((session.status, session.end_reason), (Status::Dead, Some(EndReason::DaemonCrash)));
    assert_eq!(stage.record().processes().len(), 1, "the agent was not started again");
    wait_until(LIMIT, "everything to be gone", || stage.processes().is_empty()).await?;
    Ok(())
}
