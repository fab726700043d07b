use serde::{Deserialize, Serialize};

/// What kind of caller an account's credentials speak for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// A person, who may do everything that the account may.
    Person,
    /// A program below one of the account's agents: it looks at its own session, without nonces, and decides nothing.
    Agent,
}
