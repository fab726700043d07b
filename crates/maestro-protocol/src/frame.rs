use crate::{Cursor, ReducedState, Times, TranscriptDelta, TranscriptRow};
use serde::{Deserialize, Serialize};

/// What the daemon sends on `WS /api/structured/{id}`: one `TranscriptSnapshot`, one `ReducedState` of the same
/// cursor, then a `ProjectionUpdate` for everything that happens next (CONTRACT §6.3). A client sends nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum Frame {
    /// The whole transcript.
    TranscriptSnapshot {
        /// The last line that the rows reflect.
        #[cfg_attr(feature = "schema", schema(value_type = u64))]
        cursor: Cursor,
        /// All rows, in order of birth.
        rows: Vec<TranscriptRow>,
        /// Times of the rows.
        #[cfg_attr(feature = "schema", schema(value_type = std::collections::BTreeMap<String, crate::RowTimes>))]
        times: Times,
    },
    /// The whole state.
    ReducedState {
        /// At the cursor of the frame before.
        state: ReducedState,
    },
    /// What changed. May cover many lines.
    ProjectionUpdate {
        /// The last line covered.
        #[cfg_attr(feature = "schema", schema(value_type = u64))]
        cursor: Cursor,
        /// One delta per row changed since the frame before, in its newest form.
        transcript: Vec<TranscriptDelta>,
        /// The state at `cursor`.
        state: ReducedState,
        /// Times of the changed rows.
        #[cfg_attr(feature = "schema", schema(value_type = std::collections::BTreeMap<String, crate::RowTimes>))]
        times: Times,
    },
}

/// One line of a log as it changed the projections.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ReplayEvent {
    /// The line.
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    pub cursor: Cursor,
    /// What it changed; empty for lines that make no row.
    pub transcript: Vec<TranscriptDelta>,
    /// The state at exactly this line; `pending_approval` is `null`.
    pub state: ReducedState,
}

/// A page of replay events, ascending (CONTRACT §6.4).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ReplayPage {
    /// The events. Malformed lines have none, so cursors may skip.
    pub events: Vec<ReplayEvent>,
    /// Pass as `since` for the page after this one; `null` at the end of the log.
    #[cfg_attr(feature = "schema", schema(value_type = Option<u64>, required = true))]
    pub next: Option<Cursor>,
    /// Pass as `before` for the page before this one; `null` at the start of the log.
    #[cfg_attr(feature = "schema", schema(value_type = Option<u64>, required = true))]
    pub prev: Option<Cursor>,
}
