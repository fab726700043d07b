//! The calls that have no safe form: what a guard does to its own descriptors and signals, and what it does in
//! its child between fork and exec. Only the last two functions are for the daemon.
#![expect(
    unsafe_code,
    reason = "close_range, signal masks, signalfd, pre_exec, SO_PEERPIDFD and AsyncFd have no safe form"
)]

use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};
use std::{
    io,
    mem::MaybeUninit,
    os::{
        fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd},
        unix::process::CommandExt as _,
    },
    process::Command,
    ptr,
    sync::Arc,
};
use tokio::io::{Interest, unix::AsyncFd};

fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Closes every descriptor above 2. For the first line of a process that was just executed: nothing in it may
/// own a descriptor yet.
pub(crate) fn close_inherited() -> io::Result<()> {
    // SAFETY: plain integers. The caller's promise is that no descriptor from 3 on has an owner in this
    // process, so none is closed under somebody's hands.
    let result = unsafe { libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, 0_u32) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Gives every signal its default disposition, blocks all of them, and returns a descriptor that is readable
/// (and never blocks) while a child's end has not been taken notice of.
///
/// Defaults, because an ignored SIGCHLD would lose exit statuses and every ignored signal would stay ignored in
/// the agent; blocked, because a signal sent to everything must not end the process that ends the others.
pub(crate) fn take_over_signals() -> io::Result<OwnedFd> {
    for signal in 1..=libc::SIGRTMAX() {
        // SAFETY: SIG_DFL installs no handler. The call fails for SIGKILL, SIGSTOP and the C library's own
        // signals, which cannot be ignored in the first place.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    set_mask(libc::SIG_SETMASK, true)?;
    let mut child = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises the set that the next two calls read; signalfd returns a descriptor that
    // nobody else owns, which `checked` has seen to be valid.
    unsafe {
        checked(libc::sigemptyset(child.as_mut_ptr()))?;
        checked(libc::sigaddset(child.as_mut_ptr(), libc::SIGCHLD))?;
        let descriptor = checked(libc::signalfd(-1, child.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK))?;
        Ok(OwnedFd::from_raw_fd(descriptor))
    }
}

fn set_mask(how: libc::c_int, full: bool) -> io::Result<()> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is initialised by the first call, whichever it is; the old mask is not asked for.
    unsafe {
        checked(if full { libc::sigfillset(set.as_mut_ptr()) } else { libc::sigemptyset(set.as_mut_ptr()) })?;
        checked(libc::sigprocmask(how, set.as_ptr(), ptr::null_mut())).map(drop)
    }
}

/// Makes the process that `command` starts die with this one, and start with no signal blocked. This process
/// must have one thread only: the death signal belongs to the thread that forks.
pub(crate) fn die_with_me(command: &mut Command) {
    let me = getpid();
    // SAFETY: the closure makes three system calls, allocates nothing and takes no lock; with a single thread
    // no lock could be held by another one either.
    unsafe { command.pre_exec(move || between_fork_and_exec(me)) };
}

fn between_fork_and_exec(parent: Pid) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // A parent that died before the line above sends no signal any more.
    if getppid() != Some(parent) {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    set_mask(libc::SIG_SETMASK, false)
}

/// The process that connected a Unix socket, as a pidfd that was taken at that moment.
pub(crate) fn peer_pidfd(socket: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mut descriptor: libc::c_int = -1;
    let mut length: libc::socklen_t = 4;
    // SAFETY: the kernel writes at most `length` bytes, the size of a C int, into `descriptor`.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERPIDFD,
            ptr::from_mut(&mut descriptor).cast(),
            &raw mut length,
        )
    };
    checked(result)?;
    // SAFETY: on success the kernel has made a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(checked(descriptor)?) })
}

/// Has the current runtime watch a descriptor for something to read.
pub(crate) fn watch_readable(descriptor: Arc<OwnedFd>) -> io::Result<AsyncFd<Arc<OwnedFd>>> {
    // SAFETY: the descriptor stays open while the AsyncFd holds a share of its owner, and an owner behind an
    // Arc cannot be exchanged: `as_raw_fd` gives the same answer for as long.
    Ok(unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE)? })
}
