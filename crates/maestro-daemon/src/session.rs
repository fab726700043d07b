//! One session: the actor that owns it and the handle that others hold.

mod actor;
mod approvals;
mod commands;
mod ending;
mod frames;
mod grace;
mod handle;
mod health;
mod journal;
mod lanes;
mod lines;
mod noise;
mod opening;
mod owed;
mod own_turns;
mod own_work;
mod publish;
mod queue;
mod queueing;
mod settings;
mod start;
mod starting;
mod storage;
mod stored;
mod turn;
mod unopened;
mod wire;

pub(crate) use actor::{ActorEnd, Birth, Surroundings, spawn_parts};
pub(crate) use handle::{Decider, Frames, Held, Pulse, SessionError, SessionHandle, Text, View};
pub(crate) use health::SessionHealth;
pub(crate) use queue::StoredQueue;
pub(crate) use queueing::{QueueCommand, first as first_queue};
pub(crate) use start::Wish;
pub(crate) use stored::{Ledger, Made, StoredSession};
pub(crate) use wire::TranscriptText;
