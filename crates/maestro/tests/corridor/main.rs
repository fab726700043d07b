//! The real daemon with a scripted agent that behaves as agents should not: faults, turns, approvals, recovery, sockets.

mod approvals;
mod faults;
mod own_turns;
mod peers;
mod processes;
mod races;
mod recovery;
mod sockets;
mod stage;
mod storage;
mod storms;
mod turns;
mod usage;
