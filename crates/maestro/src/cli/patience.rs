//! When to say that something takes its time.

use std::time::Duration;

/// How long a person waits without a word.
const SILENCE_MAX: Duration = Duration::from_secs(1);

/// Tells once that a wait has become long.
#[derive(Debug, Default)]
pub(super) struct Patience {
    told: bool,
}

impl Patience {
    /// Whether a wait of this length is long, the first time that it is.
    pub(super) fn is_over(&mut self, waited: Duration) -> bool {
        let over = !self.told && waited >= SILENCE_MAX;
        self.told |= over;
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_wait_is_told_once() {
        let mut patience = Patience::default();
        assert!(!patience.is_over(SILENCE_MAX / 2));
        assert!(patience.is_over(SILENCE_MAX));
        assert!(!patience.is_over(SILENCE_MAX * 2));
    }
}
