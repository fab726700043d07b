use std::{
    thread,
    time::{Duration, Instant},
};
use thiserror::Error;

/// How long a condition rests between two looks.
const PAUSE: Duration = Duration::from_millis(10);

/// A condition did not come true in time.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("waited {limit:?} in vain for {what}")]
pub struct TimedOut {
    /// What was waited for.
    pub what: String,
    /// How long.
    pub limit: Duration,
}

/// Waits until `condition` holds, looking again and again. `what` completes "waited in vain for …".
pub async fn wait_until(
    limit: Duration,
    what: &str,
    mut condition: impl FnMut() -> bool,
) -> Result<(), TimedOut> {
    let end = Instant::now() + limit;
    loop {
        if condition() {
            return Ok(());
        }
        if Instant::now() >= end {
            return Err(TimedOut { what: what.into(), limit });
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// As [`wait_until`], on a thread without a runtime.
pub fn wait_until_blocking(
    limit: Duration,
    what: &str,
    mut condition: impl FnMut() -> bool,
) -> Result<(), TimedOut> {
    let end = Instant::now() + limit;
    loop {
        if condition() {
            return Ok(());
        }
        if Instant::now() >= end {
            return Err(TimedOut { what: what.into(), limit });
        }
        thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn waiting_ends_with_the_condition_or_the_limit() {
        let mut looks = 0;
        let third = wait_until(Duration::from_secs(5), "the third look", || {
            looks += 1;
            looks == 3
        });
        assert_eq!(third.await, Ok(()));
        assert_eq!(looks, 3);
        let never = wait_until(Duration::from_millis(20), "nothing", || false).await;
        assert_eq!(never.unwrap_err().to_string(), "waited 20ms in vain for nothing");
        assert!(wait_until_blocking(Duration::from_millis(20), "nothing", || false).is_err());
        assert!(wait_until_blocking(Duration::ZERO, "all", || true).is_ok());
    }
}
