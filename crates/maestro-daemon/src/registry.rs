//! Which sessions there are. The registry's actor owns the one list; everybody else asks it.

mod actor;
mod claims;
mod creation;
mod health;
mod recovery;
mod usage;

use crate::{
    account::AccountScope,
    session::{SessionError, SessionHandle, StoredQueue, StoredSession, Surroundings},
};
use claims::Claimed;
use maestro_protocol::{AgentList, AuditEvent, CreateSession, RequestMark, Session, SessionId};
use serde_json::Value;
use std::fmt;
use tokio::sync::{mpsc, oneshot};

pub(crate) use actor::start;
pub(crate) use health::DaemonFacts;

/// Requests that may wait for the registry. It answers from memory, so only a stuck disk at a creation fills this;
/// callers then wait.
const REQUESTS_MAX: usize = 256;

/// Why no session was created. Nothing was left behind.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CreateError {
    #[error("no agent is called `{agent}`: choose one of {known}")]
    UnknownAgent { agent: String, known: String },
    #[error("`{cwd}` is not an absolute path of a directory that exists")]
    InvalidCwd { cwd: String },
    #[error("the session could not be stored")]
    Store {
        #[source]
        source: maestro_log::SidecarError,
    },
    #[error("the daemon is shutting down")]
    ShuttingDown,
    #[error("this `Idempotency-Key` belongs to an earlier request with another body: take a new one")]
    KeyReused,
}

/// What a session is to be made of.
#[derive(Debug)]
pub(crate) struct NewSession {
    pub(crate) wish: CreateSession,
    /// The first message of its queue.
    pub(crate) prompt: Option<Vec<Value>>,
    /// Which client wishes it.
    pub(crate) client: String,
    /// The request, where it can be retried.
    pub(crate) request: Option<RequestMark>,
}

/// What is asked of the registry.
enum Request {
    List {
        scope: AccountScope,
        reply: oneshot::Sender<Vec<Session>>,
    },
    Get {
        scope: AccountScope,
        id: SessionId,
        reply: oneshot::Sender<Option<Session>>,
    },
    Handle {
        scope: AccountScope,
        id: SessionId,
        reply: oneshot::Sender<Option<SessionHandle>>,
    },
    /// How each session of the account is.
    Standings {
        scope: AccountScope,
        reply: oneshot::Sender<Vec<health::SessionStanding>>,
    },
    /// What each session of the account spent.
    Ledgers {
        scope: AccountScope,
        reply: oneshot::Sender<Vec<usage::SessionLedger>>,
    },
    /// Ask whether a creation is the retry of an earlier one. Whoever is told that it is not has the key until the
    /// session is adopted or the key released; others with it wait until then.
    Claim {
        scope: AccountScope,
        request: RequestMark,
        reply: oneshot::Sender<Claimed>,
    },
    /// Give a claimed key back: no session came of it.
    Release {
        scope: AccountScope,
        key: String,
    },
    /// Take in a new session, whose sidecar is stored, and begin to start its agent.
    Adopt {
        stored: Box<StoredSession>,
        reply: oneshot::Sender<Result<Session, CreateError>>,
    },
    ShutDown {
        reply: oneshot::Sender<()>,
    },
}

/// Asks the registry. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Registry {
    requests: mpsc::Sender<Request>,
    around: Surroundings,
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").finish_non_exhaustive()
    }
}

impl Registry {
    /// The account's sessions, newest first.
    pub(crate) async fn list(&self, scope: &AccountScope) -> Result<Vec<Session>, SessionError> {
        let scope = scope.clone();
        self.ask(|reply| Request::List { scope, reply }).await
    }

    /// One session; `None` for an unknown and for a foreign one alike.
    pub(crate) async fn get(
        &self,
        scope: &AccountScope,
        id: SessionId,
    ) -> Result<Option<Session>, SessionError> {
        let scope = scope.clone();
        self.ask(|reply| Request::Get { scope, id, reply }).await
    }

