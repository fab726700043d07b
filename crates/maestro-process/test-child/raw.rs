#![expect(unsafe_code, reason = "signal dispositions, alarms and fork handlers have no safe form")]

use std::{
    io,
    sync::atomic::{AtomicBool, Ordering},
};

static FORKED: AtomicBool = AtomicBool::new(false);

extern "C" fn note_fork() {
    FORKED.store(true, Ordering::Relaxed);
}

/// From now on [`has_forked`] knows. The C library runs these handlers for `fork`, not for `posix_spawn`.
pub(crate) fn watch_forks() -> io::Result<()> {
    // SAFETY: the handler lives as long as the program and only stores into an atomic.
    match unsafe { libc::pthread_atfork(Some(note_fork), None, None) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Whether this process has forked.
pub(crate) fn has_forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// SIGTERM, SIGINT and SIGHUP no longer end this process or what it starts.
pub(crate) fn ignore_requests_to_end() {
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
        // SAFETY: ignoring installs no handler.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// SIGALRM ends this process after so many seconds.
pub(crate) fn end_after(seconds: u32) {
    // SAFETY: plain integer; the default action of the signal is meant.
    unsafe { libc::alarm(seconds) };
}
