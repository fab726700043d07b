//! What people ask.

use crate::session::{
    actor::{AfterFlush, Phase, SessionActor, answer},
    approvals::Verdict,
    grace::{Grace, Look},
    handle::{Command, Decider, Reply, SessionError},
    journal::Urgency,
    lines, queue,
    starting::Agent,
    storage::LogLost,
    turn::{Turn, TurnEffect, TurnInput},
    wire::Overlay,
};
use futures_util::FutureExt as _;
use maestro_acp::outgoing;
use maestro_log::{AppendError, Poisoned};
use maestro_protocol::{
    ApprovalOutcome, ApprovalResolvedLine, AuditEvent, Decision, EndReason, Envelope, Nonce, Origin,
    OutcomeCause, OutcomeKind, QueueHold, QueueItemId, RequestMark, Session, SummaryLine, TurnLine,
};
use serde_json::Value;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// Prompts that may wait for a cancelled turn to settle; more are told to try again.
const HELD_MAX: usize = 8;

/// What a turn is begun with.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) content: Vec<Value>,
    /// The message of the queue that it is.
    pub(super) queue_item: Option<QueueItemId>,
    /// The request that it is, where that can be retried.
    pub(super) request: Option<RequestMark>,
}

impl SessionActor {
    pub(super) async fn on_command(&mut self, command: Command) {
        match command {
            Command::Prompt { content, request, reply } => {
                self.on_prompt(Ask { content, queue_item: None, request }, reply).await;
            }
            // Rare and large: it would make every session's future larger.
            Command::Queue(command) => Box::pin(self.on_queue_command(command)).await,
            Command::Cancel { reply } => self.on_cancel(reply).await,
            Command::Decide { nonce, decision, decider, reply } => {
                self.on_decision(nonce, decision, decider, reply).await;
            }
            Command::Set { setting, reply } => self.on_setting(setting, reply),
            Command::Rename { title, reply } => self.on_rename(title, reply).await,
            Command::Restart { request, reply } => Box::pin(self.on_restart(request, reply)).await,
            Command::Snapshot { view, reply } => {
                let overlay = self.overlay();
                let frames = self.unless_dead(|actor| actor.journal.snapshot(overlay, view));
                answer(reply, frames);
            }
            Command::Changes { held, form, reply } => {
                let overlay = self.overlay();
                answer(reply, Ok(self.journal.changes(overlay, &held, form)));
            }
            Command::Row { id, reply } => {
                let row = self.unless_dead(|actor| {
                    let projection = actor.journal.projection();
                    projection.row(&id).map(|row| (projection.cursor(), row.into_owned()))
                });
                answer(reply, row);
            }
            Command::Log { reply } => {
                let reader = self.unless_dead(|actor| actor.journal.reader());
                answer(reply, reader);
            }
            Command::Mend { reply } => {
                if matches!(self.phase, Phase::Dead) {
                    self.mend();
                    self.save().await;
                }
                self.after_flush(AfterFlush::Tell(reply));
            }
        }
    }

    pub(super) fn overlay(&self) -> Overlay {
        Overlay {
            pending_approval: self.approvals.pending(),
            turn: self.journal.owed_turn(),
            queue: Arc::clone(&self.shown_queue.state),
        }
    }

    fn unless_dead<T>(&mut self, look: impl FnOnce(&mut Self) -> T) -> Result<T, SessionError> {
        if self.is_dead() { Err(SessionError::NotStructured) } else { Ok(look(self)) }
    }

    async fn on_prompt(&mut self, ask: Ask, reply: Reply<()>) {
        match self.earlier_prompt(&ask) {
            // Its turn is in the log; the answer comes when it is on the disk, as the first one did.
            Some(Ok(())) => return self.after_flush(AfterFlush::Tell(reply)),
            Some(Err(error)) => return answer(reply, Err(error)),
            None => {}
        }
        match self.phase {
            Phase::Dead => return answer(reply, Err(SessionError::NotStructured)),
            Phase::Starting { .. } => return answer(reply, Err(SessionError::Starting)),
            Phase::Running(_) => {}
        }
        if self.is_stalled() {
            self.on_retry().await;
        }
        if self.is_stalled() {
            return answer(reply, Err(SessionError::LogUnwritable));
        }
        let (next, effects) = self.turn.on(TurnInput::Prompt);
        match effects.first() {
            Some(TurnEffect::AppendStarted) => match self.begin_turn(next, &ask) {
                Ok(claim) => self.after_flush(AfterFlush::Dispatch { claim, ask, reply }),
                Err(error) => self.refuse_for_log(&error, reply).await,
            },
            Some(TurnEffect::HoldPrompt) if self.held.len() < HELD_MAX => {
                self.held.push_back((ask, reply));
            }
            Some(TurnEffect::HoldPrompt) => answer(reply, Err(SessionError::Busy)),
            Some(TurnEffect::RefusePrompt) => answer(reply, Err(SessionError::TurnInFlight)),
            _ => answer(reply, Err(SessionError::NotStructured)),
        }
    }

