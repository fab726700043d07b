use crate::{Cursor, ReducedState, StatePatch, Times, TranscriptDelta, TranscriptRow};
use serde::{Deserialize, Serialize};

/// What the daemon sends on `WS /api/structured/{id}`: one `TranscriptSnapshot`, one `ReducedState` of the same
/// cursor, then a `ProjectionUpdate` for everything that happens next (CONTRACT §6.3). A client sends nothing.
/// [`TextFrame`] has the form of `?deltas=text`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum Frame {
    /// The whole transcript, or its end where a tail was asked for.
    TranscriptSnapshot {
        /// The last line that the rows reflect.
        #[cfg_attr(feature = "schema", schema(value_type = u64))]
        cursor: Cursor,
        /// All rows, or the last ones, in order of birth.
        rows: Vec<TranscriptRow>,
        /// Times of the rows.
        #[cfg_attr(feature = "schema", schema(value_type = std::collections::BTreeMap<String, crate::RowTimes>))]
        times: Times,
        /// Whether there are rows before these. Absent means no.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        older: bool,
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

/// A [`Frame`] in the form of `?deltas=text` (CONTRACT §6.3): an update tells of text that only became longer what was
/// added, and of the state the keys that changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum TextFrame {
    /// The whole transcript, or its end where a tail was asked for.
    TranscriptSnapshot {
        /// The last line that the rows reflect.
        #[cfg_attr(feature = "schema", schema(value_type = u64))]
        cursor: Cursor,
        /// All rows, or the last ones, in order of birth.
        rows: Vec<TranscriptRow>,
        /// Times of the rows.
        #[cfg_attr(feature = "schema", schema(value_type = std::collections::BTreeMap<String, crate::RowTimes>))]
        times: Times,
        /// Whether there are rows before these. Absent means no.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        older: bool,
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
        /// One delta per row changed since the frame before: `AppendText` with all that was added, where its text only
        /// became longer, else the row in its newest form.
        transcript: Vec<TranscriptDelta>,
        /// The keys of the state that changed since the frame before.
        state: StatePatch,
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
