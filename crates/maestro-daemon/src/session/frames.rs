//! What the agent sends, in its order: into the log first, then whatever follows from it.

use crate::session::{
    actor::{AfterFlush, Phase, SessionActor},
    approvals::{Admission, Live, Withdrawn},
    journal::Urgency,
    lines,
    noise::Odd,
    turn::{Turn, TurnEffect, TurnInput},
};
use maestro_acp::{Batch, Frame, PermissionRequest, RawId, RpcError, outgoing};
use maestro_log::AppendError;
use maestro_protocol::{
    ApprovalLine, EndReason, Envelope, Nonce, Origin, OutcomeCause, RowId, TranscriptRow, TranscriptRowKind,
    TurnLine,
};
use serde_json::{Value, json, value::RawValue};
use std::collections::VecDeque;

/// Messages to an agent that may wait for room in its outbox. More mean that it asks without reading.
const UNSENT_MAX: usize = 256;

/// How the hint to sign in begins.
const NOT_SIGNED_IN: &str = "the agent is not signed in";

impl SessionActor {
    pub(super) async fn on_batch(&mut self, mut batch: Batch) {
        // The batch keeps its share of the reader's bound until its frames are handled.
        let mut frames = std::mem::take(&mut batch.frames);
        loop {
            let stream = self.take_stream(&mut frames);
            if !stream.is_empty() {
                self.on_stream(stream).await;
            } else if let Some(frame) = frames.pop_front() {
                self.on_frame_or_backlog(frame).await;
            } else {
                return;
            }
        }
    }

    /// Takes the updates from the front that do nothing but go into the log: nothing is to be thought of between two of
    /// them.
    fn take_stream(&self, frames: &mut VecDeque<Frame>) -> Vec<Frame> {
        if self.is_dead() || !self.backlog.is_empty() || self.is_stirred() {
            return Vec::new();
        }
        let is_plain =
            |frame: &&Frame| matches!(frame, Frame::Update { .. }) && !self.own_turns.is_end(frame);
        let plain = frames.iter().take_while(is_plain).count();
        frames.drain(..plain).collect()
    }

    /// Appends a stretch of a stream with one write.
    async fn on_stream(&mut self, stream: Vec<Frame>) {
        self.own_turns.hear(tokio::time::Instant::now());
        let lines: Vec<&[u8]> = stream.iter().filter_map(params).collect();
        match self.journal.append_all(&lines, Urgency::Stream) {
            Ok(_) => {}
            Err(AppendError::Lost { .. }) => self.die_of_log().await,
            Err(error) => {
                self.note_stall(&error);
                self.backlog.extend(stream);
            }
        }
    }

    /// Handles a frame, or keeps it for later while the log takes no lines. Nothing overtakes a kept frame.
    pub(super) async fn on_frame_or_backlog(&mut self, frame: Frame) {
        if self.is_dead() {
            return;
        }
        if !self.backlog.is_empty() {
            self.backlog.push_back(frame);
            return;
        }
        match self.on_frame(&frame) {
            Ok(()) => {}
            Err(AppendError::Lost { .. }) => self.die_of_log().await,
            Err(error) => {
                self.note_stall(&error);
                self.backlog.push_back(frame);
            }
        }
    }

    /// Appends, then acts. When it fails nothing of the frame has happened, so that it can be tried again.
    fn on_frame(&mut self, frame: &Frame) -> Result<(), AppendError> {
        self.before_frame(frame)?;
        match frame {
            Frame::Update { params, .. } => {
                self.journal.append(params, Urgency::Stream)?;
            }
            Frame::Notice(notice) => {
                self.journal.append(&Envelope::Notice(notice.clone()).to_line(), Urgency::Stream)?;
                self.noise.heard(self.stored.id(), Odd::Line);
            }
            Frame::PermissionRequest(request) => self.on_permission_request(request)?,
            Frame::CancelRequest { id } => self.on_withdrawal(id)?,
            Frame::Response { id, result } => {
                if self.prompt_request == Some(*id) {
                    self.on_answered(result)?;
                } else if self.settings.contains(*id) {
                    self.on_setting_answered(*id, result)?;
                } else {
                    self.noise.heard(self.stored.id(), Odd::Answer);
                }
            }
            Frame::UnknownRequest { id, .. } => {
                self.noise.heard(self.stored.id(), Odd::Request);
                self.send(outgoing::method_not_found(id));
            }
            Frame::OtherNotification { .. } => self.noise.heard(self.stored.id(), Odd::Notification),
            Frame::StrayResponse => self.noise.heard(self.stored.id(), Odd::Answer),
        }
        self.after_frame(frame);
        Ok(())
    }

