//! The pure folds from a session's event log to its transcript rows and reduced state.
//!
//! *Is*: [`Line`], one line of a log understood; [`StateFold`], everything but the rows, and which rows a line
//! touches; [`fold_row`], one row from the lines that touch it; [`Projection`], both together for live use;
//! [`page()`], a page of history from a log and its index; [`replay()`], the same folded anew.
//!
//! *Invariants*: the same lines give the same rows, state and deltas on every machine and after every restart; a
//! fold resumed from a serialised [`StateFold`] goes on as if it had never stopped; a snapshot with later deltas
//! equals the later snapshot; no bytes make a fold panic; what an agent writes under `_meta.maestro` is never shown.
//!
//! *Not here*: clocks, files, randomness, sockets, live approvals and their nonces.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod fold;
mod line;
mod page;
mod projection;
mod replay;
mod row;
mod tool;
mod touch;

pub use fold::{Chosen, StateFold, Step};
pub use line::Line;
pub use page::{History, Link, PageError, page};
pub use projection::{Applied, Mark, Marks, Projection, RowChange, RowTexts, Standing, TextGrowth};
pub use replay::{MAX_EVENTS, PAGE_BYTES, Page, Window, replay};
pub use row::fold_row;
pub use touch::{Action, DeltaForm, Touch};
