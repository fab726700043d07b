//! The guard: the daemon's own executable in another mode, one process per agent, with a single thread. It
//! starts the agent, waits, and ends everything the agent left when agent or daemon is gone.

use crate::{
    procfs, sys,
    tree::{Ending, descendants},
    wire::{self, Failure, Handover, Order, Report, Step},
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Pid, WaitOptions, WaitStatus, getpid, set_child_subreaper, wait},
    thread::set_name,
};
use std::{
    env,
    ffi::OsString,
    io::{self, Write as _},
    os::{
        fd::{AsFd as _, BorrowedFd, OwnedFd},
        unix::process::CommandExt as _,
    },
    path::Path,
    process::{Command, ExitCode},
    time::{Duration, Instant},
};

/// The first argument that makes the daemon's executable a guard. A process with a guard above it belongs to
/// an agent, see [`crate::lineage`].
pub const GUARD_ARG: &str = "__guard";

/// The longest grace; more would only keep a tree that was told to end.
const GRACE_MAX: Duration = Duration::from_mins(1);
/// What a shell calls `EX_SOFTWARE`: the guard could not do its work.
const FAILED: u8 = 70;

/// Runs the guard (CONTRACT §2.3) and returns when the agent and all its descendants are gone. For the first
/// line of `main`, if the first argument is [`GUARD_ARG`], before any thread or runtime is started; `args` are
/// the arguments behind it, which only tell a person who looks which session this guard serves.
///
/// Standard input is the socket to the daemon. The process ignores every signal that can be ignored.
pub fn guard_main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let session: Vec<_> = args.into_iter().map(|text| text.to_string_lossy().into_owned()).collect();
            // Nobody is left to tell if standard error is closed.
            drop(writeln!(io::stderr(), "maestro guard {}: {error}", session.join(" ")));
            ExitCode::from(FAILED)
        }
    }
}

fn run() -> io::Result<()> {
    sys::close_inherited()?;
    let signals = sys::take_over_signals()?;
    let stdin = io::stdin();
    let control = stdin.as_fd();
    set_name(c"maestro-guard")?;
    set_child_subreaper(Some(getpid()))?;
    let (order, handover) = match wire::receive_order(control) {
        Ok(order) => order,
        Err(error) => {
            report(control, Report::Failed(failure(Step::Order, &error)));
            return Err(error);
        }
    };
    let grace = Duration::from_millis(order.grace_ms).min(GRACE_MAX);
    let Handover { stdin, stdout, stderr, daemon } = handover;
    let agent = match start(order, [stdin, stdout, stderr]) {
        Ok(agent) => agent,
        Err(failure) => {
            report(control, Report::Failed(failure));
            return Ok(());
        }
    };
    report(control, Report::Started { pid: agent.as_raw_pid().unsigned_abs() });
    let mut tree = Tree { control, signals, agent: Some(agent) };
    tree.wait_for_a_reason_to_end(daemon.as_fd())?;
    tree.end(grace)?;
    report(control, Report::Gone);
    Ok(())
}

fn report(control: BorrowedFd<'_>, report: Report) {
    // A daemon that is gone hears nothing; what is left to do is the same.
    drop(wire::send_report(control, report));
}

fn failure(step: Step, error: &io::Error) -> Failure {
    Failure { step, errno: error.raw_os_error().unwrap_or(libc::EIO) }
}

/// Starts the agent. The pipes are closed in this process on return, so that they end when the agent does.
fn start(order: Order, [stdin, stdout, stderr]: [OwnedFd; 3]) -> Result<Pid, Failure> {
    order.defaults.restore().map_err(|error| failure(Step::Limits, &error.into()))?;
    // Entered here rather than in the child, to tell a missing directory from a missing program.
    env::set_current_dir(&order.cwd).map_err(|error| failure(Step::Directory, &error))?;
    let mut command = Command::new(&order.program);
    command.args(order.args).env_clear().envs(order.env);
    command.stdin(stdin).stdout(stdout).stderr(stderr).process_group(0);
    sys::die_with_me(&mut command);
    let child = command.spawn().map_err(|error| {
        let missing = error.kind() == io::ErrorKind::NotFound;
        let step =
            if missing && Path::new(&order.program).exists() { Step::Interpreter } else { Step::Program };
        failure(step, &error)
    })?;
    // The guard itself must not keep a directory from being unmounted.
    env::set_current_dir("/").map_err(|error| failure(Step::Directory, &error))?;
    // Dropping the handle neither ends nor reaps: `Tree` reaps all alike.
    Ok(Pid::from_child(&child))
}

struct Tree<'a> {
    control: BorrowedFd<'a>,
    /// Readable when a child has ended.
    signals: OwnedFd,
    /// Absent once reaped: its pid may come back as another descendant's.
    agent: Option<Pid>,
}

impl Tree<'_> {
    /// Returns when the agent has ended, the daemon has closed its side (or asks for the end, which is the
    /// same), or the daemon is dead.
    fn wait_for_a_reason_to_end(&mut self, daemon: BorrowedFd<'_>) -> io::Result<()> {
        loop {
            let mut watched = [
                PollFd::from_borrowed_fd(self.control, PollFlags::IN | PollFlags::RDHUP),
                PollFd::from_borrowed_fd(daemon, PollFlags::IN),
                PollFd::new(&self.signals, PollFlags::IN),
            ];
            match poll(&mut watched, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let [asked, orphaned, news] = watched.map(|one| !one.revents().is_empty());
            if news && self.reap()?.agent_ended {
                return Ok(());
            }
            if asked || orphaned {
                return Ok(());
            }
        }
    }

    /// Ends every descendant. That none is left is known from the kernel, not from a listing: an orphan becomes
    /// a child of this process, so a tree with a member in it is a process with a child.
    fn end(&mut self, grace: Duration) -> io::Result<()> {
        let me = getpid();
        let mut ending = Ending::new(Instant::now(), grace);
        let mut trouble = None;
        while !self.reap()?.none_left {
            let find = || procfs::processes().map(|listing| descendants(me, &listing));
            // What fails here (no memory, no descriptor) is tried again: giving up would leave the tree.
            if let Err(error) = ending.pass(Instant::now(), find)
                && trouble.replace(error.kind()) != Some(error.kind())
            {
                drop(writeln!(io::stderr(), "maestro guard: cannot end all processes yet: {error}"));
            }
            let pause = ending.pause(Instant::now());
            let limit = Timespec { tv_sec: 0, tv_nsec: i64::from(pause.subsec_nanos()) };
            match poll(&mut [PollFd::new(&self.signals, PollFlags::IN)], Some(&limit)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Takes the status of every child that has ended, and reports the agent's.
    fn reap(&mut self) -> io::Result<Reaped> {
        // Emptied before the children are asked for: one that ends in between makes it readable again.
        let mut news = [0; 128];
        loop {
            match rustix::io::read(&self.signals, &mut news) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(error) => return Err(error.into()),
            }
        }
        let mut agent_ended = false;
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if self.agent == Some(pid) => {
                    self.agent = None;
                    agent_ended = true;
                    report(self.control, exit_report(status));
                }
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return Ok(Reaped { agent_ended, none_left: false }),
                Err(Errno::CHILD) => return Ok(Reaped { agent_ended, none_left: true }),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

struct Reaped {
    agent_ended: bool,
    none_left: bool,
}

fn exit_report(status: WaitStatus) -> Report {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Report::Exited { code },
        (None, signal) => Report::Signalled { signal: signal.unwrap_or_default() },
    }
}
