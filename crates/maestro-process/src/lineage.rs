//! Whether a process belongs to an agent, and to which session's (CONTRACT §11.2): it has a guard above it, or it or a
//! process above it carries a spawn's marker in its environment. The guard's word counts more than a process' own.
//!
//! The answer errs on the agent's side: a process that vanishes while it is looked at counts as one. What
//! cannot be read because it belongs to another user is no evidence. An agent that kills its own guard and
//! clears its environment is not recognised; under the same user no such test can be complete.

use crate::{
    marker::Marker,
    procfs::{self, Stat},
    sweep::is_guard,
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
        let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Self::UNKNOWN };
        (0..WALKS).find_map(|_| walk(pid)).unwrap_or(Self::UNKNOWN)
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
    let lineage = Lineage::of(pid);
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
    fn see(&mut self, pid: Pid) {
        let marker = procfs::environ(pid).ok().and_then(|environ| Marker::find(&environ));
        if is_guard(pid) {
            self.guard = marker.map_or(Guard::Unmarked, Guard::Of);
        }
        self.marked = self.marked.or(marker);
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

/// `None`: the parents changed while they were followed.
fn walk(pid: Pid) -> Option<Lineage> {
    let Ok(mut process) = procfs::stat(pid) else { return Some(Lineage::UNKNOWN) };
    let mut evidence = Evidence::default();
    for _ in 0..GENERATIONS {
        evidence.see(process.identity.pid);
        let Some(parent) = process.parent else { return Some(evidence.lineage()) };
        // What is above this process says nothing of which of its own guards this was.
        if parent == getpid() && evidence.guard != Guard::None {
            return still(process).then(|| evidence.lineage());
        }
        let above = procfs::stat(parent);
        // A child that still names its parent had it all the time, so `above` is the parent and not somebody
        // who got its pid.
        if !still(process) {
            return None;
        }
        match above {
            Ok(above) => process = above,
            // The parent lives but is hidden: another user's, which no guard above could be.
            Err(_) => return Some(evidence.lineage()),
        }
    }
    Some(Lineage::UNKNOWN)
}

fn still(process: Stat) -> bool {
    procfs::stat(process.identity.pid).is_ok_and(|now| now == process)
}
