//! On whose behalf a handler works, and by which way the request came (CONTRACT §11.2).

use super::{peer::stranger, problem::ApiError};
use crate::account::AccountScope;
use axum::{extract::FromRequestParts, http::request::Parts};
use maestro_protocol::{Scope, SessionId};
use std::fmt;

/// Somebody with an account here. Whoever has none is no caller, and reaches no handler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Caller {
    /// Whose things it is about.
    pub(super) account: AccountScope,
    scope: Scope,
    /// The session of an agent, if it is known.
    own_session: Option<SessionId>,
    via: Via,
}

/// How a caller proved who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Via {
    /// By the credentials that the kernel noted when it connected to the Unix socket.
    UnixSocket {
        /// The user id of the process.
        uid: u32,
    },
}

impl fmt::Display for Via {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnixSocket { uid } => write!(f, "the Unix socket, user {uid}"),
        }
    }
}

impl Caller {
    pub(super) fn person(account: AccountScope, via: Via) -> Self {
        Self { account, scope: Scope::Person, own_session: None, via }
    }

    /// A program below the agent of `session`, or below one that cannot be told.
    pub(super) fn agent(account: AccountScope, session: Option<SessionId>, via: Via) -> Self {
        Self { account, scope: Scope::Agent, own_session: session, via }
    }

    pub(super) fn scope(&self) -> Scope {
        self.scope
    }

    /// The session of an agent, if it is known.
    pub(super) fn own_session(&self) -> Option<SessionId> {
        self.own_session
    }

    pub(super) fn via(&self) -> Via {
        self.via
    }

    /// Whether it may look at this session of its account.
    pub(super) fn may_see(&self, id: SessionId) -> bool {
        match self.scope {
            Scope::Person => true,
            Scope::Agent => self.own_session == Some(id),
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        parts.extensions.get::<Self>().cloned().ok_or_else(stranger)
    }
}

#[cfg(test)]
mod tests {
    use super::{Caller, Via};
    use crate::account::AccountScope;
    use maestro_protocol::SessionId;
    use uuid::Uuid;

    #[test]
    fn an_agent_sees_its_own_session_only() {
        let [own, other] = [1, 2].map(|n| SessionId::from_uuid(Uuid::from_u128(n)));
        let via = Via::UnixSocket { uid: 1 };
        let check = |caller: &Caller, expect: [bool; 2]| {
            assert_eq!([own, other].map(|id| caller.may_see(id)), expect, "{caller:?}");
        };
        check(&Caller::person(AccountScope::owner(), via), [true, true]);
        check(&Caller::agent(AccountScope::owner(), Some(own), via), [true, false]);
        check(&Caller::agent(AccountScope::owner(), None, via), [false, false]);
    }
}
