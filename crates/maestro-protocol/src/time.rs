use serde::{Deserialize, Serialize};
use std::fmt;

/// A moment to the millisecond; on the wire and in the log an RFC 3339 text in UTC (`2026-12-01T00:12:40.123Z`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(value_type = String, format = DateTime))]
pub struct Timestamp(jiff::Timestamp);

impl Timestamp {
    /// The moment `ms` milliseconds after 1970 began in UTC; moments outside the years -9999 to 9999 are clamped.
    pub fn from_millisecond(ms: i64) -> Self {
        let edge = if ms < 0 { jiff::Timestamp::MIN } else { jiff::Timestamp::MAX };
        Self(jiff::Timestamp::from_millisecond(ms).unwrap_or(edge))
    }
    /// Milliseconds since 1970 began in UTC.
    pub fn as_millisecond(self) -> i64 {
        self.0.as_millisecond()
    }
    pub(crate) fn in_utc(self) -> jiff::civil::DateTime {
        jiff::tz::Offset::UTC.to_datetime(self.0)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
