//! Who is at the other end of a connection of the Unix socket (CONTRACT §11.2).

use super::{
    caller::{Caller, Via},
    problem::ApiError,
};
use crate::account::AccountScope;
use axum::{extract::FromRequestParts, http::request::Parts};
use maestro_process::lineage::{self, Lineage};
use maestro_protocol::ProblemCode;
use std::{convert::Infallible, io, sync::Arc};
use tokio::{net::UnixStream, sync::OwnedSemaphorePermit};

/// The peer of one connection, judged once, when the connection was accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Peer {
    /// Somebody with an account here.
    Known(Caller),
    /// Anybody else: nothing.
    Stranger,
}

impl Peer {
    pub(super) fn caller(&self) -> Option<&Caller> {
        match self {
            Self::Known(caller) => Some(caller),
            Self::Stranger => None,
        }
    }
}

/// The places that a connection takes up, held until the connection and its socket are over.
#[derive(Debug, Clone, Default)]
pub(super) struct Places {
    _held: Arc<Vec<OwnedSemaphorePermit>>,
}

impl Places {
    pub(super) fn new(places: Vec<OwnedSemaphorePermit>) -> Self {
        Self { _held: Arc::new(places) }
    }
}

impl<S: Sync> FromRequestParts<S> for Places {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or_default())
    }
}

/// Whose process the peer is. The own user is the owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum User {
    Own(u32),
    Other,
}

fn judge(user: User, lineage: Lineage) -> Peer {
    let User::Own(uid) = user else { return Peer::Stranger };
    let (owner, via) = (AccountScope::owner(), Via::UnixSocket { uid });
    Peer::Known(match lineage {
        Lineage::Person => Caller::person(owner, via),
        Lineage::Agent { session } => Caller::agent(owner, session, via),
    })
}

/// Looks at the peer's credentials, as the kernel noted them at connect, and at its ancestors. Reads `/proc`, so it may
/// block for a moment. A peer that cannot be looked at is the lesser of what it may be.
pub(super) fn inspect(stream: &UnixStream) -> Peer {
    let own = rustix::process::geteuid().as_raw();
    if !stream.peer_cred().is_ok_and(|credentials| credentials.uid() == own) {
        return judge(User::Other, Lineage::Person);
    }
    judge(User::Own(own), lineage::of_peer(stream).unwrap_or_else(|error| unknown(&error)))
}

fn unknown(error: &io::Error) -> Lineage {
    tracing::warn!(%error, "a peer's ancestors cannot be looked at: it counts as an agent");
    Lineage::Agent { session: None }
}

/// What an unknown peer is told.
pub(super) fn stranger() -> ApiError {
    let detail = "only the Unix user that runs the daemon may use it";
    ApiError::new(ProblemCode::UnknownPeer, detail)
}

#[cfg(test)]
mod tests {
    use super::{Peer, User, judge};
    use crate::{
        account::AccountScope,
        server::caller::{Caller, Via},
    };
    use maestro_process::lineage::Lineage;

    #[test]
    fn a_peer_is_judged_by_user_then_by_ancestry() {
        let agent = Lineage::Agent { session: None };
        let (owner, via) = (AccountScope::owner(), Via::UnixSocket { uid: 7 });
        let check = |user, lineage, expect: Peer| assert_eq!(judge(user, lineage), expect);
        check(User::Own(7), Lineage::Person, Peer::Known(Caller::person(owner.clone(), via)));
        check(User::Own(7), agent, Peer::Known(Caller::agent(owner, None, via)));
        check(User::Other, Lineage::Person, Peer::Stranger);
        check(User::Other, agent, Peer::Stranger);
    }
}
