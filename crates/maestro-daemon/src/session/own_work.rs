//! What the actor does about turns that its agent starts by itself (CONTRACT §8.6).

use crate::session::{
    actor::{Phase, SessionActor},
    own_turns::{Open, OwnTurns},
    turn::{TurnEffect, TurnInput},
};
use maestro_acp::{Frame, Stir, stir};
use maestro_log::AppendError;
use maestro_protocol::{Envelope, Origin, RowId, TurnLine};
use tokio::time::Instant;

impl SessionActor {
    /// Opens a turn of the agent's own if `frame` shows work that nobody asked for. The line comes before the frame's
    /// own; when it fails nothing has happened.
    pub(super) fn before_frame(&mut self, frame: &Frame) -> Result<(), AppendError> {
        let now = Instant::now();
        self.own_turns.hear(now);
        let (next, effects) = self.turn.on(TurnInput::Stirs);
        if effects.contains(&TurnEffect::AppendStartedByAgent)
            && self.own_turns.may_open(now)
            && self.shows_work(frame)
        {
            let at = self.around.sources.clock.now();
            let started = TurnLine::Started {
                origin: Origin::Agent,
                message_id: None,
                queue_item: None,
                request: None,
                at,
            };
            self.journal.append_envelope(&Envelope::Turn(started))?;
            self.turn = next;
        }
        Ok(())
    }

    /// Whether work that the agent shows now would open a turn of its own.
    pub(super) fn is_stirred(&self) -> bool {
        self.turn.on(TurnInput::Stirs).1.contains(&TurnEffect::AppendStartedByAgent)
    }

    fn shows_work(&self, frame: &Frame) -> bool {
        match frame {
            Frame::PermissionRequest(_) => true,
            other => match stir(other) {
                Some(Stir::Text) => true,
                Some(Stir::Call(id)) => !self.journal.projection().has_row(&RowId::tool(&id)),
                None => false,
            },
        }
    }

    /// Ends the agent's own turn if `frame`, which is in the log by now, marks its end.
    pub(super) fn after_frame(&mut self, frame: &Frame) {
        if self.own_turns.is_end(frame) {
            self.end_own_turn(TurnInput::Marked);
        }
    }

    /// The agent was silent for long, in a turn of its own.
    pub(super) fn on_quiet(&mut self) {
        self.end_own_turn(TurnInput::Quiet);
    }

    /// What came right after a cancel has passed.
    pub(super) fn on_hush_over(&mut self) {
        self.turn = self.turn.on(TurnInput::HushOver).0;
    }

    fn end_own_turn(&mut self, input: TurnInput) {
        let (next, effects) = self.turn.on(input);
        self.turn = next;
        let reason = match effects.first() {
            Some(TurnEffect::AppendEndedAsMarked) => "end_turn",
            Some(TurnEffect::AppendEndedAsQuiet) => "quiet",
            _ => return,
        };
        if self.append_turn_end(reason).is_err() {
            tracing::debug!("The log is lost; its next flush says so");
        }
        self.after_flush_quietly();
    }

    /// When the silence in a turn of the agent's own has lasted long enough. Silence while the agent is not read, or
    /// while it cannot be told something, is not its own.
    pub(super) fn quiet_end(&self) -> Option<Instant> {
        let (_, effects) = self.turn.on(TurnInput::Quiet);
        if effects.is_empty() || self.is_stalled() || self.is_agent_deaf() {
            return None;
        }
        let asks = self.approvals.is_open() || !self.deciding.is_empty();
        let open = match asks {
            true => Open::Approval,
            false if self.journal.projection().has_open_call() => Open::Call,
            false => Open::Nothing,
        };
        self.own_turns.quiet_end(open)
    }

    /// When the prompts that wait for the end of a cancelled turn of the agent's own may go on.
    pub(super) fn hush_end(&self) -> Option<Instant> {
        let (_, effects) = self.turn.on(TurnInput::HushOver);
        self.own_turns.hush_end().filter(|_| !effects.is_empty())
    }

    /// Begins to watch for turns of this agent's own.
    pub(super) fn watch_own_turns(&mut self) {
        if let Phase::Running(agent) = &self.phase {
            self.own_turns = OwnTurns::new(&agent.entry, Instant::now());
        }
    }
}