    /// Whether a prompt is the retry of an earlier one (CONTRACT §11.5).
    fn earlier_prompt(&self, ask: &Ask) -> Option<Result<(), SessionError>> {
        let retry = ask.request.as_ref()?;
        let now = self.around.sources.clock.now();
        let mut known = self.journal.projection().fold().requests().rev();
        let (first, _) = known.find(|(first, at)| first.key == retry.key && queue::is_kept(*at, now))?;
        Some(queue::same(first, retry))
    }

    /// Claims the turn: its start and the prompt go into the log. The agent gets it when they are on disk, by the claim
    /// that this returns.
    pub(super) fn begin_turn(&mut self, next: Turn, ask: &Ask) -> Result<u64, AppendError> {
        let acp_session_id = match &self.phase {
            Phase::Running(agent) => agent.acp_session_id.clone(),
            Phase::Dead | Phase::Starting { .. } => String::new(),
        };
        let message_id = self.around.sources.entropy.uuid().to_string();
        let started = TurnLine::Started {
            origin: Origin::Person,
            message_id: Some(message_id.clone()),
            queue_item: ask.queue_item,
            request: ask.request.clone(),
            at: self.around.sources.clock.now(),
        };
        let prompt = lines::prompt_line(&acp_session_id, &message_id, &ask.content);
        self.journal.append_all(&[&Envelope::Turn(started).to_line(), &prompt], Urgency::Urgent)?;
        self.turn = next;
        self.claim += 1;
        Ok(self.claim)
    }

    async fn refuse_for_log<T>(&mut self, error: &AppendError, reply: Reply<T>) {
        if let AppendError::Lost(poisoned) = error {
            answer(reply, Err(SessionError::LogFailed { detail: crate::report::chain(poisoned) }));
            self.die_of_log().await;
        } else {
            answer(reply, Err(SessionError::LogUnwritable));
        }
    }

    /// A turn that is cancelled ends for clients at once, whatever the disk says; the agent is told in any case. Without
    /// a turn nothing happens, to an approval outside of turns neither.
    async fn on_cancel(&mut self, reply: Reply<()>) {
        if matches!(self.phase, Phase::Dead) {
            return answer(reply, Err(SessionError::NotStructured));
        }
        let (next, effects) = self.turn.on(TurnInput::Cancel);
        self.turn = next;
        let mut log = Ok(());
        if effects.contains(&TurnEffect::SendCancel) {
            log = self.append_approval_end(OutcomeCause::TurnCancelled);
        }
        if effects.contains(&TurnEffect::AppendEndedAsCancelled) {
            self.hold_queue(QueueHold::Cancelled);
            log = log.and(self.append_turn_end("cancelled"));
        }
        if effects.contains(&TurnEffect::SendCancel) {
            self.send_cancel();
        }
        if effects.contains(&TurnEffect::StartGrace) {
            self.grace = self.new_grace();
        }
        if effects.contains(&TurnEffect::StartHush) {
            self.own_turns.hush(Instant::now());
        }
        if log.is_err() {
            answer(reply, Err(SessionError::NotStructured));
            return self.die_of_log().await;
        }
        self.after_flush(AfterFlush::Tell(reply));
    }

    /// Settles the live approval in the log, whether or not there is space.
    pub(super) fn append_approval_end(&mut self, because: OutcomeCause) -> Result<(), LogLost> {
        let Some(live) = self.approvals.live() else { return Ok(()) };
        self.owe(&lines::cancelled(live.row_id.clone(), because, self.around.sources.clock.now()))
    }

