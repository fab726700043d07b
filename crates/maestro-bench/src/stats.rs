//! Figures of many samples. Pure.

/// The value below which this share of the samples lies; zero of none.
pub(crate) fn percentile(samples: &[f64], share: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a place in a list of samples"
    )]
    let place = (sorted.len().saturating_sub(1) as f64 * share).round() as usize;
    sorted.get(place).copied().unwrap_or(0.0)
}

/// The middle one.
pub(crate) fn median(samples: &[f64]) -> f64 {
    percentile(samples, 0.5)
}

/// A count as a number to calculate with.
#[expect(clippy::cast_precision_loss, reason = "counts and nanoseconds of a run stay far below 2^52")]
pub(crate) fn number(count: impl TryInto<u64>) -> f64 {
    count.try_into().unwrap_or(u64::MAX) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples() {
        let samples = [4.0, 1.0, 3.0, 2.0, 5.0];
        let check = |share: f64, expect: f64| {
            assert!((percentile(&samples, share) - expect).abs() < f64::EPSILON, "{share}");
        };
        check(0.0, 1.0);
        check(0.5, 3.0);
        check(0.99, 5.0);
        assert!(median(&[]).abs() < f64::EPSILON);
    }
}
