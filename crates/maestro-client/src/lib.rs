//! The typed client of the daemon: its HTTP API and its sockets over the local Unix socket.
//!
//! *Is*: [`Client`], one method per route; [`StructuredStream`], the live frames of a session over reconnects;
//! [`TranscriptModel`], the pure fold of those frames into rows and state.
//!
//! *Invariants*: nothing is sent before the socket's owner and the listening process were found to be this
//! process's own user; every wait has a limit; after a lost connection a stream starts again with a whole snapshot,
//! so a model is never built over a gap.
//!
//! *Not here*: printing, settings, starting a daemon, and any reading of an agent's own messages.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod client;
mod error;
mod model;
mod structured;
mod transport;

pub use client::Client;
pub use error::{ClientError, UnreadableAnswer};
pub use model::{Applied, Gap, LiveFrame, TranscriptModel};
pub use structured::{StructuredEvent, StructuredStream};
