//! Who is at the other end of a connection (CONTRACT §11.2).

use crate::account::AccountScope;
use axum::{extract::FromRequestParts, http::request::Parts};
use maestro_process::lineage::{self, Lineage};
use maestro_protocol::{ProblemCode, SessionId};
use std::{io, sync::Arc};
use tokio::{net::UnixStream, sync::OwnedSemaphorePermit};

use super::problem::ApiError;

/// Who a peer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The daemon's own Unix user: the owner's account, all of it.
    Owner,
    /// The owner's user, but below an agent: it may look at its own session and decides nothing.
    Agent {
        /// Its session, if that is known.
        session: Option<SessionId>,
    },
    /// Another Unix user: nothing.
    Stranger,
}

/// The peer of one connection, judged once, when the connection was accepted.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    pub(super) standing: Standing,
    /// The places that the connection takes up, held until the connection and its socket are over.
    pub(super) _places: Arc<Vec<OwnedSemaphorePermit>>,
}

/// Whose process the peer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum User {
    Own,
    Other,
}

fn judge(user: User, lineage: Lineage) -> Standing {
    match (user, lineage) {
        (User::Other, _) => Standing::Stranger,
        (User::Own, Lineage::Agent { session }) => Standing::Agent { session },
        (User::Own, Lineage::Person) => Standing::Owner,
    }
}

/// Looks at the peer's credentials, as the kernel noted them at connect, and at its ancestors. Reads `/proc`, so it may
/// block for a moment. A peer that cannot be looked at is the lesser of what it may be.
pub(super) fn inspect(stream: &UnixStream) -> Standing {
    let own = rustix::process::geteuid().as_raw();
    if !stream.peer_cred().is_ok_and(|credentials| credentials.uid() == own) {
        return judge(User::Other, Lineage::Person);
    }
    judge(User::Own, lineage::of_peer(stream).unwrap_or_else(|error| unknown(&error)))
}

fn unknown(error: &io::Error) -> Lineage {
    tracing::warn!(%error, "a peer's ancestors cannot be looked at: it counts as an agent");
    Lineage::Agent { session: None }
}

/// On whose behalf a handler works.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    pub(super) scope: AccountScope,
    pub(super) peer: Peer,
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        let peer = parts.extensions.get::<Peer>().cloned().ok_or_else(stranger)?;
        Ok(Self { scope: AccountScope::owner(), peer })
    }
}

impl Caller {
    /// Whether it may look at this session of its account.
    pub(super) fn may_see(&self, id: SessionId) -> bool {
        match self.peer.standing {
            Standing::Owner => true,
            Standing::Agent { session } => session == Some(id),
            Standing::Stranger => false,
        }
    }
}

/// What an unknown peer is told.
pub(super) fn stranger() -> ApiError {
    let detail = "only the Unix user that runs the daemon may use it";
    ApiError::new(ProblemCode::UnknownPeer, detail)
}

#[cfg(test)]
mod tests {
    use super::{Standing, User, judge};
    use maestro_process::lineage::Lineage;

    #[test]
    fn a_peer_is_judged_by_user_then_by_ancestry() {
        let agent = Lineage::Agent { session: None };
        let check = |user, lineage, expect| assert_eq!(judge(user, lineage), expect);
        check(User::Own, Lineage::Person, Standing::Owner);
        check(User::Own, agent, Standing::Agent { session: None });
        check(User::Other, Lineage::Person, Standing::Stranger);
        check(User::Other, agent, Standing::Stranger);
    }
}
