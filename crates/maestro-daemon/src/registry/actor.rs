//! The task that owns the list of sessions and starts and buries their actors.

use crate::{
    account::AccountScope,
    registry::{
        CreateError, REQUESTS_MAX, Registry, Request,
        claims::{Claimed, Claims},
        health::SessionStanding,
        recovery::{Attempt, Recovery, Then, show_as_left},
        usage::SessionLedger,
    },
    session::{
        ActorEnd, Birth, SessionHandle, SessionHealth, StoredSession, Surroundings, Wish, spawn_parts,
    },
};
use maestro_protocol::{EndReason, RequestMark, Session, SessionId, Status};
use std::collections::{BTreeMap, BTreeSet};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
};

/// A session and, while it has one, the way to its actor.
struct Entry {
    stored: StoredSession,
    handle: Option<SessionHandle>,
    /// What was wrong with it when its last actor left.
    health: SessionHealth,
}

impl Entry {
    fn new(stored: StoredSession) -> Self {
        Self { stored, handle: None, health: SessionHealth::default() }
    }

    fn health(&self) -> SessionHealth {
        self.handle.as_ref().map_or_else(|| self.health.clone(), SessionHandle::health)
    }

    fn session(&self) -> Session {
        self.handle.as_ref().map_or_else(|| self.stored.session.clone(), SessionHandle::session)
    }
}

struct RegistryActor {
    around: Surroundings,
    entries: BTreeMap<SessionId, Entry>,
    actors: JoinSet<ActorEnd>,
    recovery: Recovery,
    claims: Claims,
    /// Who wants a session whose actor is just leaving.
    waiting: Vec<(SessionId, oneshot::Sender<Option<SessionHandle>>)>,
    shutting_down: bool,
}

/// Loads the sessions of the data directory and starts the registry. Sessions of a graceful shutdown are resumed in
/// the background, newest first.
pub(crate) fn start(
    around: Surroundings,
    stored: Vec<StoredSession>,
    marked: &BTreeSet<SessionId>,
) -> Registry {
    let (requests_tx, mut requests) = mpsc::channel(REQUESTS_MAX);
    let tasks = around.tasks.clone();
    let (stored, recovery) = Recovery::plan(&around, stored, marked);
    let now = around.sources.clock.now();
    let stored = stored.into_iter().map(|stored| stored.without_old_keys(now));
    let entries = stored.map(|stored| (stored.id(), Entry::new(stored))).collect();
    let registry = Registry { requests: requests_tx, around: around.clone() };
    let mut actor = RegistryActor {
        around,
        entries,
        actors: JoinSet::new(),
        recovery,
        claims: Claims::default(),
        waiting: Vec::new(),
        shutting_down: false,
    };
    tasks.spawn(async move {
        actor.recover_some();
        loop {
            tokio::select! {
                Some(ended) = actor.actors.join_next() => actor.on_actor_end(ended).await,
                request = requests.recv() => match request {
                    Some(request) => actor.on_request(request).await,
                    None => break,
                },
                () = actor.recovery.next_settled() => actor.recover_some(),
            }
        }
    });
    registry
}

impl RegistryActor {
    async fn on_request(&mut self, request: Request) {
        match request {
            Request::List { scope, reply } => tell(reply, self.list(&scope)),
            Request::Get { scope, id, reply } => {
                tell(reply, self.entry(&scope, id).map(Entry::session));
            }
            Request::Handle { scope, id, reply } => {
                if self.entry(&scope, id).is_some() {
                    self.on_handle(id, reply);
                } else {
                    tell(reply, None);
                }
            }
            Request::Standings { scope, reply } => tell(reply, self.standings(&scope)),
            Request::Ledgers { scope, reply } => tell(reply, self.ledgers(&scope)),
            Request::Claim { scope, request, reply } => self.on_claim(&scope, request, reply),
            Request::Release { scope, key } => self.claims.release(scope.email(), &key),
            Request::Adopt { stored, reply } => tell(reply, self.adopt(*stored)),
            Request::ShutDown { reply } => {
                self.shut_down().await;
                tell(reply, ());
            }
        }
    }

