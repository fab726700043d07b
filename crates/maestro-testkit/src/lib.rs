//! Doubles and drivers for tests.
//!
//! *Is*: a language of [`Script`]s and the program `maestro-scripted-agent` that plays them as an ACP agent, well
//! behaved or not; [`Trace`]s of real agents as scripts; [`TestDaemon`], the real daemon in a temporary place; a
//! plain HTTP and WebSocket [`Door`] to it; questions about processes.
//!
//! *Invariants*: everything is bounded by a limit that is named; nothing outlives its owner's drop but processes
//! that a script detached on purpose, and those end by themselves; only processes started here are signalled.
//!
//! *Not here*: any crate of the daemon or the client. What is tested must not help to test itself.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod agent;
mod daemon;
mod door;
mod processes;
mod program;
mod record;
mod script;
mod trace;
mod wait;
mod watch;

pub use agent::main as scripted_agent_main;
pub use daemon::{DaemonBuilder, StartError, TestDaemon};
pub use door::{Answer, Door, DoorError, Incoming, WebSocket};
pub use processes::{is_gone, live_processes_where, live_processes_with};
pub use program::{ProgramError, scripted_agent};
pub use record::{Descendant, Inspection, Received, Record};
pub use script::{Descent, Payload, Script, Step, Steps, Stream};
pub use trace::{Trace, TraceError};
pub use wait::{TimedOut, wait_until, wait_until_blocking};
pub use watch::{Watch, WatchError};
