use crate::{Cursor, RowId};
use serde::{Deserialize, Serialize};

/// The changes of a `ToolDiff` row as unified hunks (CONTRACT §6.6).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RowHunks {
    /// The row.
    pub row_id: RowId,
    /// The last line that it reflects.
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    pub cursor: Cursor,
    /// One for each block of type `diff` in its content, in their order.
    pub diffs: Vec<DiffBlock>,
}

/// The change of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct DiffBlock {
    /// The file, as the agent names it.
    pub path: String,
    /// Whether the agent gave no text from before: the file is new.
    pub is_new: bool,
    /// Why there are no hunks of a change that there is; `null` if nothing is left out.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub omitted: Option<Omitted>,
    /// What changed, from the top of the file to its end.
    pub hunks: Vec<Hunk>,
}

/// Why a change is not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum Omitted {
    /// The texts before and after are longer than 2 MiB together. The row has them.
    TooLong,
    /// One of them holds a NUL, which no text does.
    Binary,
}

/// Lines that changed, and three around them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Hunk {
    /// The first line in the text before, from 1; the line above the change where `old_lines` is 0.
    pub old_start: u64,
    /// How many lines of the text before it covers.
    pub old_lines: u64,
    /// The first line in the text after, as `old_start`.
    pub new_start: u64,
    /// How many lines of the text after it covers.
    pub new_lines: u64,
    /// The lines, those that were deleted before those that were put in their place.
    pub lines: Vec<HunkLine>,
}

/// One line of a hunk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct HunkLine {
    /// What happened to it.
    pub kind: HunkLineKind,
    /// Its text without its newline; a carriage return stays.
    pub text: String,
    /// Whether it ends its text without a newline. Absent means no.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_newline: bool,
}

/// What happened to a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum HunkLineKind {
    /// It is in both texts.
    Context,
    /// It is in the text before only.
    Delete,
    /// It is in the text after only.
    Insert,
}