    /// The handle of a session, whose owner is started if it is not there; `None` as in [`Registry::get`].
    pub(crate) async fn handle(
        &self,
        scope: &AccountScope,
        id: SessionId,
    ) -> Result<Option<SessionHandle>, SessionError> {
        let scope = scope.clone();
        self.ask(|reply| Request::Handle { scope, id, reply }).await
    }

    /// Creates a session and begins to start its agent; a retry gets the session that the first try made.
    pub(crate) async fn create(&self, scope: &AccountScope, new: NewSession) -> Result<Session, CreateError> {
        let (registry, scope) = (self.clone(), scope.clone());
        // A task of its own: a client that leaves now must not leave a stored session that nobody knows, nor a key that
        // nobody gives back.
        let creating = self.around.tasks.spawn(async move { registry.create_once(&scope, new).await });
        creating.await.unwrap_or(Err(CreateError::ShuttingDown))
    }

    async fn create_once(&self, scope: &AccountScope, new: NewSession) -> Result<Session, CreateError> {
        let Some(request) = new.request.clone() else { return self.create_new(scope, new).await };
        let key = request.key.clone();
        let claim = |reply| Request::Claim { scope: scope.clone(), request, reply };
        match self.ask(claim).await.map_err(|_gone| CreateError::ShuttingDown)? {
            Claimed::Done(session) => return Ok(*session),
            Claimed::OtherBody => return Err(CreateError::KeyReused),
            Claimed::Yours => {}
        }
        let created = self.create_new(scope, new).await;
        if created.is_err() {
            // An error means that the registry is gone, and with it every claim.
            drop(self.requests.send(Request::Release { scope: scope.clone(), key }).await);
        }
        created
    }

    async fn create_new(&self, scope: &AccountScope, new: NewSession) -> Result<Session, CreateError> {
        let client = new.client.clone();
        let (stored, queue) = creation::new_session(&self.around, scope, new)?;
        let session = self.store_and_adopt(stored, queue).await?;
        let (agent, cwd) = (session.agent.clone(), session.cwd.clone());
        let event = AuditEvent::SessionCreated { session: session.id, agent, cwd, client };
        self.around.audit.note(scope.email(), event);
        Ok(session)
    }

    async fn store_and_adopt(
        &self,
        stored: StoredSession,
        queue: Option<StoredQueue>,
    ) -> Result<Session, CreateError> {
        let (logs, id, copy) = (self.around.logs.clone(), stored.id(), stored.clone());
        let written = tokio::task::spawn_blocking(move || {
            // The queue first: with its sidecar the session is there, and whole.
            queue.map_or(Ok(()), |queue| logs.write_queue(id, &queue))?;
            logs.write_sidecar(id, &copy)
        });
        let written = written.await;
        written
            .map_err(|_panicked_or_cancelled| CreateError::ShuttingDown)?
            .map_err(|source| CreateError::Store { source })?;
        let stored = Box::new(stored);
        let adopted = self
            .ask(|reply| Request::Adopt { stored, reply })
            .await
            .unwrap_or(Err(CreateError::ShuttingDown));
        if adopted.is_err()
            && let Err(error) = self.around.logs.remove(id)
        {
            let told = crate::report::chain(&error);
            tracing::error!(session.id = %id, "The refused session `{id}` could not be removed: {told}");
        }
        adopted
    }

    /// The agent table, with what is missing.
    pub(crate) async fn agents(&self) -> AgentList {
        let agents = self.around.agents.clone();
        tokio::task::spawn_blocking(move || agents.list()).await.unwrap_or(AgentList { agents: Vec::new() })
    }

    /// Ends every session for a shutdown. Nothing is created afterwards.
    pub(crate) async fn shut_down(&self) {
        // An error means that the registry is gone, and with it all sessions.
        drop(self.ask(|reply| Request::ShutDown { reply }).await);
    }

    async fn ask<T>(&self, request: impl FnOnce(oneshot::Sender<T>) -> Request) -> Result<T, SessionError> {
        let (reply, answer) = oneshot::channel();
        if self.requests.send(request(reply)).await.is_err() {
            return Err(SessionError::Busy);
        }
        answer.await.map_err(|_gone| SessionError::Busy)
    }
}
