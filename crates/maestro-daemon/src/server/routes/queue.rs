//! The messages that wait for a session's turn.

pub(super) mod add;
pub(super) mod edit;
pub(super) mod read;
pub(super) mod remove;
pub(super) mod resume;

use crate::server::{app::PathTail, problem::ApiError};
use crate::session::SessionError;
use maestro_protocol::QueueItemId;

/// The message that the path names. Anything that is no id is no message.
fn item(PathTail(tail): &PathTail) -> Result<QueueItemId, ApiError> {
    tail.parse().map_err(|_no_id| SessionError::NoSuchItem.into())
}
