//! Whether a process belongs to an agent, and to which session's (CONTRACT §11.2): it has a guard above it, or it or a
//! process above it carries a spawn's marker in its environment. The guard's word counts more than a process' own.
//!
//! The answer errs on the agent's side: a process that vanishes while it is looked at counts as one. What
//! cannot be read because it belongs to another user is no evidence. An agent that kills its own guard and
//! clears its environment is not recognised; under the same user no such test can be complete.

use crate::{
    marker::Marker,
    procfs::{self, Stat},
    sweep::is_guard_line,
    sys,
};
use maestro_protocol::SessionId;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    net::sockopt::socket_peercred,
    process::{Pid, PidfdFlags, getpid, pidfd_open},
};
use std::{
    fs, io,
    os::fd::{AsFd, AsRawFd as _, BorrowedFd},
};

/// How often a walk begins again because parents changed on the way. More means that somebody changes them on
/// purpose.
const WALKS: usize = 16;
/// More generations than any honest process has.
const GENERATIONS: usize = 4096;

/// Where a process comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lineage {
    /// From no agent, as far as can be seen.
    Person,
    /// From an agent.
    Agent {
        /// Its session, if that can be told. Of several guards above, as where a daemon runs inside an agent, the one
        /// counts that this process started; if none of them, the topmost.
        session: Option<SessionId>,
    },
}

impl Lineage {
    /// From an agent, nobody knows which.
    const UNKNOWN: Self = Self::Agent { session: None };

    /// Where the process with this pid, now, comes from.
    pub fn of(pid: u32) -> Self {
        Self::look(pid).unwrap_or(Self::UNKNOWN)
    }

    /// As [`Lineage::of`]; an error says that this process lacks what it needs to look, such as open files.
    fn look(pid: u32) -> io::Result<Self> {
        let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(Self::UNKNOWN) };
        for _ in 0..WALKS {
            if let Some(lineage) = walk(pid)? {
                return Ok(lineage);
            }
        }
        Ok(Self::UNKNOWN)
    }

    /// Whether it is an agent's.
    pub fn is_agent(self) -> bool {
        self != Self::Person
    }
}

/// Whether this process itself belongs to an agent. Such a client starts no daemon.
pub fn self_is_agent() -> bool {
    Lineage::of(getpid().as_raw_pid().unsigned_abs()).is_agent()
}

/// Where the process comes from that connected this Unix socket. A peer that is gone counts as an agent's.
///
/// The kernel (from 6.5 on) says who connected by a handle that cannot come to mean another process. An older
/// one gives a pid only, and a peer that ended right after it connected may be taken for whoever has that
/// pid now.
pub fn of_peer(socket: impl AsFd) -> io::Result<Lineage> {
    let socket = socket.as_fd();
    let handle = match sys::peer_pidfd(socket) {
        Ok(handle) => handle,
        // Reaped already.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ESRCH | libc::EINVAL | libc::ENODATA)) => {
            return Ok(Lineage::UNKNOWN);
        }
        Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => {
            let peer = socket_peercred(socket)?.pid;
            match pidfd_open(peer, PidfdFlags::empty()) {
                Ok(handle) => handle,
                Err(rustix::io::Errno::SRCH) => return Ok(Lineage::UNKNOWN),
                Err(error) => return Err(error.into()),
            }
        }
        Err(error) => return Err(error),
    };
    of_handle(handle.as_fd())
}

/// Where the process of this pidfd comes from.
pub fn of_handle(pidfd: BorrowedFd<'_>) -> io::Result<Lineage> {
    let about = fs::read_to_string(format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd()))?;
    let pid = about.lines().find_map(|line| line.strip_prefix("Pid:")).map(str::trim);
    let Some(pid) = pid.and_then(|pid| pid.parse::<i32>().ok()) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a pidfd"));
    };
    // Negative: ended and reaped. Zero: outside of this pid namespace, so nothing is known.
    let Ok(pid @ 1..) = u32::try_from(pid) else { return Ok(Lineage::UNKNOWN) };
    let lineage = Lineage::look(pid)?;
    // Only if the process still lives was it the one with that pid all the time.
    let ended = poll(&mut [PollFd::from_borrowed_fd(pidfd, PollFlags::IN)], Some(&Timespec::default()))? > 0;
    Ok(if ended { Lineage::UNKNOWN } else { lineage })
}

/// What was seen on the way up.
#[derive(Debug, Default)]
struct Evidence {
    /// The marker nearest to the process, and that it or one above it has one.
    marked: Option<Marker>,
    guard: Guard,
}

/// The last guard seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Guard {
    #[default]
    None,
    Unmarked,
    Of(Marker),
}

impl Evidence {
    fn see(&mut self, pid: Pid) -> io::Result<()> {
        let environ = seen(procfs::environ(pid))?;
        let marker = environ.and_then(|environ| Marker::find(&environ));
        if seen(procfs::command_line(pid))?.is_some_and(|line| is_guard_line(&line)) {
            self.guard = marker.map_or(Guard::Unmarked, Guard::Of);
        }
        self.marked = self.marked.or(marker);
        Ok(())
    }

    fn lineage(&self) -> Lineage {
        match (self.guard, self.marked) {
            (Guard::None, None) => Lineage::Person,
            (Guard::Of(marker), _) | (Guard::None, Some(marker)) => {
                Lineage::Agent { session: Some(marker.session) }
            }
            (Guard::Unmarked, _) => Lineage::UNKNOWN,
        }
    }
}

/// What can be seen of a process: nothing, if it is gone or another user's. That this process has no open file left, or
/// no memory, says nothing about the other one and is an error.
fn seen<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => {
            Ok(None)
        }
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(None),
        Err(error) => Err(error),
    }
}

/// `None`: the parents changed while they were followed.
fn walk(pid: Pid) -> io::Result<Option<Lineage>> {
    let Some(mut process) = seen(procfs::stat(pid))? else { return Ok(Some(Lineage::UNKNOWN)) };
    let mut evidence = Evidence::default();
    for _ in 0..GENERATIONS {
        evidence.see(process.identity.pid)?;
        let Some(parent) = process.parent else { return Ok(Some(evidence.lineage())) };
        // What is above this process says nothing of which of its own guards this was.
        if parent == getpid() && evidence.guard != Guard::None {
            return Ok(still(process)?.then(|| evidence.lineage()));
        }
        let above = seen(procfs::stat(parent))?;
        // A child that still names its parent had it all the time, so `above` is the parent and not somebody
        // who got its pid.
        if !still(process)? {
            return Ok(None);
        }
        match above {
            Some(above) => process = above,
            // The parent lives but is hidden: another user's, which no guard above could be.
            None => return Ok(Some(evidence.lineage())),
        }
    }
    Ok(Some(Lineage::UNKNOWN))
}

fn still(process: Stat) -> io::Result<bool> {
    Ok(seen(procfs::stat(process.identity.pid))? == Some(process))
}
