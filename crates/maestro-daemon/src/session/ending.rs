//! The deaths of a session (CONTRACT §10.1). Whatever the reason, nothing of the agent runs afterwards, the log says
//! how its turn and approval ended, and the sidecar says why.

use crate::session::{
    actor::{Phase, SessionActor, answer},
    commands::refuse,
    handle::{Reply, SessionError},
    starting::{Agent, StartOutcome, end_tree},
    turn::{Turn, TurnInput},
};
use futures_util::StreamExt as _;
use maestro_acp::OutboxEnd;
use maestro_process::AgentExit;
use maestro_protocol::{AuditEvent, EndReason, OutcomeCause, QueueHold, Status};
use std::time::Duration;
use tokio::time::Instant;

/// How long the rest of an agent's output is waited for after it exited. A grandchild may hold the pipe open for ever.
const LAST_OUTPUT: Duration = Duration::from_millis(500);

/// How long the exit of an agent that closed its output is waited for, so that the reason is its exit status.
const EXIT_AFTER_CLOSE: Duration = Duration::from_secs(2);

/// How long a turn that ends with its session may settle before the agent is signalled.
const SHORT_GRACE: Duration = Duration::from_millis(500);

impl SessionActor {
    /// The agent closed its output. Usually it exits now; one that stays is of no use and is ended.
    pub(super) async fn on_output_closed(&mut self) {
        let Phase::Running(agent) = &mut self.phase else { return };
        match tokio::time::timeout(EXIT_AFTER_CLOSE, agent.exit.wait()).await {
            Ok(exit) => self.die_of_exit(&exit).await,
            Err(_elapsed) => {
                self.die(EndReason::Exited, Some("the agent closed its output and was ended".into())).await;
            }
        }
    }

    /// The agent exited. What it wrote before is heard first.
    pub(super) async fn on_exit(&mut self, exit: AgentExit) {
        let deadline = Instant::now() + LAST_OUTPUT;
        loop {
            let Phase::Running(agent) = &mut self.phase else { return };
            match tokio::time::timeout_at(deadline, agent.connection.next_batch()).await {
                Ok(Some(batch)) => {
                    self.on_batch(batch).await;
                    // Without space in the log this becomes what is owed to it, which is bounded.
                    if self.is_stalled() {
                        self.settle_backlog();
                    }
                }
                Ok(None) | Err(_) => break,
            }
        }
        self.die_of_exit(&exit).await;
    }

    /// Nothing can be written to the agent any more. If it is about to exit, that is the reason; one that closed its
    /// input, or does not read it, is of no use and is ended.
    pub(super) async fn on_input_ended(&mut self, end: &OutboxEnd) {
        let Phase::Running(agent) = &mut self.phase else { return };
        if let OutboxEnd::Broken(_) = end
            && let Ok(exit) = tokio::time::timeout(EXIT_AFTER_CLOSE, agent.exit.wait()).await
        {
            return self.on_exit(exit).await;
        }
        self.die(EndReason::Exited, Some(format!("{end}; it was ended"))).await;
    }

    async fn die_of_exit(&mut self, exit: &AgentExit) {
        self.die(EndReason::Exited, Some(exit.to_string())).await;
    }

    /// A person kills the session.
    pub(super) async fn on_kill(&mut self, reply: Reply<()>) {
        if !self.is_dead() {
            self.withdraw_work().await;
            self.die(EndReason::Killed, None).await;
            // What a log that is lost could not take changes nothing about the kill.
            self.finish_flushes().await;
        }
        answer(reply, Ok(()));
    }

    /// The daemon shuts down: a session with something to resume gets its marker.
    pub(super) async fn on_shutdown(&mut self) {
        if !self.is_dead() {
            let resumable =
                matches!(self.phase, Phase::Running(_)) || self.stored.session.acp_session_id.is_some();
            self.withdraw_work().await;
            if !self.is_dead() {
                self.die(EndReason::DaemonShutdown, None).await;
                if resumable {
                    self.write_marker().await;
                }
            }
        }
        self.finish_flushes().await;
    }

    async fn write_marker(&mut self) {
        let (logs, id) = (self.around.logs.clone(), self.stored.id());
        let written = tokio::task::spawn_blocking(move || logs.write_marker(id)).await;
        let told = match written {
            Ok(Ok(())) => return,
            Ok(Err(error)) => crate::report::chain(&error),
            Err(error) => error.to_string(),
        };
        tracing::error!(session.id = %id, "Session `{id}` will not be resumed, its marker could not be written: {told}");
    }

