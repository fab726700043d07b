use crate::AgentKey;
use serde::{Deserialize, Serialize};

/// An agent of the table, and whether it can be started here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct AgentInfo {
    /// Its key, for `agent` of a new session.
    pub key: AgentKey,
    /// What people call it.
    pub name: String,
    /// Whether a new session without `agent` gets this one.
    pub default: bool,
    /// The program that was found; `null` if none was.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub program: Option<String>,
    /// The version of the package that the program belongs to; `null` where there is none to be read.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub version: Option<String>,
    /// What is missing and what to do, in a sentence, where no program was found.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub missing: Option<String>,
    /// The command that installs it, where that brings what is missing.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub install: Option<String>,
    /// The command that signs a person in, where the agent has one.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub sign_in: Option<String>,
}

/// `GET /api/agents`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct AgentList {
    /// All agents of the table, the default first.
    pub agents: Vec<AgentInfo>,
}
