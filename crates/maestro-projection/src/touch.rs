use maestro_protocol::RowId;
use serde::{Deserialize, Serialize};

/// A row that a line touches, and what the line does to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Touch {
    /// The row, which may not exist yet.
    pub row_id: RowId,
    /// What to do.
    pub action: Action,
}

/// What a line does to a row. With the line itself this is all that [`crate::fold_row`] needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Appends the chunk's text, or begins the row with it.
    Text,
    /// Begins a row with a block that is not text.
    Block,
    /// Begins the row of a person's prompt, which the daemon wrote.
    Prompt,
    /// Merges into a tool call's row.
    Tool,
    /// Marks an open tool call as interrupted.
    Settle,
    /// Replaces the plan.
    Plan,
    /// Begins an approval.
    Approval,
    /// Adds an approval's outcome.
    Outcome,
    /// Begins a notice.
    Notice,
}

impl Action {
    /// Whether the row after it does not depend on the row before it.
    pub(crate) fn is_whole(self) -> bool {
        match self {
            Self::Block | Self::Prompt | Self::Plan | Self::Approval | Self::Notice => true,
            Self::Text | Self::Tool | Self::Settle | Self::Outcome => false,
        }
    }

    /// The action as one byte, for an index.
    pub fn to_byte(self) -> u8 {
        match self {
            Self::Text => 1,
            Self::Block => 2,
            Self::Prompt => 3,
            Self::Tool => 4,
            Self::Settle => 5,
            Self::Plan => 6,
            Self::Approval => 7,
            Self::Outcome => 8,
            Self::Notice => 9,
        }
    }

    /// The action of this byte.
    pub fn from_byte(byte: u8) -> Option<Self> {
        let all = [
            Self::Text,
            Self::Block,
            Self::Prompt,
            Self::Tool,
            Self::Settle,
            Self::Plan,
            Self::Approval,
            Self::Outcome,
            Self::Notice,
        ];
        all.into_iter().find(|action| action.to_byte() == byte)
    }
}

/// How changes of rows are told (CONTRACT §6.5).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DeltaForm {
    /// Every change of a row is a `Patch` with the whole row.
    #[default]
    Plain,
    /// A change that only lengthened text is an `AppendText`.
    Text,
}
