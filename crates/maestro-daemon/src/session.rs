//! One session: the actor that owns it and the handle that others hold.

mod actor;
mod approvals;
mod commands;
mod ending;
mod frames;
mod handle;
mod journal;
mod lines;
mod opening;
mod own_turns;
mod own_work;
mod publish;
mod settings;
mod start;
mod starting;
mod stored;
mod turn;

pub(crate) use actor::{ActorEnd, Birth, Surroundings, spawn_parts};
pub(crate) use handle::{Decider, Frames, Pulse, SessionError, SessionHandle};
pub(crate) use start::Wish;
pub(crate) use stored::{Ledger, StoredSession};
