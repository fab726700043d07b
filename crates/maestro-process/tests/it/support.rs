use maestro_process::{Child, GuardProgram, Marker, ProcessDefaults, SpawnRequest, Spawner};
use maestro_protocol::SessionId;
use rustix::process::{Pid, Signal, kill_process};
use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use tempfile::TempDir;
use uuid::Uuid;

/// The program in `test-child`.
pub(crate) const CHILD: &str = env!("CARGO_BIN_EXE_maestro-process-test-child");
/// For whatever must happen at all; generous, since the machine may be busy.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);
pub(crate) const GRACE: Duration = Duration::from_millis(300);

pub(crate) fn spawner() -> Spawner {
    Spawner::start(GuardProgram::open(Path::new(CHILD)).unwrap(), ProcessDefaults::replace()).unwrap()
}

pub(crate) fn marker() -> Marker {
    Marker { session: SessionId::from_uuid(Uuid::new_v4()), token: Uuid::new_v4() }
}

pub(crate) fn request(program: &str, args: &[&str]) -> SpawnRequest {
    SpawnRequest {
        program: program.into(),
        args: args.iter().map(OsString::from).collect(),
        cwd: "/".into(),
        env: vec![("PATH".into(), "/usr/bin:/bin".into())],
        marker: marker(),
        grace_ms: GRACE.as_millis().try_into().unwrap(),
    }
}

/// An agent, running.
pub(crate) async fn start(request: SpawnRequest) -> Child {
    within("spawn", spawner().spawn(request)).await.unwrap()
}

/// Waits until `probe` gives something.
pub(crate) async fn until<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = probe() {
            return found;
        }
        assert!(begin.elapsed() < LIMIT, "did not happen: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) async fn within<F: Future>(what: &str, future: F) -> F::Output {
    let result = tokio::time::timeout(LIMIT, future).await;
    result.unwrap_or_else(|_| panic!("did not happen: {what}"))
}

/// One process, by pid and start time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) role: String,
    pub(crate) pid: u32,
    pub(crate) start: u64,
}

impl Member {
    pub(crate) fn of(pid: u32) -> Self {
        Self { role: "process".into(), pid, start: stat(pid).unwrap().start }
    }

    /// Present at all, be it as a zombie.
    pub(crate) fn is_listed(&self) -> bool {
        stat(self.pid).is_some_and(|stat| stat.start == self.start)
    }

    pub(crate) fn is_alive(&self) -> bool {
        stat(self.pid).is_some_and(|stat| stat.start == self.start && stat.state != "Z")
    }

    pub(crate) fn signal(&self, signal: Signal) {
        assert!(self.is_alive(), "{self:?}");
        kill_process(Pid::from_raw(self.pid.try_into().unwrap()).unwrap(), signal).unwrap();
    }
}

pub(crate) struct Stat {
    pub(crate) state: String,
    pub(crate) parent: u32,
    pub(crate) start: u64,
}

pub(crate) fn stat(pid: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = text.rsplit(')').next()?.split_ascii_whitespace().collect();
    Some(Stat { state: fields[0].into(), parent: fields[1].parse().ok()?, start: fields[19].parse().ok()? })
}

/// A folder in which the processes of a test make themselves known.
pub(crate) struct Roll(TempDir);

impl Roll {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &str {
        self.0.path().to_str().unwrap()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn members(&self) -> Vec<Member> {
        let names = fs::read_dir(self.0.path()).unwrap().map(|entry| entry.unwrap().file_name());
        names
            .map(|name| {
                let name = name.into_string().unwrap();
                let [role, pid, start] = name.split(' ').collect::<Vec<_>>()[..] else { panic!("{name}") };
                Member { role: role.into(), pid: pid.parse().unwrap(), start: start.parse().unwrap() }
            })
            .collect()
    }

    /// Waits until so many are there.
    pub(crate) async fn full(&self, count: usize) -> Vec<Member> {
        until("all members of the tree are there", || {
            Some(self.members()).filter(|found| found.len() >= count)
        })
        .await
    }

    pub(crate) async fn all_dead(&self) {
        let left = || self.members().into_iter().filter(Member::is_alive).collect::<Vec<_>>();
        until(&format!("all of {:?} are dead", self.members()), || left().is_empty().then_some(())).await;
    }
}

/// Members of the tree that the mode `tree` makes, its root among them.
pub(crate) const TREE: usize = 5;

/// An agent with the tree of processes that agents leave, all there.
pub(crate) async fn tree(spawner: &Spawner, roll: &Roll) -> (Child, Vec<Member>) {
    let child = within("spawn", spawner.spawn(request(CHILD, &["tree", roll.path()]))).await.unwrap();
    let members = roll.full(TREE).await;
    assert!(members.iter().all(Member::is_alive));
    (child, members)
}
