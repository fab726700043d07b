//! The task that owns a session: child, log, projection, turn and approvals. Every effect is *append, then act*.

use crate::{
    agents::Agents,
    audit::Audit,
    clock::Sources,
    registry::DaemonFacts,
    session::{
        approvals::Approvals,
        commands::Ask,
        grace::Grace,
        handle::{
            COMMANDS_MAX, Command, LOOKS_MAX, Pulse, Reply, STOPS_MAX, SessionError, SessionHandle, StopWish,
            URGENT_MAX,
        },
        health::SessionHealth,
        journal::Journal,
        lanes::Lanes,
        noise::Noise,
        opening::open_journal,
        own_turns::OwnTurns,
        queue::{Next, Queue},
        queueing::ShownQueue,
        settings::Settings,
        start::Wish,
        starting::{Agent, StartOutcome},
        storage::Stall,
        stored::{Ledger, StoredSession},
        turn::Turn,
        unopened,
    },
};
use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesOrdered};
use maestro_acp::{Batch, Frame as AcpFrame, OutboxEnd, RawId};
use maestro_log::{DirectoryId, LogDir, Poisoned};
use maestro_process::{AgentExit, SpawnRecord, Spawner};
use maestro_protocol::{EndReason, QueueHold, Session, SessionId, Status};
use std::{collections::VecDeque, panic::AssertUnwindSafe, sync::Arc, time::Duration};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::Instant,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Commands taken after each batch of frames, so that a flooding agent cannot starve people; and questions of sockets
/// that are answered together.
const COMMANDS_PER_BATCH: usize = 8;

/// How long the actor of a dead session stays for the next command before it makes room.
pub(super) const DEAD_IDLE: Duration = Duration::from_secs(10);

/// How often what did not fit on the disk is tried again.
pub(super) const RETRY: Duration = Duration::from_millis(250);

/// What every session's actor uses of the daemon.
#[derive(Clone)]
pub(crate) struct Surroundings {
    pub(crate) sources: Sources,
    pub(crate) agents: Agents,
    pub(crate) logs: LogDir,
    pub(crate) directory: DirectoryId,
    pub(crate) spawner: Spawner,
    pub(crate) tasks: TaskTracker,
    pub(crate) daemon: Arc<DaemonFacts>,
    pub(crate) audit: Audit,
}

/// What waits for a flush of the log before it may be done.
pub(super) enum AfterFlush {
    /// Send the prompt of this claim to the agent and tell the person.
    Dispatch { claim: u64, ask: Ask, reply: Reply<()> },
    /// Answer the agent's permission request with the chosen option, or with `cancelled`, and tell the person.
    Answer { request: RawId, reply: Option<Reply<()>> },
    /// Tell the person.
    Tell(Reply<()>),
    /// Tell the person, with the session.
    TellSession(Reply<Session>),
    /// Tell the person, with the session as it was when its restart began.
    TellRestart { session: Box<Session>, reply: Reply<Session> },
}

/// Where the agent stands.
pub(super) enum Phase {
    Dead,
    Starting {
        /// Tells the identity of the process tree once it runs.
        spawned: Option<oneshot::Receiver<SpawnRecord>>,
        outcome: oneshot::Receiver<StartOutcome>,
        /// Makes the start end early, with nothing left behind.
        stop: CancellationToken,
    },
    Running(Box<Agent>),
}

/// Everything that may happen to a session. Closed: a new input makes the compiler show every place to think.
enum Input {
    Stop(StopWish),
    Frames(Option<Batch>),
    Exited(AgentExit),
    /// There is room for a message that waited for it.
    Room,
    Deaf(OutboxEnd),
    Spawned(Option<SpawnRecord>),
    Started(StartOutcome),
    Flushed(Result<(), Poisoned>, AfterFlush),
    GraceOver,
    /// The agent was silent for long in a turn of its own.
    Quiet,
    HushOver,
    SettingsOver,
    Retry,
    /// The agent may be read again after slow writes.
    Rested,
    Command(Box<Command>),
    /// A question of a socket, which changes nothing.
    Look(Box<Command>),
    IdleOver,
    /// Every handle is gone: the daemon ends.
    Abandoned,
}

