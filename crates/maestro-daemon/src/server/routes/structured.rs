//! The structured side of a session: prompts, approvals, history, and the socket.

pub(super) mod cancel;
pub(super) mod decide;
pub(super) mod hunks;
pub(super) mod prompt;
pub(super) mod replay;
pub(super) mod settings;
pub(super) mod watch;