    /// A request that crossed the cancel of its turn is withdrawn like those that were open then: its agent waits for
    /// that answer before it settles.
    fn on_permission_request(&mut self, request: &PermissionRequest) -> Result<(), AppendError> {
        if self.turn.is_settling() {
            self.send(outgoing::permission_cancelled(&request.id));
            return Ok(());
        }
        match self.approvals.admission() {
            Admission::GoLive => self.go_live(request)?,
            Admission::Supersede => {
                self.settle_live_cancelled(OutcomeCause::Superseded)?;
                self.go_live(request)?;
            }
            Admission::Wait => self.approvals.wait(request.clone()),
            Admission::Refuse => self.send(outgoing::permission_cancelled(&request.id)),
        }
        Ok(())
    }

    fn go_live(&mut self, request: &PermissionRequest) -> Result<(), AppendError> {
        let row_id = RowId::approval(self.around.sources.entropy.uuid());
        let row = TranscriptRow {
            id: row_id.clone(),
            kind: TranscriptRowKind::Approval,
            data: request.params.clone(),
        };
        let at = self.around.sources.clock.now();
        self.journal.append_envelope(&Envelope::Approval(ApprovalLine { row, at }))?;
        let nonce = Nonce::from_uuid(self.around.sources.entropy.uuid());
        self.approvals.go_live(Live { request: request.clone(), nonce, row_id });
        Ok(())
    }

    /// Makes the next waiting request live, if the place is free. If the log takes no line it stays waiting and is
    /// tried again soon.
    pub(super) fn promote(&mut self) {
        let Some(request) = self.approvals.next_waiting().cloned() else { return };
        match self.go_live(&request) {
            Ok(()) => drop(self.approvals.take_next_waiting()),
            Err(error) => {
                let (id, told) = (self.stored.id(), crate::report::chain(&error));
                tracing::debug!(session.id = %id, "A waiting approval of session `{id}` cannot be shown yet: {told}");
            }
        }
    }

    fn on_withdrawal(&mut self, id: &RawId) -> Result<(), AppendError> {
        match self.approvals.withdraw(id) {
            Withdrawn::Live => {
                self.settle_live_cancelled(OutcomeCause::Withdrawn)?;
                self.promote();
            }
            Withdrawn::Waiting(request) => self.send(outgoing::permission_cancelled(&request.id)),
            Withdrawn::Unknown => {}
        }
        Ok(())
    }

    /// Settles the live approval as cancelled, for the log and, when that is on the disk, for the agent.
    pub(super) fn settle_live_cancelled(&mut self, because: OutcomeCause) -> Result<(), AppendError> {
        let Some(live) = self.approvals.live() else { return Ok(()) };
        let line = lines::cancelled(live.row_id.clone(), because, self.around.sources.clock.now());
        self.journal.append_envelope(&line)?;
        if let Some(live) = self.approvals.settle() {
            let request = live.request.id;
            self.deciding.push((request.clone(), None));
            self.after_flush(AfterFlush::Answer { request, reply: None });
        }
        Ok(())
    }

    /// The agent answered the open prompt.
    fn on_answered(&mut self, result: &Result<Box<RawValue>, RpcError>) -> Result<(), AppendError> {
        let (next, effects) = self.turn.on(TurnInput::Answered);
        let mut cancelled = self.turn == Turn::Cancelling;
        if effects.contains(&TurnEffect::AppendEndedAsAnswered) {
            let at = self.around.sources.clock.now();
            let ended = turn_ended(result, at);
            cancelled = matches!(&ended, TurnLine::Ended { reason, .. } if reason == "cancelled");
            self.journal.append_envelope(&Envelope::Turn(ended.clone()))?;
            self.hold_queue_after(&ended);
            self.tell_sign_in(result);
            self.after_flush_quietly();
        }
        self.turn = next;
        self.prompt_request = None;
        self.grace = None;
        if cancelled {
            self.own_turns.hush(tokio::time::Instant::now());
        }
        Ok(())
    }