/// Owns one session.
pub(crate) struct SessionActor {
    pub(super) around: Surroundings,
    pub(super) stored: StoredSession,
    pub(super) journal: Journal,
    pub(super) phase: Phase,
    pub(super) turn: Turn,
    pub(super) approvals: Approvals,
    /// The JSON-RPC id of the open prompt.
    pub(super) prompt_request: Option<u64>,
    /// Counts claimed turns, so that a flush that comes late belongs to its own turn.
    pub(super) claim: u64,
    pub(super) after_flush: FuturesOrdered<BoxFuture<'static, (Result<(), Poisoned>, AfterFlush)>>,
    /// Prompts that wait for a cancelled turn to settle.
    pub(super) held: VecDeque<(Ask, Reply<()>)>,
    /// The messages that wait; an error if their file cannot be read.
    pub(super) queue: Result<Queue, SessionError>,
    /// They, as others see them.
    pub(super) shown_queue: ShownQueue,
    /// When a cancelled turn that did not settle becomes a death.
    pub(super) grace: Option<Grace>,
    pub(super) own_turns: OwnTurns,
    pub(super) settings: Settings,
    /// Decisions in the log that the agent was not told yet: the request and its option, or none for `cancelled`.
    pub(super) deciding: Vec<(RawId, Option<String>)>,
    /// Frames that could not be written yet; while there are some, the agent is not read.
    pub(super) backlog: VecDeque<AcpFrame>,
    pub(super) noise: Noise,
    /// What is told of a log that takes no lines for now.
    pub(super) stall: Option<Stall>,
    /// When what waits for space is tried again. A moment and not a span, so that no stream of inputs puts it off.
    pub(super) retry_at: Option<Instant>,
    /// Whether the sidecar is older than the session, because it could not be stored.
    pub(super) is_unsaved: bool,
    pub(super) session: watch::Sender<Session>,
    pub(super) pulse: watch::Sender<Pulse>,
    pub(super) ledger: watch::Sender<Option<Arc<Ledger>>>,
    pub(super) health: watch::Sender<SessionHealth>,
    /// Whether the sidecar does not hold yet what was spent.
    pub(super) is_first_count: bool,
    lanes: Lanes,
}

/// What an actor starts from.
pub(crate) struct Birth {
    pub(crate) around: Surroundings,
    pub(crate) stored: StoredSession,
    /// How the agent is to be started first, if at all.
    pub(crate) start: Option<Wish>,
}

/// Makes a handle and the future that is its actor. The future ends when the session is dead and nobody asked for a
/// while, or when it was stopped for a shutdown; it returns the session as last stored.
pub(crate) fn spawn_parts(birth: Birth) -> (SessionHandle, impl Future<Output = ActorEnd> + Send + 'static) {
    let (commands_tx, commands) = mpsc::channel(COMMANDS_MAX);
    let (urgent_tx, urgent) = mpsc::channel(URGENT_MAX);
    let (looks_tx, looks) = mpsc::channel(LOOKS_MAX);
    let (stops_tx, stops) = mpsc::channel(STOPS_MAX);
    let mut shown = birth.stored.session.clone();
    if birth.start.is_some() {
        shown.status = Status::Starting;
        shown.end_reason = None;
        shown.activity_detail = None;
    }
    let (session, session_rx) = watch::channel(shown);
    let (pulse, pulse_rx) = watch::channel(Pulse::default());
    let (ledger, ledger_rx) = watch::channel(birth.stored.ledger.clone());
    let (health, health_rx) = watch::channel(SessionHealth::default());
    let handle = SessionHandle {
        commands: commands_tx,
        urgent: urgent_tx,
        looks: looks_tx,
        stops: stops_tx,
        session: session_rx,
        pulse: pulse_rx,
        ledger: ledger_rx,
        health: health_rx,
    };
    let lanes = Lanes { commands, urgent, looks, stops };
    (handle, run(birth, Shown { session, pulse, ledger, health }, lanes))
}

/// What others watch of an actor.
#[derive(Clone)]
pub(super) struct Shown {
    pub(super) session: watch::Sender<Session>,
    pub(super) pulse: watch::Sender<Pulse>,
    pub(super) ledger: watch::Sender<Option<Arc<Ledger>>>,
    pub(super) health: watch::Sender<SessionHealth>,
}

/// The end of an actor.
pub(crate) struct ActorEnd {
    pub(crate) id: SessionId,
    /// What the sidecar holds; `None` if the actor broke off.
    pub(crate) stored: Option<Box<StoredSession>>,
}

/// A panic is one dead session with its reason, and nothing else.
async fn run(birth: Birth, shown: Shown, lanes: Lanes) -> ActorEnd {
    let (id, pulse) = (birth.stored.id(), shown.pulse.clone());
    match AssertUnwindSafe(Box::pin(own(birth, shown, lanes))).catch_unwind().await {
        Ok(stored) => ActorEnd { id, stored: Some(stored) },
        Err(_panic) => {
            pulse.send_modify(|pulse| pulse.ended = Some(EndReason::DaemonCrash));
            ActorEnd { id, stored: None }
        }
    }
}

