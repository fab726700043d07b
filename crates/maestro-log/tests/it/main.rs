//! The crate through its public door, on real files, in other threads and in other processes.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod index;
mod laws;
mod open;
mod processes;
mod reader;
mod sidecars;
mod store;
