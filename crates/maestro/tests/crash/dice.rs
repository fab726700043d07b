//! Choices, all from one seed.

use std::{ops::Range, time::Duration};

/// A source of choices.
#[derive(Debug, Clone)]
pub(crate) struct Dice(fastrand::Rng);

impl Dice {
    /// From the system's randomness.
    pub(crate) fn new() -> Self {
        Self(fastrand::Rng::new())
    }

    /// The dice of one story of a seed.
    pub(crate) fn of(seed: u64, story: u64) -> Self {
        let mut seeds = fastrand::Rng::with_seed(seed);
        Self(fastrand::Rng::with_seed(seeds.u64(..) ^ story.wrapping_mul(0x9E37_79B9_7F4A_7C15)))
    }

    /// Other dice, whose throws change nothing about the further throws of these.
    pub(crate) fn fork(&mut self) -> Self {
        Self(self.0.fork())
    }

    pub(crate) fn number(&mut self, range: Range<u64>) -> u64 {
        self.0.u64(range)
    }

    /// True once in so many throws.
    pub(crate) fn one_in(&mut self, times: u64) -> bool {
        self.number(0..times) == 0
    }

    pub(crate) fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        let last = u64::try_from(choices.len()).unwrap_or(u64::MAX);
        &choices[usize::try_from(self.number(0..last)).unwrap_or(0)]
    }

    /// Up to so many milliseconds, in microseconds.
    pub(crate) fn moment(&mut self, ms_max: u64) -> Duration {
        Duration::from_micros(self.number(0..ms_max * 1000))
    }
}