    /// Ends the turn that the log shows as active, whether or not there is space.
    pub(super) fn append_turn_end(&mut self, reason: &str) -> Result<(), LogLost> {
        let Some(origin) = self.journal.standing().open_turn() else { return Ok(()) };
        self.owe(&lines::turn_ended(origin, reason, self.around.sources.clock.now()))
    }

    /// `session/cancel`, then `cancelled` for every open permission request, as ACP wants it.
    /// Decisions that stand in the log and wait for its flush go first: nothing may be allowed behind a cancel, and
    /// the log and the agent must agree.
    pub(super) fn send_cancel(&mut self) {
        for (request, option_id) in std::mem::take(&mut self.deciding) {
            self.send_answer(&request, option_id.as_deref());
        }
        if let Phase::Running(agent) = &self.phase {
            self.send(outgoing::session_cancel(&agent.acp_session_id));
        }
        let open = self.approvals.settle().map(|live| live.request);
        for request in open.into_iter().chain(self.approvals.drain_waiting()) {
            self.send(outgoing::permission_cancelled(&request.id));
        }
    }

    fn new_grace(&self) -> Option<Grace> {
        let Phase::Running(agent) = &self.phase else { return None };
        Some(Grace::begin(Duration::from_millis(agent.entry.cancel_grace_ms), Instant::now()))
    }

    /// The grace is over. Time in which the daemon itself stood still does not count, up to a bound, and what the agent
    /// has said by now is heard before it is declared dead.
    pub(super) async fn on_grace_over(&mut self) {
        let Some(mut grace) = self.grace.take() else { return };
        if grace.look(Instant::now()) == Look::Later {
            self.grace = Some(grace);
            return;
        }
        // The reader's task gets its turn before the last look.
        tokio::task::yield_now().await;
        loop {
            let Phase::Running(agent) = &mut self.phase else { return };
            let Some(batch) = agent.connection.next_batch().now_or_never().flatten() else { break };
            self.on_batch(batch).await;
        }
        let (next, effects) = self.turn.on(TurnInput::GraceOver);
        if effects.contains(&TurnEffect::Die) {
            self.turn = next;
            let detail =
                "the agent did not settle a cancelled turn in time; restart the session to go on".to_owned();
            self.die(EndReason::CancelUnsettled, Some(detail)).await;
        }
    }

    async fn on_decision(&mut self, nonce: Nonce, decision: Decision, decider: Decider, reply: Reply<()>) {
        if self.is_dead() {
            return answer(reply, Err(SessionError::NotStructured));
        }
        let option_id = match self.approvals.judge(nonce, &decision) {
            Verdict::NotLive => return answer(reply, Ok(())),
            Verdict::NotOffered => return answer(reply, Err(SessionError::DecisionNotOffered)),
            Verdict::Select(option_id) => Some(option_id),
            Verdict::Cancel => None,
        };
        let Some(live) = self.approvals.live() else { return answer(reply, Ok(())) };
        let denies = decision == Decision::Deny;
        let outcome = ApprovalOutcome {
            what: if option_id.is_some() { OutcomeKind::Selected } else { OutcomeKind::Cancelled },
            option_id: option_id.clone(),
            because: option_id.is_none().then_some(OutcomeCause::Denied),
            decision: Some(decision.clone()).filter(|decision| !matches!(decision, Decision::Option(_))),
            when: self.around.sources.clock.now(),
            account: Some(decider.account),
            client: Some(decider.client),
        };
        let (session, row_id) = (self.stored.id(), live.row_id.clone());
        let client = outcome.client.clone().unwrap_or_default();
        let decided = AuditEvent::Decided {
            session,
            row_id: row_id.clone(),
            decision,
            option_id: option_id.clone(),
            client,
        };
        let line = Envelope::ApprovalResolved(ApprovalResolvedLine { row_id, outcome });
        match self.journal.append_envelope(&line) {
            Ok(_) => {
                self.audit(decided);
                let Some(live) = self.approvals.settle() else { return answer(reply, Ok(())) };
                let request = live.request.id;
                self.own_turns.hear(Instant::now());
                self.deciding.push((request.clone(), option_id));
                self.after_flush(AfterFlush::Answer { request, reply: Some(reply) });
                self.promote();
            }
            Err(error @ AppendError::Lost { .. }) => self.refuse_for_log(&error, reply).await,
            // A refusal reaches the agent even when the disk is full.
            Err(_) if denies => {
                let owed = self.owe(&line);
                self.audit(decided);
                let Some(live) = self.approvals.settle() else { return answer(reply, Ok(())) };
                self.send_answer(&live.request.id, option_id.as_deref());
                answer(reply, Ok(()));
                if owed.is_err() {
                    self.die_of_log().await;
                }
            }
            Err(error) => self.refuse_for_log(&error, reply).await,
        }
    }

