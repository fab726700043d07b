use crate::{
    child::{Child, ExitWatch, GuardHandle, Progress, Terminator, Watcher},
    defaults::ProcessDefaults,
    error::{SpawnError, StartError},
    guard::GUARD_ARG,
    marker::{Marker, SpawnRecord},
    procfs, sys,
    wire::{self, Order},
};
use rustix::{
    fs::{Mode, OFlags, open},
    io::ioctl_fionbio,
    net::{AddressFamily, SocketFlags, SocketType, socketpair},
    pipe::{PipeFlags, pipe_with},
    process::{Pid, PidfdFlags, getpid, pidfd_open},
};
use std::{
    ffi::{OsStr, OsString},
    io,
    os::{
        fd::{AsFd as _, AsRawFd as _, OwnedFd},
        unix::{ffi::OsStrExt as _, process::CommandExt as _},
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    thread,
    time::Duration,
};
use tokio::{
    io::unix::AsyncFd,
    net::unix::pipe,
    runtime::Handle,
    sync::{mpsc, oneshot, watch},
    time::timeout,
};
use uuid::Uuid;

/// Spawns that wait for the thread. One takes well under a millisecond of it, so a longer queue would only hide
/// that the thread hangs.
const QUEUED_SPAWNS: usize = 16;
/// How long a guard may take to say that its agent runs. It enters a directory and executes a file, which only
/// a hanging file system delays.
const START_LIMIT: Duration = Duration::from_secs(10);

/// The executable that guards run: held open, so that a replaced or removed file changes nothing.
#[derive(Debug)]
pub struct GuardProgram {
    file: OwnedFd,
}

impl GuardProgram {
    /// The executable of this process.
    pub fn this_executable() -> Result<Self, StartError> {
        Self::open(Path::new("/proc/self/exe"))
    }

    /// Another executable, which calls [`crate::guard_main`] for [`GUARD_ARG`].
    pub fn open(program: &Path) -> Result<Self, StartError> {
        let file = open(program, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        let file =
            file.map_err(|error| StartError::Executable { program: program.into(), source: error.into() })?;
        Ok(Self { file })
    }

    /// A path to the open file itself. It is looked up in the new process, whose descriptors are a copy.
    fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.file.as_raw_fd())
    }
}

/// What to start.
#[derive(Debug, Clone)]
pub struct SpawnRequest {
    /// Absolute path, see [`crate::resolve_program`].
    pub program: PathBuf,
    /// The arguments behind the program's name.
    pub args: Vec<OsString>,
    /// The agent's working directory.
    pub cwd: PathBuf,
    /// The whole environment, see [`crate::session_environment`]; the marker is added, and wins.
    pub env: Vec<(OsString, OsString)>,
    /// The session and this spawn's token.
    pub marker: Marker,
    /// Milliseconds between SIGTERM and SIGKILL when the tree is ended; at most 60,000 count.
    pub grace_ms: u64,
}

impl SpawnRequest {
    fn check(&self) -> Result<(), SpawnError> {
        if !self.program.is_absolute() {
            return Err(SpawnError::NotAbsolute { program: self.program.clone() });
        }
        let unusable = |name: &OsStr, value: &OsStr| {
            let (name, value) = (name.as_bytes(), value.as_bytes());
            name.is_empty() || name.contains(&b'=') || name.contains(&0) || value.contains(&0)
        };
        match self.env.iter().find(|(name, value)| unusable(name, value)) {
            Some((name, _)) => Err(SpawnError::Variable { name: name.to_string_lossy().into_owned() }),
            None => Ok(()),
        }
    }

    fn order(&self, defaults: ProcessDefaults) -> Order {
        let mut env = self.env.clone();
        env.extend(self.marker.variables());
        Order {
            program: self.program.clone().into(),
            args: self.args.clone(),
            cwd: self.cwd.clone().into(),
            env,
            grace_ms: self.grace_ms,
            defaults,
        }
    }
}

struct Job {
    request: SpawnRequest,
    runtime: Handle,
    reply: oneshot::Sender<Result<Child, SpawnError>>,
}

/// The door to the thread that starts every guard. The thread ends with the last handle; the agents do not.
///
/// One thread, because starting a process blocks until it has executed, which must not happen to a runtime's
/// threads. It never forks: with `posix_spawn` the cost does not grow with the daemon's memory.
#[derive(Debug, Clone)]
pub struct Spawner {
    jobs: mpsc::Sender<Job>,
}

impl Spawner {
    /// Starts the thread. `defaults` is what agents get back of what the daemon has changed for itself.
    pub fn start(program: GuardProgram, defaults: ProcessDefaults) -> Result<Self, StartError> {
        let daemon =
            pidfd_open(getpid(), PidfdFlags::empty()).map_err(|error| StartError::Handle(error.into()))?;
        let boot_id = procfs::boot_id().map_err(StartError::Boot)?;
        let launcher = Launcher { program, defaults, daemon, boot_id };
        let (jobs, mut queue) = mpsc::channel::<Job>(QUEUED_SPAWNS);
        let run = move || {
            while let Some(Job { request, runtime, reply }) = queue.blocking_recv() {
                // A caller that has gone away gets the child back into its own drop, which ends it.
                drop(reply.send(launcher.launch(&request, &runtime)));
            }
        };
        thread::Builder::new().name("spawn".into()).spawn(run).map_err(StartError::Thread)?;
        Ok(Self { jobs })
    }

