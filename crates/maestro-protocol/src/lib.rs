//! The wire and the stored line: every type that crosses a process border or reaches the disk.
//!
//! *Is*: ids, sessions, transcript rows, deltas, reduced state, socket frames, request bodies, problem
//! documents, and the `maestroEvent` envelopes of the event log, with their serde forms.
//!
//! *Invariants*: a stored line that was ever written stays readable; integers stay below 2^53; tagged unions
//! are internally tagged and no state key is called `type`; times are RFC 3339 in UTC.
//!
//! *Not here*: behaviour, clocks, randomness, files, sockets, and the types of ACP (an agent's JSON travels as
//! [`serde_json::Value`]).
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod agent;
mod audit;
mod frame;
mod health;
mod hunk;
mod id;
pub mod json;
mod line;
mod problem;
mod queue;
mod request;
mod scope;
mod session;
mod state;
mod state_patch;
mod time;
mod transcript;
mod usage;

pub use agent::{AgentInfo, AgentList};
pub use audit::{AuditEntry, AuditEvent, AuditPage, AuditQuery};
pub use frame::{Frame, ReplayEvent, ReplayPage, TextFrame};
pub use health::{DiskSpace, Health, HealthStatus, SessionCounts, Trouble, TroubleKind};
pub use hunk::{DiffBlock, Hunk, HunkLine, HunkLineKind, Omitted, RowHunks};
pub use id::{AgentKey, Cursor, InvalidId, Nonce, QueueItemId, RowId, SessionId};
pub use line::{
    ApprovalLine, ApprovalOutcome, ApprovalResolvedLine, ClockLine, Envelope, NoticeLine, NoticeReason,
    OutcomeCause, OutcomeKind, SessionLine, SessionLineEvent, SummaryLine, TurnLine,
};
pub use problem::{Problem, ProblemCode};
pub use queue::{Author, EditQueueItem, Queue, QueueHold, QueueItem, QueuePreview, QueueState, RequestMark};
pub use request::{
    ApprovalAnswer, ConfigValue, CreateSession, Decision, Deltas, PromptBody, RenameSession, ReplayQuery,
    SessionList, SetConfig, SetMode, SetModel, WatchQuery,
};
pub use scope::Scope;
pub use session::{Activity, Cost, EndReason, Session, Status, Usage, View};
pub use state::{
    Command, ContextWindow, LastEnd, ModeState, ModelState, Origin, PendingApproval, PermissionOption,
    PermissionOptionKind, ReducedState, StateKey, TurnState,
};
pub use state_patch::StatePatch;
pub use time::Timestamp;
pub use transcript::{
    RowTimes, Times, TranscriptDelta, TranscriptRow, TranscriptRowKind, TranscriptSnapshot,
};
pub use usage::{Day, DayUsage, InvalidDay, Spending, Tokens, UsageQuery, UsageReport};
