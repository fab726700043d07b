use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    termios::{QueueSelector, tcflush},
};
use std::{
    io::{self, IsTerminal as _},
    os::fd::{AsFd as _, OwnedFd},
};
use tokio::io::unix::AsyncFd;

/// The longest line that a terminal hands over at once.
const LINE_MAX_BYTES: usize = 4096;

/// Lines that a person types at the terminal. Reading needs no thread, so that the program can end while it waits.
pub(crate) struct TerminalInput {
    terminal: AsyncFd<OwnedFd>,
}

impl TerminalInput {
    /// The standard input, if it is a terminal.
    pub(crate) fn open() -> io::Result<Option<Self>> {
        let stdin = io::stdin();
        if !stdin.is_terminal() {
            return Ok(None);
        }
        #[expect(
            deprecated,
            reason = "the fault is with types whose descriptor may change; an `OwnedFd` has one for life"
        )]
        let terminal = AsyncFd::new(stdin.as_fd().try_clone_to_owned()?)?;
        Ok(Some(Self { terminal }))
    }

    /// Throws away what was typed before a question was asked: it cannot have been meant as its answer.
    pub(crate) fn forget_typed(&self) -> io::Result<()> {
        Ok(tcflush(self.terminal.get_ref(), QueueSelector::IFlush)?)
    }

    /// The next line without its end; `None` once the person ended the input. Cancel safe.
    pub(crate) async fn line(&mut self) -> io::Result<Option<String>> {
        loop {
            let mut ready = self.terminal.readable().await?;
            let mut wanted = [PollFd::new(ready.get_inner(), PollFlags::IN)];
            // The descriptor blocks and is shared with the shell, so it is asked before each read and not switched.
            if poll(&mut wanted, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))? == 0 {
                ready.clear_ready();
                continue;
            }
            let mut line = [0; LINE_MAX_BYTES];
            let n_bytes = match rustix::io::read(ready.get_inner(), &mut line) {
                Ok(n_bytes) => n_bytes,
                Err(Errno::INTR | Errno::AGAIN) => continue,
                Err(error) => return Err(error.into()),
            };
            let text = String::from_utf8_lossy(line.get(..n_bytes).unwrap_or_default());
            return Ok((n_bytes > 0).then(|| text.trim_end_matches(['\n', '\r']).to_owned()));
        }
    }
}
