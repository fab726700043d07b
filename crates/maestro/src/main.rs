//! maestro: the daemon, and the command line that drives it.
//!
//! *Is*: the commands, the settings they share, what they print, and the built-in demo agent.
//!
//! *Invariants*: files are private to their owner from the first line on; what others wrote is cleaned before it
//! reaches a terminal; data goes to the standard output and words about it to the standard error; meaning never rests
//! on colour alone.
//!
//! *Not here*: sessions, the event log, agents' processes and the API, which the crates beside this one hold.
#![forbid(unsafe_code)]

mod cli;
mod config;
mod demo;
mod render;
mod terminal;

use rustix::{fs::Mode, process::umask};
use std::{env, ffi::OsStr, process::ExitCode};

fn main() -> ExitCode {
    let person_umask = umask(Mode::RWXG | Mode::RWXO);
    let first = env::args_os().nth(1);
    // Both are single-threaded programs of their own: no runtime and no parser of arguments before them.
    match first.as_deref().and_then(OsStr::to_str) {
        Some(maestro_process::GUARD_ARG) => maestro_process::guard_main(env::args_os().skip(2)),
        Some(maestro_acp::DEMO_ARG) => demo::run(),
        _ => cli::run(person_umask),
    }
}