    /// Withdraws the turn and the approvals before an end that the agent did not cause, and gives it a short time to
    /// settle.
    async fn withdraw_work(&mut self) {
        let busy = self.turn.is_active() || self.turn == Turn::Cancelling || self.approvals.live().is_some();
        if !busy || !matches!(self.phase, Phase::Running(_)) {
            return;
        }
        self.settle_backlog();
        self.append_session_end();
        self.turn = self.turn.on(TurnInput::Cancel).0;
        self.send_cancel();
        let deadline = Instant::now() + SHORT_GRACE;
        while self.turn == Turn::Cancelling {
            let Phase::Running(agent) = &mut self.phase else { return };
            match tokio::time::timeout_at(deadline, agent.connection.next_batch()).await {
                Ok(Some(batch)) => {
                    self.on_batch(batch).await;
                    self.settle_backlog();
                }
                Ok(None) | Err(_) => return,
            }
        }
    }

    /// Closes in the log what is open in the session, now or when there is space. It ends anyway, so a log that is lost
    /// changes nothing; what stays open is closed at the next start.
    fn append_session_end(&mut self) {
        let approval = self.append_approval_end(OutcomeCause::SessionEnded);
        if approval.and(self.append_turn_end("interrupted")).is_err() {
            tracing::error!(session.id = %self.stored.id(), "The log of session `{}` is lost", self.stored.id());
        }
    }

    /// Ends the agent and everything below it, closes what is open in the log, and marks the session dead.
    pub(super) async fn die(&mut self, reason: EndReason, detail: Option<String>) {
        if self.is_dead() {
            return;
        }
        self.settle_backlog();
        self.append_session_end();
        drop(self.approvals.settle());
        drop(self.approvals.drain_waiting());
        self.turn = self.turn.on(TurnInput::End).0;
        let stderr = match std::mem::replace(&mut self.phase, Phase::Dead) {
            Phase::Dead => String::new(),
            Phase::Starting { stop, outcome, .. } => {
                stop.cancel();
                match outcome.await {
                    Ok(StartOutcome::Running(agent, _)) => end_agent(&agent).await,
                    Ok(_) | Err(_) => String::new(),
                }
            }
            Phase::Running(agent) => end_agent(&agent).await,
        };
        let with_stderr = reason == EndReason::Exited && !stderr.trim().is_empty();
        let detail = detail.map(|detail| {
            if with_stderr {
                format!("{detail}\nIts last words on stderr:\n{}", stderr.trim())
            } else {
                detail
            }
        });
        self.bury(reason, detail).await;
    }

    /// Marks the session dead. Nothing of it runs any more.
    pub(super) async fn bury(&mut self, reason: EndReason, detail: Option<String>) {
        let id = self.stored.id();
        tracing::info!(session.id = %id, "Session `{id}` is dead ({reason:?})");
        self.phase = Phase::Dead;
        self.turn = Turn::Dead;
        self.prompt_request = None;
        self.grace = None;
        self.settings.give_up();
        self.deciding.clear();
        for (_, reply) in std::mem::take(&mut self.held) {
            answer(reply, Err(SessionError::NotStructured));
        }
        self.stored.spawn = None;
        self.stored.doubtful_from = self.journal.doubtful_from();
        let session = &mut self.stored.session;
        session.status = Status::Dead;
        session.activity = None;
        session.end_reason = Some(reason);
        session.activity_detail = detail;
        self.audit(AuditEvent::SessionEnded { session: id, reason });
        self.hold_queue(QueueHold::Ended);
        self.publish().await;
        self.pulse.send_modify(|pulse| pulse.ended = Some(reason));
    }

    /// Keeps, for whoever opens the log next, from where on it is in doubt.
    pub(super) async fn keep_doubt(&mut self) {
        let doubtful_from = self.journal.doubtful_from();
        if self.stored.doubtful_from != doubtful_from {
            self.stored.doubtful_from = doubtful_from;
            self.save().await;
        }
    }

    /// Waits for the flushes that are under way, so that a shutdown leaves nothing half told.
    async fn finish_flushes(&mut self) {
        self.after_flush_quietly();
        while let Some((result, after)) = self.after_flush.next().await {
            match result {
                Ok(()) => self.on_flushed(Ok(()), after).await,
                Err(poisoned) => {
                    refuse(after, &SessionError::LogFailed { detail: crate::report::chain(&poisoned) });
                    self.keep_doubt().await;
                }
            }
        }
    }
}

/// Ends an agent's tree and returns the end of its stderr.
async fn end_agent(agent: &Agent) -> String {
    end_tree(&agent.terminator, agent.connection.outbox(), &agent.stderr).await
}