/// Owns the session until nobody asks any more; returns it as last stored. What is done once is boxed while it lasts.
async fn own(mut birth: Birth, shown: Shown, mut lanes: Lanes) -> Box<StoredSession> {
    let mut restart = None;
    loop {
        let error = match Box::pin(open_journal(&birth.around, &mut birth.stored)).await {
            Ok(journal) => {
                let mut actor = Box::pin(SessionActor::new(birth, journal, shown, lanes)).await;
                if let Some((request, reply)) = restart {
                    actor.on_restart(request, reply).await;
                    actor.publish().await;
                }
                actor.work().await;
                return Box::new(actor.stored);
            }
            Err(error) => error,
        };
        if let Some((_, reply)) = restart.take() {
            answer(reply, Err(SessionError::LogFailed { detail: crate::report::chain(&error) }));
        }
        match Box::pin(unopened::serve(&mut birth, &error, &shown, &mut lanes)).await {
            unopened::Next::Again(wish) => restart = wish,
            unopened::Next::Leave => return Box::new(birth.stored),
        }
    }
}

impl SessionActor {
    /// The owner of a session whose log is open, which begins to start the agent if that is wished.
    async fn new(birth: Birth, journal: Journal, shown: Shown, lanes: Lanes) -> Box<Self> {
        let Birth { around, mut stored, start } = birth;
        let Shown { session, pulse, ledger, health } = shown;
        let is_first_count = ledger.borrow().is_none();
        stored.session = session.borrow().clone();
        // What waits when a session comes back waits for a person, too; a new session's prompt is its first go.
        let held = (start != Some(Wish::First)).then_some(QueueHold::Ended);
        let sent = journal.projection().fold().sent_item();
        let queue = Box::pin(super::queueing::open(&around, stored.id(), sent, held)).await;
        let overlap = around.agents.overlap(&stored.session.agent);
        // On the heap from here on: else it would be a part of each future that it passes through.
        let mut actor = Box::new(Self {
            around,
            stored,
            journal,
            phase: Phase::Dead,
            turn: Turn::Dead,
            approvals: Approvals::new(overlap),
            prompt_request: None,
            claim: 0,
            after_flush: FuturesOrdered::new(),
            held: VecDeque::new(),
            queue,
            shown_queue: ShownQueue::default(),
            grace: None,
            own_turns: OwnTurns::none(Instant::now()),
            settings: Settings::default(),
            deciding: Vec::new(),
            backlog: VecDeque::new(),
            noise: Noise::default(),
            stall: None,
            retry_at: None,
            is_unsaved: false,
            session,
            pulse,
            ledger,
            health,
            is_first_count,
            lanes,
        });
        // What the log holds already is no news: a look at a session must not change when it was last updated.
        actor.journal.announce(&actor.pulse);
        actor.journal.take_changed();
        actor.take_from_log();
        if let Some(wish) = start {
            actor.begin_start(wish).await;
        } else {
            actor.pulse.send_modify(|pulse| pulse.ended = actor.stored.session.end_reason);
        }
        actor.publish().await;
        actor
    }

    /// Answers the sockets that ask now: of a session that streams to many they ask at the same time.
    async fn answer_looks(&mut self, first: Box<Command>) {
        self.on_command(*first).await;
        for _ in 1..COMMANDS_PER_BATCH {
            let Some(look) = self.lanes.next_look() else { return };
            self.on_command(*look).await;
        }
    }

    async fn work(&mut self) {
        loop {
            let go_on = match self.next_input().await {
                Input::Look(first) => {
                    self.answer_looks(first).await;
                    continue;
                }
                input => self.handle(input).await,
            };
            self.release_held().await;
            if matches!(self.next_of_queue(), Next::Store | Next::Send) {
                // Rare and large, as the commands about it.
                Box::pin(self.serve_queue()).await;
            }
            self.publish().await;
            if !go_on {
                self.give_up_owed();
                return;
            }
        }
    }

    /// Order of the arms: a stop beats everything; an agent's frames and exit keep their order among each other and
    /// beat timers, so that an answer that is already here beats the end of a grace; people come last and are served
    /// a share after every batch.
    async fn next_input(&mut self) -> Input {
        let stalled = self.is_stalled();
        let waits = stalled || self.is_unsaved || self.is_queue_stuck();
        let waits = waits || self.approvals.next_waiting().is_some();
        self.retry_at = waits.then(|| self.retry_at.unwrap_or_else(|| Instant::now() + RETRY));
        let idle = matches!(self.phase, Phase::Dead) && !waits;
        // A grace does not run while the agent is not read.
        let grace = self.grace.filter(|_| !stalled).map(|grace| grace.deadline());
        let rest = self.journal.paused_until(Instant::now());
        let paused = stalled || rest.is_some() || self.is_agent_deaf();
        let (quiet, hush, settings) = (self.quiet_end(), self.hush_end(), self.settings.deadline());
        let lanes = &mut self.lanes;
        tokio::select! {
            biased;
            Some(wish) = lanes.stops.recv() => Input::Stop(wish),
            input = agent_input(&mut self.phase, paused) => input,
            Some((result, after)) = self.after_flush.next() => Input::Flushed(result, after),
            () = sleep_until(grace) => Input::GraceOver,
            () = sleep_until(hush) => Input::HushOver,
            () = sleep_until(quiet) => Input::Quiet,
            () = sleep_until(settings) => Input::SettingsOver,
            () = sleep_until(self.retry_at) => Input::Retry,
            () = sleep_until(rest) => Input::Rested,
            Some(command) = lanes.urgent.recv() => Input::Command(command),
            command = lanes.commands.recv() => command.map_or(Input::Abandoned, Input::Command),
            Some(look) = lanes.looks.recv() => Input::Look(look),
            () = tokio::time::sleep(DEAD_IDLE), if idle => Input::IdleOver,
        }
    }

