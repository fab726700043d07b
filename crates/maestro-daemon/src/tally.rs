use std::sync::atomic::{AtomicU64, Ordering};

/// A count of something that may come without end, so that a flood of it is a few lines in the daemon's log.
#[derive(Debug, Default)]
pub(crate) struct Tally(AtomicU64);

impl Tally {
    /// Counts one more; gives the count where it is worth a line: at the first, the tenth, the hundredth and so on.
    pub(crate) fn add(&self) -> Option<u64> {
        let n = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        (n == 10_u64.pow(n.ilog10())).then_some(n)
    }
}

#[cfg(test)]
mod tests {
    use super::Tally;

    #[test]
    fn a_flood_is_told_a_few_times() {
        let tally = Tally::default();
        let told = (0..123_456).filter_map(|_| tally.add()).collect::<Vec<_>>();
        assert_eq!(told, [1, 10, 100, 1000, 10_000, 100_000]);
    }
}
