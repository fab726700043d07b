//! Who is at the other end of a connection (CONTRACT §11.2).

use crate::account::AccountScope;
use axum::{extract::FromRequestParts, http::request::Parts};
use maestro_process::lineage;
use maestro_protocol::ProblemCode;
use std::{io, sync::Arc};
use tokio::{net::UnixStream, sync::OwnedSemaphorePermit};

use super::problem::ApiError;

/// What a peer may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The daemon's own Unix user: the owner's account, all of it.
    Owner,
    /// The owner's user, but below an agent: it may read and decides nothing.
    Agent,
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

/// What is known of a peer, before it is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Evidence {
    pub(super) own_uid: bool,
    pub(super) below_agent: bool,
}

pub(super) fn judge(evidence: Evidence) -> Standing {
    match evidence {
        Evidence { own_uid: false, .. } => Standing::Stranger,
        Evidence { own_uid: true, below_agent: true } => Standing::Agent,
        Evidence { own_uid: true, below_agent: false } => Standing::Owner,
    }
}

/// Looks at the peer's credentials, as the kernel noted them at connect, and at its ancestors. Reads `/proc`, so it may
/// block for a moment. A peer that cannot be looked at is the lesser of what it may be.
pub(super) fn inspect(stream: &UnixStream) -> Standing {
    let own = rustix::process::geteuid().as_raw();
    let own_uid = stream.peer_cred().is_ok_and(|credentials| credentials.uid() == own);
    let below_agent = own_uid && lineage::peer_is_agent(stream).unwrap_or_else(|error| unknown(&error));
    judge(Evidence { own_uid, below_agent })
}

fn unknown(error: &io::Error) -> bool {
    tracing::warn!(%error, "a peer's ancestors cannot be looked at: it may only read");
    true
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

/// What an unknown peer is told.
pub(super) fn stranger() -> ApiError {
    let detail = "only the Unix user that runs the daemon may use it";
    ApiError::new(ProblemCode::UnknownPeer, detail)
}

#[cfg(test)]
mod tests {
    use super::{Evidence, Standing, judge};

    #[test]
    fn a_peer_is_judged_by_user_then_by_ancestry() {
        let check = |own_uid, below_agent, expect| {
            assert_eq!(judge(Evidence { own_uid, below_agent }), expect);
        };
        check(true, false, Standing::Owner);
        check(true, true, Standing::Agent);
        check(false, false, Standing::Stranger);
        check(false, true, Standing::Stranger);
    }
}
