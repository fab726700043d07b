//! Beginning to start an agent, and what comes of it.

use crate::{
    agents::Resolution,
    session::{
        actor::{AfterFlush, Phase, SessionActor},
        approvals::Approvals,
        handle::Reply,
        own_turns::OwnTurns,
        starting::{Agent, StartOutcome, StartPlan, start},
        storage::LogLost,
        stored::Made,
        turn::Turn,
    },
};
use maestro_acp::{HandshakeError, Opened, SessionOpen, Setting};
use maestro_process::{AgentExit, SpawnRecord};
use maestro_protocol::{
    AuditEvent, EndReason, Envelope, NoticeLine, NoticeReason, QueueHold, RequestMark, Session, SessionLine,
    SessionLineEvent, Status, SummaryLine,
};
use std::path::PathBuf;
use tokio::{sync::oneshot, time::Instant};
use tokio_util::sync::CancellationToken;

/// Why an agent is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    /// The session is new.
    First,
    /// The last daemon shut down while it ran.
    Recover,
    /// A person wants it back.
    Restart,
}

impl SessionActor {
    /// Begins to start the agent; a missing program or directory is a death that says what to do.
    pub(super) async fn begin_start(&mut self, wish: Wish) {
        // What stalls the log still is told anew of the session that is to run.
        self.stall = None;
        self.mend();
        self.keep_first_title();
        let session = &mut self.stored.session;
        session.status = Status::Starting;
        session.end_reason = None;
        session.activity_detail = None;
        let (entry, program, args) =
            match self.around.agents.resolve(&session.agent, self.stored.env.get("PATH")) {
                Resolution::Found { entry, program, args } => (entry, program, args),
                Resolution::Missing { detail } => {
                    return self.bury(EndReason::AdapterMissing, Some(detail)).await;
                }
            };
        let cwd = PathBuf::from(&session.cwd);
        if !cwd.is_dir() {
            let detail =
                format!("the session's directory `{}` is gone: make it again, then restart", session.cwd);
            return self.bury(EndReason::HandshakeFailed, Some(detail)).await;
        }
        let projection = self.journal.projection();
        let open = match &session.acp_session_id {
            // An agent cannot load a session that never had a prompt.
            Some(id) if wish != Wish::First && projection.has_prompt() => {
                SessionOpen::Load { id: id.clone(), cwd: session.cwd.clone() }
            }
            _ => SessionOpen::New { cwd: session.cwd.clone() },
        };
        let id = session.id;
        let wishes = self.wishes(wish, &entry);
        let (spawned_tx, spawned) = oneshot::channel();
        let (outcome_tx, outcome) = oneshot::channel();
        let stop = CancellationToken::new();
        let plan = StartPlan {
            session: id,
            entry: *entry,
            program,
            args,
            cwd,
            env: self.stored.env.clone(),
            token: self.around.sources.entropy.uuid(),
            open,
            wishes,
            spawned: spawned_tx,
            stop: stop.clone(),
        };
        let spawner = self.around.spawner.clone();
        self.around.tasks.spawn(async move {
            // Without a listener the outcome is dropped, and dropping a running agent ends its tree.
            drop(outcome_tx.send(start(plan, spawner).await));
        });
        self.phase = Phase::Starting { spawned: Some(spawned), outcome, stop };
        self.pulse.send_modify(|pulse| pulse.ended = None);
        tracing::info!(session.id = %id, "Session `{id}` starts ({wish:?})");
    }

    /// A title that came with the creation is a rename like any other; the log is the home of titles.
    pub(super) fn keep_first_title(&mut self) {
        let title = &self.stored.session.title;
        if self.journal.standing().cursor() > 0 || title.is_empty() {
            return;
        }
        let line = SummaryLine { summary: title.clone(), at: self.around.sources.clock.now() };
        if self.owe(&Envelope::Summary(line)).is_err() {
            tracing::error!(session.id = %self.stored.id(), "The title of session `{}` is lost", self.stored.id());
        }
    }

    pub(super) async fn on_spawned(&mut self, record: Option<SpawnRecord>) {
        if let Phase::Starting { spawned, .. } = &mut self.phase {
            *spawned = None;
        }
        if record.is_some() {
            self.stored.spawn = record;
            self.stored.spawned_in = Some(self.around.directory);
            self.save().await;
        }
    }

    pub(super) async fn on_started(&mut self, outcome: StartOutcome) {
        match outcome {
            StartOutcome::Running(agent, opened) => self.on_opened(agent, *opened).await,
            StartOutcome::NotSpawned(error) => {
                self.bury(EndReason::HandshakeFailed, Some(crate::report::chain(&error))).await;
            }
            StartOutcome::NotOpened { error, exit, stderr } => {
                let detail = self.explain(&error, exit, &stderr);
                self.bury(EndReason::HandshakeFailed, Some(detail)).await;
            }
            // A kill waits for the outcome itself, so here the task broke off.
            StartOutcome::Stopped => {
                let detail = "an internal error broke off the start; restart the session to try again".into();
                self.bury(EndReason::DaemonCrash, Some(detail)).await;
            }
        }
    }

    /// What a person reads when no session could be opened: what failed, how to sign in where that is it, and the end
    /// of the agent's stderr.
    fn explain(&self, error: &HandshakeError, exit: Option<AgentExit>, stderr: &str) -> String {
        let mut detail = crate::report::chain(error);
        if let Some(exit) = exit {
            detail = format!("{detail}; {exit}");
        }
        if error.needs_sign_in()
            && let Some(command) = self.around.agents.sign_in(&self.stored.session.agent)
        {
            detail = format!("{detail}; sign in with: {command}");
        }
        let stderr = stderr.trim();
        if !stderr.is_empty() {
            detail = format!("{detail}\nIts last words on stderr:\n{stderr}");
        }
        detail
    }