    /// Whether the actor goes on.
    async fn handle(&mut self, input: Input) -> bool {
        match input {
            Input::Stop(StopWish::Kill { reply }) => self.on_kill(reply).await,
            Input::Stop(StopWish::Shutdown { reply }) => {
                self.on_shutdown().await;
                answer(reply, Ok(()));
                return false;
            }
            Input::Frames(Some(batch)) => {
                self.on_batch(batch).await;
                self.serve_others().await;
            }
            Input::Frames(None) => self.on_output_closed().await,
            Input::Exited(exit) => self.on_exit(exit).await,
            Input::Room => self.send_unsent(),
            Input::Deaf(end) => self.on_input_ended(&end).await,
            Input::Spawned(record) => self.on_spawned(record).await,
            Input::Started(outcome) => self.on_started(outcome).await,
            Input::Flushed(result, after) => self.on_flushed(result, after).await,
            Input::GraceOver => self.on_grace_over().await,
            Input::Quiet => self.on_quiet(),
            Input::HushOver => self.on_hush_over(),
            Input::SettingsOver => self.on_settings_over(),
            Input::Retry => self.on_retry().await,
            Input::Rested => {}
            Input::Command(command) | Input::Look(command) => self.on_command(*command).await,
            Input::IdleOver => return !self.lanes.close_if_empty(),
            Input::Abandoned => {
                self.on_shutdown().await;
                return false;
            }
        }
        true
    }

    /// Gives everything that the order of the arms puts behind frames its share, so that a flood starves nothing.
    async fn serve_others(&mut self) {
        self.send_unsent();
        if let Some(Some((result, after))) = self.after_flush.next().now_or_never() {
            self.on_flushed(result, after).await;
        }
        let now = Instant::now();
        if !self.is_stalled() && self.grace.is_some_and(|grace| grace.deadline() <= now) {
            self.on_grace_over().await;
        }
        if self.hush_end().is_some_and(|end| end <= now) {
            self.on_hush_over();
        }
        if self.retry_at.is_some_and(|at| at <= now) {
            self.on_retry().await;
        }
        for _ in 0..COMMANDS_PER_BATCH {
            let Some(command) = self.lanes.next_command() else { return };
            self.on_command(*command).await;
        }
    }

    /// Waits for a flush of everything appended so far, then does `after`.
    pub(super) fn after_flush(&mut self, after: AfterFlush) {
        let ticket = self.journal.flush();
        self.after_flush.push_back(ticket.map(move |result| (result, after)).boxed());
    }
}

/// The next thing from the agent: a batch, its exit, or the outcome of a start. Never ready while it is dead, and not
/// reading while lines wait for the disk.
async fn agent_input(phase: &mut Phase, paused: bool) -> Input {
    match phase {
        Phase::Dead => std::future::pending().await,
        Phase::Starting { spawned, outcome, .. } => tokio::select! {
            biased;
            record = heard(spawned) => Input::Spawned(record),
            outcome = outcome => Input::Started(outcome.unwrap_or(StartOutcome::Stopped)),
        },
        Phase::Running(agent) => {
            let Agent { connection, exit, unsent, .. } = agent.as_mut();
            let outbox = connection.outbox().clone();
            tokio::select! {
                biased;
                batch = connection.next_batch(), if !paused => Input::Frames(batch),
                exit = exit.wait() => Input::Exited(exit),
                () = outbox.room(), if !unsent.is_empty() => Input::Room,
                end = outbox.ended() => Input::Deaf(end),
            }
        }
    }
}

/// The record, once; a start that failed before it had one says `None`.
async fn heard(spawned: &mut Option<oneshot::Receiver<SpawnRecord>>) -> Option<SpawnRecord> {
    match spawned {
        Some(receiver) => receiver.await.ok(),
        None => std::future::pending().await,
    }
}

pub(super) async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Tells the person. That nobody listens any more is no failure: the client left, what it asked for is done.
pub(super) fn answer<T>(reply: Reply<T>, result: Result<T, SessionError>) {
    if reply.send(result).is_err() {
        tracing::trace!("A client left before its answer came");
    }
}
