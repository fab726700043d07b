//! Time and randomness, handed in so that tests can fix them.

use maestro_protocol::Timestamp;
use std::{fmt, sync::Arc};
use uuid::Uuid;

/// Tells the time of day.
pub(crate) trait Clock: fmt::Debug + Send + Sync {
    /// Now. May step back: order is the cursor, never the time.
    fn now(&self) -> Timestamp;
}

/// Makes ids and nonces that nobody can guess.
pub(crate) trait Entropy: fmt::Debug + Send + Sync {
    /// A fresh random UUID.
    fn uuid(&self) -> Uuid;
}

/// The system's clock and its random source.
#[derive(Debug)]
pub(crate) struct System;

impl Clock for System {
    fn now(&self) -> Timestamp {
        Timestamp::from_millisecond(jiff::Timestamp::now().as_millisecond())
    }
}

impl Entropy for System {
    fn uuid(&self) -> Uuid {
        Uuid::new_v4()
    }
}

/// Both, as every actor holds them.
#[derive(Debug, Clone)]
pub(crate) struct Sources {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
}

impl Sources {
    pub(crate) fn system() -> Self {
        Self { clock: Arc::new(System), entropy: Arc::new(System) }
    }
}
