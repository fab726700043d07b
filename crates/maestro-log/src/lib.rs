//! What maestro keeps on disk: the data directory and its lock, each session's event log with its index, sidecar and
//! recover marker, and the one thread that makes appended lines durable.
//!
//! *Is*: [`DataDir`] and [`DataLock`]; [`LogDir`], the door to the files of sessions; [`SessionLog`], the one writer of
//! a log; [`LogReader`], for replay; [`Committer`] and [`Ticket`], for lines that must survive a loss of power.
//!
//! *Invariants*: the log is the only truth, its index is derived and never fails it; a line that is in the log keeps its
//! position for ever; two lines are never fused and no reader sees part of a line (CONTRACT §5.3, §5.4); a flush that
//! failed is never reported as a success later; paths are made from [`SessionId`](maestro_protocol::SessionId)s only;
//! files are 0600 and directories 0700. Calls block on the disk; nothing here needs an executor.
//!
//! *Not here*: what a line means, clocks, agents, sockets, and the decision what to do about a failure.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod committer;
mod data_dir;
mod files;
mod index;
mod log;
mod log_dir;
mod reader;
mod sidecar;

pub use committer::{Committer, Poisoned, StartCommitterError, Ticket};
pub use data_dir::{DataDir, DataDirError, DataLock, DirectoryId, LockError};
pub use index::{IndexError, IndexLine, IndexState, IndexedLog, ReadIndexError, StoredTouch, Touch};
pub use log::{AppendError, OpenLogError, OpenReport, SessionLog};
pub use log_dir::{LogDir, LogDirError};
pub use reader::{Lines, LogReader, ReadLogError};
pub use sidecar::{MarkerError, SidecarError, Sidecars};
