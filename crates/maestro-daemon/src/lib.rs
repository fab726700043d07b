//! The daemon: one actor per session, the registry of them, and the API over the Unix socket.
//!
//! *Is*: [`serve`], which runs a daemon on a data directory until it is told to stop; [`openapi_json`], the description
//! of its API.
//!
//! *Invariants*: one task owns a session (child, log, projection, turn, approvals); every effect is *append, then act*;
//! nothing of an agent outlives its session or the daemon; no lookup of a session without the account that asks.
//!
//! *Not here*: how an agent's line folds (maestro-projection), how it is read (maestro-acp), how processes are started
//! and ended (maestro-process), files (maestro-log), and settings (the binary).
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod account;
mod agents;
mod audit;
mod clock;
pub mod history;
mod openapi;
mod registry;
mod report;
mod run;
mod server;
mod session;
mod tally;

pub use agents::package_version;
pub use openapi::openapi_json;
pub use run::{Config, ReadyInfo, ServeError, serve};
