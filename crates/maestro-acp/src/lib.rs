//! The client side of the Agent Client Protocol, version 1, over an agent's stdio.
//!
//! *Is*: the table of agents and what is peculiar to each; framing of an agent's output with bounds and
//! back-pressure; tolerant decoding; the messages a client sends, and the task that writes them; the handshake; the
//! mapping of a person's decision to an agent's option.
//!
//! *Invariants*: the only crate that knows ACP's types; the raw line is the record, so that an update's `params`
//! leave here byte for byte; decoding is total, so that no output of an agent is an error; frames keep the order of
//! the agent's output; every queue is bounded and a full one stops the reading of the pipe; every request of an
//! agent can be answered, with its id exactly as the agent spelt it.
//!
//! *Not here*: processes, the event log, what an update means for a transcript, and which turn is active.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod agents;
mod connection;
mod decision;
mod decode;
mod frame;
mod framing;
mod handshake;
mod outbox;
pub mod outgoing;
mod own_turns;
mod quirks;
mod reader;
mod setting;
mod stderr;

pub use agents::{AgentEntry, AgentOverride, AgentTable, AgentTableError, Overlap, Program};
pub use connection::Connection;
pub use decision::{Choice, choose, offered};
pub use decode::decode;
pub use frame::{AUTH_REQUIRED, Frame, PermissionRequest, RawId, RpcError, UpdateClass};
pub use handshake::{HandshakeError, Opened, Phase, SessionOpen, Settled, open};
pub use outbox::{Outbox, OutboxEnd, SendError};
pub use own_turns::{Stir, TurnMark, stir};
pub use reader::{Batch, ReaderEnd, read_frames};
pub use setting::{Ask, Offers, Plan, Setting, SettingRefused, plan};
pub use stderr::StderrTail;

use std::time::Duration;

/// Installs the default agent (CONTRACT §2.1).
pub const INSTALL_COMMAND: &str = "npm install -g --prefix ~/.local @zed-industries/claude-code-acp";

/// The key of the agent that a session gets if nobody chose another (CONTRACT §2.1).
pub const DEFAULT_AGENT: &str = "claude-code-acp";

/// The hidden first argument with which maestro's own program is the built-in demo agent.
pub const DEMO_ARG: &str = "__demo-agent";

/// The bound of a whole handshake: long enough for a slow machine to start a runtime and an agent in it, never long
/// enough to hang a start for ever (CONTRACT §3.2).
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_mins(1);

/// How long an agent may take to answer whether it takes a setting (CONTRACT §3.5).
pub const SETTING_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a cancelled turn may take to settle where its agent's entry says nothing else (CONTRACT §8.3).
pub const CANCEL_GRACE: Duration = Duration::from_millis(500);

/// The silence that ends an agent's own turn where its entry says nothing else (CONTRACT §8.6).
pub const OWN_TURN_QUIET: Duration = Duration::from_secs(10);

/// The longest line of an agent that is read; a longer one becomes a notice (CONTRACT §4.5).
pub const MAX_LINE_BYTES: usize = 8 * 1024 * 1024;
