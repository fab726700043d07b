//! The real daemon with a scripted agent that behaves as agents should not: faults, turns, approvals, recovery, sockets.

mod abuse;
mod approvals;
mod audit;
mod crossings;
mod directories;
mod disk_faults;
mod faults;
mod load;
mod own_turns;
mod peers;
mod processes;
mod queue;
mod queue_crash;
mod queue_races;
mod races;
mod recovery;
mod settings;
mod sockets;
mod stage;
mod storage;
mod storms;
mod turns;
mod usage;
