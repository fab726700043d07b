//! The goals, in the order of the table.

mod lines;
mod log;
mod memory;
mod pages;
mod people;
mod spawn;
mod starts;
mod streams;

use crate::{figure::Figure, stage::Bench};
use anyhow::Result;
use futures_util::future::BoxFuture;

type Measured = BoxFuture<'static, Result<Vec<Figure>>>;

/// Something to measure.
pub(crate) struct Goal {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) measure: fn(Bench) -> Measured,
}

macro_rules! goals {
    ($($name:literal, $what:literal, $measure:path;)*) => {
        pub(crate) const GOALS: &[Goal] =
            &[$(Goal { name: $name, what: $what, measure: |bench| Box::pin($measure(bench)) }),*];
    };
}

goals! {
    "G1", "one session to one reader, 200 chunks a second", streams::steady;
    "G2", "one session to 20 readers, 1000 chunks a second", streams::watched;
    "G3", "one session as fast as it can", streams::flat_out;
    "G4", "sixteen sessions as fast as they can", streams::many_flat_out;
    "G5", "one session to hundreds of readers, one of which does not read", streams::fan_out;
    "G6", "many sessions, 20 chunks a second each", memory::many_live;
    "G7", "folding a log", lines::fold;
    "G8", "start with many long logs", starts::long_logs;
    "G9", "a page of the replay", pages::replay;
    "G10", "connecting to a long transcript", pages::first_row;
    "G11", "memory of sessions, sockets and rows", memory::idle;
    "G12", "the log's writes", log::writes;
    "G13", "starting an agent below a large daemon", spawn::large_parent;
    "G14", "start of daemon and command line", starts::ready;
    "approvals", "from a person's click to the agent", people::approvals;
    "reconnects", "what a reader misses over reconnects", people::reconnects;
    "restarts", "what is lost over kills of the daemon", people::restarts;
}
