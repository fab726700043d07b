use crate::{AgentKey, Cost, Timestamp};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt, str::FromStr};

/// A day in UTC; on the wire `2026-12-01`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(value_type = String, format = Date))]
pub struct Day(jiff::civil::Date);

impl From<Timestamp> for Day {
    fn from(moment: Timestamp) -> Self {
        Self(moment.in_utc().date())
    }
}

impl FromStr for Day {
    type Err = InvalidDay;

    fn from_str(text: &str) -> Result<Self, InvalidDay> {
        // The longer forms that the parser takes too are moments, and a moment is no day without a time zone.
        let length = text.len() == "2026-12-01".len();
        text.parse().ok().filter(|_| length).map(Self).ok_or(InvalidDay)
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A text is no day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidDay;

impl fmt::Display for InvalidDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no day: write year, month and day, such as `2026-12-01`")
    }
}

impl std::error::Error for InvalidDay {}

/// Tokens as the agents count them. Agents differ in whether cached tokens are part of the input and thoughts part
/// of the output; the numbers are added up as they come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Tokens {
    /// Read by the model.
    pub input: u64,
    /// Written by the model.
    pub output: u64,
    /// Read from the provider's cache.
    pub cached_read: u64,
    /// Written to the provider's cache.
    pub cached_write: u64,
    /// Written as thoughts.
    pub thought: u64,
}

impl Tokens {
    /// The same with `more` added; a sum that would not be exact for a client stays at the largest that is.
    #[must_use]
    pub fn plus(self, more: Self) -> Self {
        let add = |a: u64, b: u64| a.saturating_add(b).min((1 << 53) - 1);
        Self {
            input: add(self.input, more.input),
            output: add(self.output, more.output),
            cached_read: add(self.cached_read, more.cached_read),
            cached_write: add(self.cached_write, more.cached_write),
            thought: add(self.thought, more.thought),
        }
    }
}

/// What was used, summed up.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Spending {
    /// Turns that ended.
    pub turns: u64,
    /// Tokens of these turns, where their agent told them.
    pub tokens: Tokens,
    /// Money by currency (ISO 4217 as the agent spelt it), where the agent told it.
    pub cost: BTreeMap<String, f64>,
}

impl Spending {
    /// Adds `more`.
    pub fn add(&mut self, more: &Self) {
        self.turns += more.turns;
        self.tokens = self.tokens.plus(more.tokens);
        for (currency, amount) in &more.cost {
            *self.cost.entry(currency.clone()).or_default() += amount;
        }
    }

    /// Adds an amount of money.
    pub fn pay(&mut self, cost: Cost) {
        *self.cost.entry(cost.currency).or_default() += cost.amount;
    }
}

/// What was used on one day with one agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct DayUsage {
    /// The day, in UTC.
    pub day: Day,
    /// The agent's key.
    pub agent: AgentKey,
    /// What was used.
    #[serde(flatten)]
    pub spending: Spending,
}

/// `GET /api/usage`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct UsageReport {
    /// One entry for each day and agent with any usage, newest day first, then by agent.
    pub usage: Vec<DayUsage>,
    /// Sessions whose log cannot be read and whose usage is not in the sums.
    pub uncounted_sessions: u64,
}

/// The query of `GET /api/usage`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
pub struct UsageQuery {
    /// The first day wanted, in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", param(value_type = Option<String>, format = Date))]
    pub since: Option<Day>,
    /// The last day wanted, in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", param(value_type = Option<String>, format = Date))]
    pub until: Option<Day>,
}

#[cfg(test)]
mod tests {
    use super::{Day, InvalidDay};
    use crate::Timestamp;

    #[test]
    fn a_day_is_read_as_it_is_written() {
        let check = |text: &str, reads: bool| {
            let day = text.parse::<Day>();
            assert_eq!(day.map(|day| day.to_string()), if reads { Ok(text.into()) } else { Err(InvalidDay) });
        };
        check("2026-12-01", true);
        check("0001-01-01", true);
        for bad in ["", "2026-12-1", "2026-13-01", "2026-12-01T00:00:00Z", "20261201", "today", "2026-12-01 "]
        {
            check(bad, false);
        }
    }

    #[test]
    fn a_day_begins_at_midnight_in_utc() {
        let check = |ms: i64, day: &str| {
            assert_eq!(Day::from(Timestamp::from_millisecond(ms)).to_string(), day);
        };
        check(0, "1970-01-01");
        check(86_399_999, "1970-01-01");
        check(86_400_000, "1970-01-02");
        check(-1, "1969-12-31");
    }
}