    async fn on_rename(&mut self, title: String, reply: Reply<Session>) {
        // A session that never started has the title of its creation in its sidecar only.
        self.keep_first_title();
        let line = SummaryLine { summary: title, at: self.around.sources.clock.now() };
        match self.journal.append_envelope(&Envelope::Summary(line)) {
            Ok(_) => {
                self.take_from_log();
                self.publish().await;
                self.after_flush(AfterFlush::TellSession(reply));
            }
            Err(error) => self.refuse_for_log(&error, reply).await,
        }
    }

    /// What waited for the log is on disk now, or never will be.
    pub(super) async fn on_flushed(&mut self, result: Result<(), Poisoned>, after: AfterFlush) {
        if let Err(poisoned) = result {
            let (id, told) = (self.stored.id(), crate::report::chain(&poisoned));
            tracing::error!(session.id = %id, "The log of session `{id}` could not be flushed: {told}");
            refuse(after, &SessionError::LogFailed { detail: told });
            if self.is_dead() {
                self.keep_doubt().await;
            } else {
                self.die_of_log().await;
            }
            return;
        }
        match after {
            AfterFlush::Dispatch { claim, ask, reply } => {
                self.dispatch(claim, &ask.content, reply);
                if let Some(item) = ask.queue_item {
                    self.confirm_queue_item(item).await;
                }
            }
            AfterFlush::Answer { request, reply } => {
                if let Some(place) = self.deciding.iter().position(|(id, _)| *id == request) {
                    let (request, option_id) = self.deciding.remove(place);
                    self.send_answer(&request, option_id.as_deref());
                }
                if let Some(reply) = reply {
                    answer(reply, Ok(()));
                }
            }
            AfterFlush::Tell(reply) => answer(reply, Ok(())),
            AfterFlush::TellSession(reply) => answer(reply, Ok(self.stored.session.clone())),
            AfterFlush::TellRestart { session, reply } => answer(reply, Ok(*session)),
        }
    }

    /// Sends the prompt, unless its turn was cancelled or its session died meanwhile. Then the log has it and says so,
    /// and it was no refusal.
    fn dispatch(&mut self, claim: u64, content: &[Value], reply: Reply<()>) {
        let is_wanted = claim == self.claim && self.turn == Turn::Committing;
        let Phase::Running(agent) = &mut self.phase else { return answer(reply, Ok(())) };
        if !is_wanted {
            return answer(reply, Ok(()));
        }
        let Agent { connection, acp_session_id, .. } = agent.as_mut();
        let (request, message) =
            connection.prepare(|id| outgoing::session_prompt(id, acp_session_id, content));
        self.prompt_request = Some(request);
        self.turn = self.turn.on(TurnInput::Flushed).0;
        self.send(message);
        answer(reply, Ok(()));
    }

    fn send_answer(&mut self, request: &maestro_acp::RawId, option_id: Option<&str>) {
        self.send(match option_id {
            Some(option_id) => outgoing::permission_selected(request, option_id),
            None => outgoing::permission_cancelled(request),
        });
    }

    /// Lets the prompts that waited for the settle try again; the first gets the turn.
    pub(super) async fn release_held(&mut self) {
        if self.turn.is_settling() {
            return;
        }
        for (ask, reply) in std::mem::take(&mut self.held) {
            self.on_prompt(ask, reply).await;
        }
    }
}

/// Tells whoever waited that it came to nothing.
pub(super) fn refuse(after: AfterFlush, error: &SessionError) {
    match after {
        AfterFlush::Dispatch { reply, .. }
        | AfterFlush::Tell(reply)
        | AfterFlush::Answer { reply: Some(reply), .. } => answer(reply, Err(error.clone())),
        AfterFlush::Answer { reply: None, .. } => {}
        AfterFlush::TellSession(reply) | AfterFlush::TellRestart { reply, .. } => {
            answer(reply, Err(error.clone()));
        }
    }
}