    /// Shows how to sign in where that is what the agent wants; an answer takes the hint away again. Other words that
    /// stand there, such as a refused mode, stay.
    fn tell_sign_in(&mut self, result: &Result<Box<RawValue>, RpcError>) {
        let command = self.around.agents.sign_in(&self.stored.session.agent);
        let detail = &mut self.stored.session.activity_detail;
        match result {
            Err(error) if error.needs_sign_in() => {
                let how = command.map_or_else(String::new, |command| format!("; sign in with: {command}"));
                *detail = Some(format!("{NOT_SIGNED_IN}: {}{how}", error.message));
            }
            Ok(_) if detail.as_deref().is_some_and(|detail| detail.starts_with(NOT_SIGNED_IN)) => {
                *detail = None;
            }
            Ok(_) | Err(_) => {}
        }
    }

    /// Flushes without anyone waiting; a failure still ends the session.
    pub(super) fn after_flush_quietly(&mut self) {
        let (reply, _nobody) = tokio::sync::oneshot::channel();
        self.after_flush(AfterFlush::Tell(reply));
    }

    /// Sends a message to the agent, behind those that wait for room. An agent that is gone or does not read is told by
    /// its exit or its outbox.
    pub(super) fn send(&mut self, message: Vec<u8>) {
        if let Phase::Running(agent) = &mut self.phase {
            agent.unsent.push_back(message);
        }
        self.send_unsent();
    }

    pub(super) fn send_unsent(&mut self) {
        let Phase::Running(agent) = &mut self.phase else { return };
        let outbox = agent.connection.outbox();
        while outbox.has_room()
            && let Some(message) = agent.unsent.pop_front()
        {
            // The actor alone sends, so a refusal means that the outbox has ended, which is an input of its own.
            if let Err(error) = outbox.send(message) {
                tracing::debug!(session.id = %self.stored.id(), "A message for the agent is dropped: {error}");
            }
        }
    }

    /// While an agent leaves this many answers unread, it is not read either.
    pub(super) fn is_agent_deaf(&self) -> bool {
        matches!(&self.phase, Phase::Running(agent) if agent.unsent.len() >= UNSENT_MAX)
    }

    pub(super) async fn die_of_log(&mut self) {
        let detail = self.journal.health().lost.unwrap_or_else(|| "the event log takes no more lines".into());
        self.die(EndReason::LogFailed, Some(detail)).await;
    }
}

/// What of a frame goes into the log as it came.
fn params(frame: &Frame) -> Option<&[u8]> {
    match frame {
        Frame::Update { params, .. } => Some(params),
        _ => None,
    }
}

/// The end of a turn as the agent's answer tells it: its stop reason verbatim, or its error.
pub(super) fn turn_ended(
    result: &Result<Box<RawValue>, RpcError>,
    at: maestro_protocol::Timestamp,
) -> TurnLine {
    let origin = Origin::Person;
    match result {
        Ok(result) => {
            let result: Value =
                maestro_protocol::json::from_slice(result.get().as_bytes()).unwrap_or_default();
            let reason = result["stopReason"].as_str().unwrap_or("unknown").to_owned();
            let mut usage = serde_json::Map::new();
            for (key, value) in [("usage", &result["usage"]), ("quota", &result["_meta"]["quota"])] {
                if !value.is_null() {
                    usage.insert(key.into(), value.clone());
                }
            }
            let usage = (!usage.is_empty()).then_some(Value::Object(usage));
            TurnLine::Ended { origin, reason, error: None, usage, at }
        }
        Err(error) => {
            let mut told = json!({"code": error.code, "message": error.message});
            if let Some(data) = &error.data {
                told["data"] = data.clone();
            }
            TurnLine::Ended { origin, reason: "error".into(), error: Some(told), usage: None, at }
        }
    }
}
