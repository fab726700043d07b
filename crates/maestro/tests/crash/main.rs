//! Rounds in which the real daemon is killed at a random moment while agents stream and people prompt, decide, rename
//! and cancel; or while it starts agents, recovers, shuts down or starts itself. After each round: nothing that was
//! acknowledged or shown is lost, doubled or fused with something else, every process of an agent is gone, the next
//! start is clean, and the session goes on.
//!
//! `cargo xtask faults` runs as many rounds as wished with a given seed. A seed fixes every choice; the moments follow
//! as far as the machine's timing allows.

mod dice;
mod ledger;
mod person;
mod processes;
mod script;
mod story;
mod tally;

use dice::Dice;
use maestro_testkit::live_processes_where;
use std::{
    env,
    error::Error,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};
use story::Story;
use tally::Tally;

type Failure = Box<dyn Error + Send + Sync>;

/// Rounds of a run that does not say how many: enough to notice a break while working on something else.
const ROUNDS: u64 = 20;

/// Rounds that share a data directory, so that each log lives through several crashes.
const ROUNDS_PER_STORY: u64 = 10;

/// Stories at the same time for each core: most of a round is waiting.
const STORIES_PER_CORE: usize = 2;

#[test]
fn no_crash_loses_what_was_acknowledged() {
    let seed = number("MAESTRO_CRASH_SEED").unwrap_or_else(|| Dice::new().number(0..1 << 32));
    let first = number("MAESTRO_CRASH_FIRST").unwrap_or(0);
    let rounds = number("MAESTRO_CRASH_ROUNDS").unwrap_or(ROUNDS);
    let end = first + rounds.div_ceil(ROUNDS_PER_STORY);
    let next = AtomicU64::new(first);
    let lanes = thread::available_parallelism().map_or(1, usize::from) * STORIES_PER_CORE;
    let tell = |story: u64| tell_all(seed, story, rounds.min(ROUNDS_PER_STORY), &next, end);
    let tally = thread::scope(|scope| {
        let lanes: Vec<_> = (0..lanes).map(|_| scope.spawn(|| lane(&next, end, &tell))).collect();
        lanes.into_iter().fold(Tally::default(), |sum, lane| {
            let told = lane.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            sum.plus(&told)
        })
    });
    say(&format!("seed {seed}: {tally}"));
    assert!(tally.rounds >= rounds, "{} of {rounds} rounds were made", tally.rounds);
    assert_eq!(strays(), Vec::<u32>::new(), "processes of agents are left at the end");
}

/// Tells stories until there are no more.
fn lane(next: &AtomicU64, end: u64, tell: &impl Fn(u64) -> Tally) -> Tally {
    let mut tally = Tally::default();
    loop {
        let story = next.fetch_add(1, Ordering::Relaxed);
        if story >= end {
            return tally;
        }
        tally = tally.plus(&tell(story));
    }
}

/// Tells one story and panics, with what is needed to tell it again, if it goes wrong. The other lanes end then.
fn tell_all(seed: u64, number: u64, rounds: u64, next: &AtomicU64, end: u64) -> Tally {
    let stop = StopOthers { next, end };
    let again = format!(
        "story {number} of seed {seed}; again: cargo xtask faults --seed {seed} --first {number} --rounds {rounds}"
    );
    say(&format!("begins: {again}"));
    let told = Story::begin(Dice::of(seed, number)).and_then(|mut story| {
        story.tell(rounds).map_err(|failure| format!("{failure}\n{}", story.describe()))?;
        Ok(story.tally())
    });
    let tally = told.unwrap_or_else(|failure| panic!("{again}\n{failure}"));
    std::mem::forget(stop);
    tally
}

struct StopOthers<'a> {
    next: &'a AtomicU64,
    end: u64,
}

impl Drop for StopOthers<'_> {
    fn drop(&mut self) {
        self.next.store(self.end, Ordering::Relaxed);
    }
}

/// Processes that live in the place of a test of this process.
fn strays() -> Vec<u32> {
    let mark = story::mark();
    live_processes_where(|entry| entry == mark.as_bytes())
}

fn number(variable: &str) -> Option<u64> {
    let value = env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{variable} is not a number: {value}")))
}

#[expect(
    clippy::print_stdout,
    reason = "the test harness shows it beside a failure, `cargo xtask faults` always"
)]
fn say(line: &str) {
    println!("{line}");
}
