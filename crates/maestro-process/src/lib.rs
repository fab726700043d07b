//! Agents as processes: how one is started, watched and ended together with everything it started.
//!
//! *Is*: the spawn thread, the guard (a mode of the daemon's own executable that stands between daemon and
//! agent), the environment an agent gets, the search for its program, the end of its process tree, the sweep
//! for what a killed guard left behind, and the question whether a process belongs to an agent.
//!
//! *Invariants*: the daemon never forks; an agent holds no descriptor, variable, umask or limit of the daemon
//! that was not meant for it; nothing an agent started outlives its session, its daemon or its guard, unless
//! it shed both its parent and the marker in its environment while no guard lived; no process is signalled
//! before its identity (boot, pid, start time) was compared; `unsafe` is in the module `sys` alone.
//!
//! *Not here*: what is said over the pipes, when an agent is started or ended, and what becomes of its session.
#![warn(missing_docs)]

#[cfg(not(target_os = "linux"))]
compile_error!("maestro-process needs Linux: pidfds, subreapers and /proc");

mod child;
mod defaults;
mod environment;
mod error;
mod guard;
pub mod lineage;
mod marker;
mod procfs;
mod resolve;
mod spawner;
mod sweep;
mod sys;
mod tree;
mod wire;

pub use child::{AgentExit, Child, ExitWatch, Terminator, TreeEnd};
pub use defaults::ProcessDefaults;
pub use environment::session_environment;
pub use error::{SpawnError, StartError};
pub use guard::{GUARD_ARG, guard_main};
pub use marker::{Marker, SESSION_VARIABLE, SPAWN_VARIABLE, SpawnRecord};
pub use resolve::resolve_program;
pub use spawner::{GuardProgram, SpawnRequest, Spawner};
pub use sweep::{SweepReport, SweptProcess, sweep};