    async fn on_opened(&mut self, agent: Box<Agent>, opened: Opened) {
        let session = &mut self.stored.session;
        session.acp_session_id = Some(opened.acp_session_id.clone());
        session.status = Status::Running;
        self.stored.load_supported = Some(opened.load_supported);
        self.approvals = Approvals::new(agent.entry.overlapping_approvals);
        self.prompt_request = None;
        self.turn = Turn::Idle;
        let loaded = agent.loaded;
        self.phase = Phase::Running(agent);
        self.own_turns = OwnTurns::none(Instant::now());
        if self.record_opening(&opened, loaded).is_err() {
            return self.die_of_log().await;
        }
        for frame in opened.kept {
            self.on_frame_or_backlog(frame).await;
        }
        // What belongs to the opening has opened no turn; what comes now may.
        self.watch_own_turns();
        let id = self.stored.id();
        tracing::info!(session.id = %id, "Session `{id}` runs");
        let agent = self.stored.session.agent.clone();
        self.audit(AuditEvent::AgentStarted { session: id, agent });
    }

    /// Writes what the handshake said, now or when there is space.
    fn record_opening(&mut self, opened: &Opened, loaded: bool) -> Result<(), LogLost> {
        let at = self.around.sources.clock.now();
        let event = if loaded { SessionLineEvent::Loaded } else { SessionLineEvent::Opened };
        let line = SessionLine {
            modes: opened.modes.clone(),
            models: opened.models.clone(),
            config_options: opened.config_options.clone(),
            ..SessionLine::new(event, opened.acp_session_id.clone(), at)
        };
        self.owe(&Envelope::Session(line))?;
        let mut told = Vec::new();
        for settled in &opened.settled {
            match settled {
                Ok(settled) => {
                    let line = self.setting_line(settled.clone());
                    self.owe(&line)?;
                }
                Err(refused) => {
                    let text = crate::report::chain(refused);
                    told.push(text.clone());
                    let reason = match refused.wish() {
                        Setting::Mode(_) => NoticeReason::ModeRefused,
                        Setting::Model(_) | Setting::Option { .. } => NoticeReason::SettingRefused,
                    };
                    self.owe(&Envelope::Notice(NoticeLine { reason, text, bytes: None }))?;
                }
            }
        }
        if !told.is_empty() {
            self.stored.session.activity_detail = Some(told.join("; "));
        }
        Ok(())
    }

    /// Appends what a daemon that was killed could not: the end of its turn, the fate of its approval (CONTRACT §10.5).
    pub(super) fn mend(&mut self) {
        let at = self.around.sources.clock.now();
        let standing = self.journal.standing();
        let open_turn = standing.open_turn();
        let unsettled = standing.unsettled_approvals().iter();
        let mut lines: Vec<Envelope> =
            unsettled.map(|row_id| super::lines::interrupted(row_id.clone(), at)).collect();
        lines.extend(open_turn.map(|origin| super::lines::turn_interrupted(origin, at)));
        for line in lines {
            if self.owe(&line).is_err() {
                return;
            }
        }
    }

    /// A log that was lost takes lines again only after it was opened anew and read as it is. The error is what to tell.
    async fn reopen_lost_log(&mut self) -> Result<(), String> {
        if !self.journal.is_lost() {
            return Ok(());
        }
        let id = self.stored.id();
        self.journal = super::opening::open_journal(&self.around, &mut self.stored)
            .await
            .map_err(|error| crate::report::chain(&error))?;
        // What the log has of the queue is known anew, too.
        let sent = self.journal.projection().fold().sent_item();
        self.queue = super::queueing::open(&self.around, id, sent, Some(QueueHold::Ended)).await;
        tracing::info!(session.id = %id, "The log of session `{id}` was opened anew");
        Ok(())
    }

    pub(super) async fn on_restart(&mut self, request: Option<RequestMark>, reply: Reply<Session>) {
        use super::handle::SessionError as E;
        let now = self.around.sources.clock.now();
        let earlier = self.stored.restarted.as_ref().zip(request.as_ref());
        let earlier = earlier.and_then(|(first, retry)| first.answer_to(retry, now));
        match earlier.map(|first| first.map(Box::new)) {
            Some(Ok(session)) => return self.after_flush(AfterFlush::TellRestart { session, reply }),
            Some(Err(error)) => return super::actor::answer(reply, Err(error)),
            None => {}
        }
        let session = &self.stored.session;
        let agent_loads = self.stored.load_supported != Some(false);
        let needs_load = session.acp_session_id.is_some() && self.journal.projection().has_prompt();
        let refusal = if !matches!(self.phase, Phase::Dead) {
            Some(E::AlreadyRunning)
        } else if !PathBuf::from(&session.cwd).is_dir() {
            Some(E::CwdMissing { cwd: session.cwd.clone() })
        } else if needs_load && !agent_loads {
            Some(E::CannotResume { agent: session.agent.to_string() })
        } else {
            None
        };
        if let Some(refusal) = refusal {
            return super::actor::answer(reply, Err(refusal));
        }
        if let Err(detail) = self.reopen_lost_log().await {
            return super::actor::answer(reply, Err(E::LogFailed { detail }));
        }
        self.begin_start(Wish::Restart).await;
        let session = Box::new(self.stored.session.clone());
        let made = |request| Box::new(Made { request, at: now, session: Session::clone(&session) });
        self.stored.restarted = request.map(made).or_else(|| self.stored.restarted.take());
        self.after_flush(AfterFlush::TellRestart { session, reply });
    }
}