    /// A key that a session was made with is in that session's sidecar, so there is no other list of them.
    fn on_claim(&mut self, scope: &AccountScope, request: RequestMark, reply: oneshot::Sender<Claimed>) {
        let now = self.around.sources.clock.now();
        let mut own = self.entries.values().filter(|entry| entry.stored.session.owner == scope.email());
        let earlier = own.find_map(|entry| entry.stored.created.as_ref()?.answer_to(&request, now));
        match earlier {
            Some(Ok(session)) => tell(reply, Claimed::Done(Box::new(session))),
            Some(Err(_other_body)) => tell(reply, Claimed::OtherBody),
            None => self.claims.claim(scope.email(), request, reply),
        }
    }

    fn entry(&self, scope: &AccountScope, id: SessionId) -> Option<&Entry> {
        self.entries.get(&id).filter(|entry| entry.stored.session.owner == scope.email())
    }

    fn standings(&self, scope: &AccountScope) -> Vec<SessionStanding> {
        let own = self.entries.values().filter(|entry| entry.stored.session.owner == scope.email());
        let standing = |entry: &Entry| {
            let (session, health) = (entry.session(), entry.health());
            SessionStanding { id: session.id, status: session.status, health }
        };
        own.map(standing).collect()
    }

    fn ledgers(&self, scope: &AccountScope) -> Vec<SessionLedger> {
        let own = self.entries.values().filter(|entry| entry.stored.session.owner == scope.email());
        let ledger = |entry: &Entry| {
            let stored = || entry.stored.ledger.clone();
            SessionLedger {
                id: entry.stored.id(),
                agent: entry.stored.session.agent.clone(),
                ledger: entry.handle.as_ref().map_or_else(stored, SessionHandle::ledger),
            }
        };
        own.map(ledger).collect()
    }

    fn list(&self, scope: &AccountScope) -> Vec<Session> {
        let own = self.entries.values().filter(|entry| entry.stored.session.owner == scope.email());
        let mut sessions: Vec<Session> = own.map(Entry::session).collect();
        sessions.sort_by_key(|session| std::cmp::Reverse((session.created_at, session.id)));
        sessions
    }

    /// Answers with the handle of a known session, whose actor is started if it has none. One that is just leaving is
    /// waited for: a session's files have one owner at a time.
    fn on_handle(&mut self, id: SessionId, reply: oneshot::Sender<Option<SessionHandle>>) {
        match self.entries.get(&id).and_then(|entry| entry.handle.clone()) {
            Some(handle) if handle.is_closed() => self.waiting.push((id, reply)),
            Some(handle) => tell(reply, Some(handle)),
            None => tell(reply, self.start_asked(id)),
        }
    }

    /// Starts the actor of a session that somebody asks for. One that waits for its recovery is recovered now: it has
    /// one actor, whatever it was started for.
    fn start_asked(&mut self, id: SessionId) -> Option<SessionHandle> {
        if self.shutting_down {
            return None;
        }
        let Some(attempt) = self.recovery.take(id) else { return self.start_actor(id, None) };
        self.attempt(attempt)
    }

    /// Begins a recovery. One that must not be made is a death that says why.
    fn attempt(&mut self, Attempt { id, then }: Attempt) -> Option<SessionHandle> {
        let wish = match then {
            Then::Resume => Some(Wish::Recover),
            Then::Mend => None,
            Then::Bury(detail) => {
                show_as_left(&mut self.entries.get_mut(&id)?.stored.session, &detail);
                None
            }
        };
        let handle = self.start_actor(id, wish)?;
        self.recovery.watch(handle.clone());
        Some(handle)
    }

