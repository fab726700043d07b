use crate::{Cursor, RowId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The alphabet a transcript is written in (CONTRACT §4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum TranscriptRowKind {
    /// What a person (or a replaying agent) asked.
    User,
    /// The agent's visible reply.
    AgentText,
    /// The agent's reasoning.
    AgentThought,
    /// A tool call whose content holds no diff.
    ToolCall,
    /// A tool call whose content holds a diff.
    ToolDiff,
    /// A permission request.
    Approval,
    /// The agent's current list of steps.
    Plan,
    /// Anything else, kept so that nothing is lost.
    Notice,
}

/// One row of a transcript.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TranscriptRow {
    /// Stable for the life of the session.
    pub id: RowId,
    /// How to read `data`. A tool's row may flip between `ToolCall` and `ToolDiff`.
    pub kind: TranscriptRowKind,
    /// The ACP payload: for known kinds the `update` object without its tag, for approvals the request's params,
    /// for notices the raw update. The daemon's own additions are under `_meta.maestro`, which no agent can write.
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub data: Value,
}

/// The whole transcript and the position it reflects.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TranscriptSnapshot {
    /// The last line that the rows reflect.
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    pub cursor: Cursor,
    /// All rows, in order of birth.
    pub rows: Vec<TranscriptRow>,
}

/// A change of a transcript.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum TranscriptDelta {
    /// A new last row.
    Append {
        /// The row.
        row: TranscriptRow,
    },
    /// A row replaced as a whole, addressed by its `id`.
    Patch {
        /// The row in its newest form.
        row: TranscriptRow,
    },
    /// A row removed. Reserved; nothing emits it today.
    Remove {
        /// The row.
        id: RowId,
    },
    /// Text that lengthens a row's `data.content.text`. Only in the text form of deltas.
    AppendText {
        /// The row.
        id: RowId,
        /// The length of the text before, in UTF-16 code units.
        offset: u64,
        /// What is added.
        text: String,
    },
}

/// When a row was born and when it last changed, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(value_type = Vec<Timestamp>))]
pub struct RowTimes(pub [Timestamp; 2]);

/// Row times by row id, beside the rows. A row whose lines precede the first known time has none.
pub type Times = BTreeMap<RowId, RowTimes>;
