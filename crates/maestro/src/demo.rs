//! The built-in agent `demo`: a real ACP agent over stdio that is a script, so that everything maestro shows can be
//! seen without a key, a network or a model (CONTRACT §2.1).
//!
//! *Is*: a pure table from the words of a prompt to [`script::Step`]s, and a loop that plays them and listens
//! meanwhile.
//!
//! *Invariants*: it starts no program and opens no socket; it writes only inside a directory that it made itself, and
//! only after a person allowed it or chose the mode that does not ask; a cancel is answered before the next step.
//!
//! *Not here*: anything of the daemon. It is spoken to like every other agent.

mod identity;
mod note;
mod script;
mod serve;
mod wire;

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

/// Speaks ACP on stdin and stdout until stdin closes.
pub(crate) fn run() -> ExitCode {
    match serve::serve(io::stdin(), io::stdout().lock(), serve::Pace::Person) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            // Without a stderr the exit status alone has to tell.
            writeln!(io::stderr(), "maestro's demo agent stopped: {error}").ok();
            ExitCode::FAILURE
        }
    }
}