    fn start_actor(&mut self, id: SessionId, start: Option<Wish>) -> Option<SessionHandle> {
        let entry = self.entries.get_mut(&id).filter(|_| !self.shutting_down)?;
        let stored = StoredSession { session: entry.session(), ..entry.stored.clone() };
        let (handle, work) = spawn_parts(Birth { around: self.around.clone(), stored, start });
        entry.handle = Some(handle.clone());
        self.actors.spawn(work);
        Some(handle)
    }

    fn adopt(&mut self, stored: StoredSession) -> Result<Session, CreateError> {
        if self.shutting_down {
            return Err(CreateError::ShuttingDown);
        }
        let id = stored.id();
        let session = stored.session.clone();
        if let Some(created) = &stored.created {
            self.claims.settle(&session, &created.request);
        }
        self.entries.insert(id, Entry::new(stored));
        // One whose agent is missing is dead already.
        if session.status == Status::Starting {
            self.start_actor(id, Some(Wish::First));
        }
        Ok(session)
    }

    async fn on_actor_end(&mut self, ended: Result<ActorEnd, tokio::task::JoinError>) {
        // The actors catch their panics and are aborted by nobody.
        let Ok(ActorEnd { id, stored }) = ended else { return };
        let Some(entry) = self.entries.get_mut(&id) else { return };
        entry.health = entry.health();
        // One that breaks off again on the same log is left alone then.
        let mends = stored.is_none() && entry.session().end_reason != Some(EndReason::DaemonCrash);
        if let Some(stored) = stored {
            entry.stored = *stored;
        } else {
            tracing::error!(session.id = %id, "Session `{id}` is dead: its actor broke off");
            entry.stored.session = Session {
                status: Status::Dead,
                activity: None,
                end_reason: Some(EndReason::DaemonCrash),
                activity_detail: Some("an internal error ended this session; restart it to go on".into()),
                ..entry.session()
            };
            let (logs, copy) = (self.around.logs.clone(), entry.stored.clone());
            let written = tokio::task::spawn_blocking(move || logs.write_sidecar(id, &copy)).await;
            if let Ok(Err(error)) = written {
                let told = crate::report::chain(&error);
                tracing::error!(session.id = %id, "The sidecar of session `{id}` could not be stored: {told}");
            }
        }
        entry.handle = None;
        if mends {
            self.mend(id);
        }
        let waiting = std::mem::take(&mut self.waiting);
        for (wanted, reply) in waiting {
            if wanted == id {
                self.on_handle(id, reply);
            } else {
                self.waiting.push((wanted, reply));
            }
        }
    }

    /// Closes what an actor that broke off left open in the log.
    fn mend(&mut self, id: SessionId) {
        if let Some(handle) = self.start_actor(id, None) {
            self.recovery.watch(handle);
        }
    }

    /// Begins what may be begun. Not any more during a shutdown: what waits keeps its marker for the next daemon.
    fn recover_some(&mut self) {
        if self.shutting_down {
            return;
        }
        while let Some(attempt) = self.recovery.take_next() {
            self.attempt(attempt);
        }
    }

    /// Ends all sessions at once and waits for them.
    async fn shut_down(&mut self) {
        self.shutting_down = true;
        let handles: Vec<SessionHandle> =
            self.entries.values().filter_map(|entry| entry.handle.clone()).collect();
        let stops = handles.iter().map(SessionHandle::shut_down);
        for stopped in futures_util::future::join_all(stops).await {
            if let Err(error) = stopped {
                tracing::debug!("A session had ended before the shutdown reached it: {error}");
            }
        }
        while let Some(ended) = self.actors.join_next().await {
            self.on_actor_end(ended).await;
        }
    }
}

/// Answers. That nobody listens any more is no failure: the client left.
fn tell<T>(reply: oneshot::Sender<T>, value: T) {
    if reply.send(value).is_err() {
        tracing::trace!("A client left before its answer came");
    }
}