    /// Starts an agent and returns when its program runs (CONTRACT §2.3). The runtime of the caller watches it
    /// from then on. If the future is dropped, or fails, nothing of the agent stays.
    pub async fn spawn(&self, request: SpawnRequest) -> Result<Child, SpawnError> {
        request.check()?;
        let (program, cwd) = (request.program.clone(), request.cwd.clone());
        let (reply, answer) = oneshot::channel();
        let job = Job { request, runtime: Handle::current(), reply };
        self.jobs.send(job).await.or(Err(SpawnError::Stopped))?;
        let mut child = answer.await.or(Err(SpawnError::Stopped))??;
        let Ok(decided) = timeout(START_LIMIT, child.exit.0.wait_for(Progress::is_decided)).await else {
            child.terminator.guard.kill();
            return Err(SpawnError::Late { program, seconds: START_LIMIT.as_secs() });
        };
        let started = decided.ok().and_then(|progress| progress.started);
        match started {
            Some(Ok(pid)) => {
                child.pid = pid;
                Ok(child)
            }
            Some(Err(failure)) => Err(SpawnError::from_guard(failure, program, cwd)),
            None => Err(SpawnError::GuardLost { program }),
        }
    }
}

/// The agent's ends of its pipes.
struct AgentEnds {
    stdin: OwnedFd,
    stdout: OwnedFd,
    stderr: OwnedFd,
}

/// The daemon's ends, known to the caller's runtime.
struct DaemonEnds {
    stdin: pipe::Sender,
    stdout: pipe::Receiver,
    stderr: pipe::Receiver,
    control: AsyncFd<Arc<OwnedFd>>,
}

struct Launcher {
    program: GuardProgram,
    defaults: ProcessDefaults,
    daemon: OwnedFd,
    boot_id: Uuid,
}

impl Launcher {
    /// Starts the guard. Whatever can fail in this process does so before, but for the last handle on it.
    fn launch(&self, request: &SpawnRequest, runtime: &Handle) -> Result<Child, SpawnError> {
        let _reactor = runtime.enter();
        let program = || request.program.clone();
        let pipes = |source| SpawnError::Pipes { program: program(), source };
        let (ours, theirs, socket) = connect().map_err(pipes)?;
        let stdio = [theirs.stdin.as_fd(), theirs.stdout.as_fd(), theirs.stderr.as_fd()];
        wire::send_order(ours.control.as_fd(), &request.order(self.defaults), stdio, self.daemon.as_fd())
            .map_err(pipes)?;
        let mut guard = self
            .guard_command(request, socket)
            .spawn()
            .map_err(|source| SpawnError::Guard { program: program(), source })?;
        let (pidfd, guard_start_ticks) = match adopt(&guard) {
            Ok(adopted) => adopted,
            Err(source) => {
                // It has no agent yet, or one that dies with it.
                drop(guard.kill().and_then(|()| guard.wait()));
                return Err(pipes(source));
            }
        };
        let record = SpawnRecord {
            boot_id: self.boot_id,
            guard_pid: guard.id(),
            guard_start_ticks,
            marker: request.marker,
        };
        let DaemonEnds { stdin, stdout, stderr, control } = ours;
        let handle =
            GuardHandle { control: Arc::clone(control.get_ref()), pidfd: Arc::clone(pidfd.get_ref()) };
        let (reports, progress) = watch::channel(Progress::default());
        let watcher = Watcher { guard, control, pidfd, progress: reports, record: record.clone() };
        runtime.spawn(watcher.run());
        let terminator = Terminator { guard: Arc::new(handle), progress: progress.clone() };
        Ok(Child { stdin, stdout, stderr, exit: ExitWatch(progress), terminator, record, pid: 0 })
    }

    fn guard_command(&self, request: &SpawnRequest, socket: OwnedFd) -> Command {
        let mut command = Command::new(self.program.path());
        command
            .arg0("maestro")
            .arg(GUARD_ARG)
            .arg(request.marker.session.to_string())
            .env_clear()
            .envs(request.marker.variables())
            .stdin(socket)
            .stdout(Stdio::null())
            // A terminal's Ctrl-C is for the daemon, which then ends its agents in order.
            .process_group(0);
        command
    }
}

/// Every descriptor is close-on-exec from birth: whatever else this process starts at the same time holds none.
fn connect() -> io::Result<(DaemonEnds, AgentEnds, OwnedFd)> {
    let (their_stdin, stdin) = pipe_with(PipeFlags::CLOEXEC)?;
    let (stdout, their_stdout) = pipe_with(PipeFlags::CLOEXEC)?;
    let (stderr, their_stderr) = pipe_with(PipeFlags::CLOEXEC)?;
    let (control, socket) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    ioctl_fionbio(&control, true)?;
    let ours = DaemonEnds {
        stdin: pipe::Sender::from_owned_fd(stdin)?,
        stdout: pipe::Receiver::from_owned_fd(stdout)?,
        stderr: pipe::Receiver::from_owned_fd(stderr)?,
        control: sys::watch_readable(Arc::new(control))?,
    };
    let theirs = AgentEnds { stdin: their_stdin, stdout: their_stdout, stderr: their_stderr };
    Ok((ours, theirs, socket))
}

/// A handle on the guard and its start time. It is not reaped yet, so its pid is still its own.
fn adopt(guard: &std::process::Child) -> io::Result<(AsyncFd<Arc<OwnedFd>>, u64)> {
    let pid = Pid::from_child(guard);
    let pidfd = Arc::new(pidfd_open(pid, PidfdFlags::empty())?);
    let start = procfs::stat(pid)?.identity.start;
    Ok((sys::watch_readable(pidfd)?, start))
}
