//! Whether a process belongs to an agent (CONTRACT §11.2): it has a guard above it, or it or a process above it
//! carries a spawn's marker in its environment.
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

/// Whether the process with this pid, now, belongs to an agent.
pub fn is_agent(pid: u32) -> bool {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return true };
    (0..WALKS).find_map(|_| walk(pid)).unwrap_or(true)
}

/// Whether this process itself belongs to an agent. Such a client starts no daemon.
pub fn self_is_agent() -> bool {
    is_agent(getpid().as_raw_pid().unsigned_abs())
}

/// Whether the process that connected this Unix socket belongs to an agent. A peer that is gone counts as one.
///
/// The kernel (from 6.5 on) says who connected by a handle that cannot come to mean another process. An older
/// one gives a pid only, and a peer that ended right after it connected may be taken for whoever has that
/// pid now.
pub fn peer_is_agent(socket: impl AsFd) -> io::Result<bool> {
    let socket = socket.as_fd();
    let handle = match sys::peer_pidfd(socket) {
        Ok(handle) => handle,
        // Reaped already.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ESRCH | libc::EINVAL | libc::ENODATA)) => {
            return Ok(true);
        }
        Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => {
            let peer = socket_peercred(socket)?.pid;
            match pidfd_open(peer, PidfdFlags::empty()) {
                Ok(handle) => handle,
                Err(rustix::io::Errno::SRCH) => return Ok(true),
                Err(error) => return Err(error.into()),
            }
        }
        Err(error) => return Err(error),
    };
    is_agent_handle(handle.as_fd())
}

/// Whether the process of this pidfd belongs to an agent.
pub fn is_agent_handle(pidfd: BorrowedFd<'_>) -> io::Result<bool> {
    let about = fs::read_to_string(format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd()))?;
    let pid = about.lines().find_map(|line| line.strip_prefix("Pid:")).map(str::trim);
    let Some(pid) = pid.and_then(|pid| pid.parse::<i32>().ok()) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a pidfd"));
    };
    // Negative: ended and reaped. Zero: outside of this pid namespace, so nothing is known.
    let Ok(pid @ 1..) = u32::try_from(pid) else { return Ok(true) };
    let verdict = is_agent(pid);
    // Only if the process still lives was it the one with that pid all the time.
    let ended = poll(&mut [PollFd::from_borrowed_fd(pidfd, PollFlags::IN)], Some(&Timespec::default()))? > 0;
    Ok(verdict || ended)
}

/// `None`: the parents changed while they were followed.
fn walk(pid: Pid) -> Option<bool> {
    let Ok(mut process) = procfs::stat(pid) else { return Some(true) };
    for _ in 0..GENERATIONS {
        let pid = process.identity.pid;
        let marked = procfs::environ(pid).is_ok_and(|environ| Marker::find(&environ).is_some());
        if marked || is_guard(pid) {
            return Some(true);
        }
        let Some(parent) = process.parent else { return Some(false) };
        let above = procfs::stat(parent);
        // A child that still names its parent had it all the time, so `above` is the parent and not somebody
        // who got its pid.
        if !still(process) {
            return None;
        }
        match above {
            Ok(above) => process = above,
            // The parent lives but is hidden: another user's, which no guard above could be.
            Err(_) => return Some(false),
        }
    }
    Some(true)
}

fn still(process: Stat) -> bool {
    procfs::stat(process.identity.pid).is_ok_and(|now| now == process)
}
