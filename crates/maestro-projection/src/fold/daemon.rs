//! The daemon's own lines (CONTRACT §5.2).

use super::prompt::OpenPrompt;
use super::{StateFold, Step};
use crate::tool::{self, Mention};
use crate::touch::Action;
use maestro_protocol::{
    ApprovalLine, Cursor, Envelope, LastEnd, Origin, RowId, SessionLine, SessionLineEvent, StateKey,
    TranscriptRowKind, TurnLine, TurnState,
};
use serde_json::Value;

impl StateFold {
    pub(super) fn envelope(&mut self, cursor: Cursor, envelope: &Envelope, step: &mut Step) {
        match envelope {
            Envelope::Approval(approval) => self.approval(approval, step),
            Envelope::ApprovalResolved(resolved) => {
                // What is not open is settled already or was never asked.
                if let Some(at) = self.unsettled_approvals.iter().position(|id| *id == resolved.row_id) {
                    step.touch(self.unsettled_approvals.remove(at), Action::Outcome);
                }
            }
            Envelope::Turn(turn) => self.turn_line(cursor, turn, step),
            Envelope::Summary(summary) => step.mark(StateKey::Title, self.title.rename(&summary.summary)),
            Envelope::Session(session) => self.session(session, step),
            Envelope::Notice(_) => {
                step.touch(RowId::keyed("notice", cursor), Action::Notice);
                self.open_row = None;
            }
            Envelope::Clock(_) => {}
        }
    }

    fn approval(&mut self, approval: &ApprovalLine, step: &mut Step) {
        let row = &approval.row;
        if row.kind != TranscriptRowKind::Approval || !row.id.as_str().starts_with("approval:") {
            return;
        }
        // The call's row first, so that a call known only from its request stands above the request.
        if let Some((_, call)) = tool::of_request(&row.data) {
            self.tool_mention(Mention::Approval, call, step);
        }
        step.touch(row.id.clone(), Action::Approval);
        self.open_row = None;
        self.indicate(None, step);
        if !self.unsettled_approvals.contains(&row.id) {
            self.unsettled_approvals.push(row.id.clone());
        }
    }

    fn turn_line(&mut self, cursor: Cursor, line: &TurnLine, step: &mut Step) {
        self.open_row = None;
        let before = std::mem::take(&mut self.turn);
        match line {
            TurnLine::Started { origin, message_id, queue_item, request, at } => {
                let own = message_id.clone().filter(|_| *origin == Origin::Person);
                self.prompt = own.map(|id| OpenPrompt::announced(id, *queue_item, request.clone(), *at));
                self.turn = TurnState {
                    active: true,
                    origin: Some(*origin),
                    active_tool_calls: before.active_tool_calls.clone(),
                    turn_id: Some(format!("turn:{cursor}")),
                    started_at: Some(*at),
                    last_end: before.last_end.clone(),
                    ..TurnState::default()
                };
            }
            TurnLine::Ended { reason, error, usage, at, .. } => {
                self.prompt = None;
                if std::mem::take(&mut self.is_unheard) && error.is_some() {
                    self.has_prompt = false;
                }
                self.turn.active_tool_calls.clone_from(&before.active_tool_calls);
                self.settle(step);
                self.turn.last_end = Some(LastEnd {
                    turn_id: before.turn_id.clone(),
                    reason: reason.clone(),
                    error: error.clone(),
                    at: *at,
                });
                step.spent = before.active.then(|| super::spent::turn(usage.as_ref()));
                if let Some(last_turn) = usage {
                    let usage = self.usage.get_or_insert_default();
                    step.mark(StateKey::Usage, usage.last_turn.as_ref() != Some(last_turn));
                    usage.last_turn = Some(last_turn.clone());
                }
            }
        }
        step.mark(StateKey::Turn, self.turn != before);
    }

    fn session(&mut self, line: &SessionLine, step: &mut Step) {
        if matches!(line.event, SessionLineEvent::Opened | SessionLineEvent::Loaded) {
            // A new process goes on with nothing that the old one had open.
            self.open_row = None;
            self.settle(step);
        }
        self.offers(step, |fold, step| {
            if let Some(modes) = &line.modes {
                fold.mode.see_handshake(modes, "currentModeId", "availableModes");
            }
            if let Some(models) = &line.models {
                fold.model.see_handshake(models, "currentModelId", "availableModels");
            }
            let patched = fold.with_choice(line);
            fold.new_config_options(line.config_options.as_ref().or(patched.as_ref()), step);
            fold.mode.choose(line.mode_id.clone().map(Value::String).as_ref());
            fold.model.choose(line.model_id.clone().map(Value::String).as_ref());
        });
        self.see_choice(line);
    }

    /// Closes every open call: nobody will report about them any more, as far as anybody knows (CONTRACT §8.5).
    fn settle(&mut self, step: &mut Step) {
        for call in std::mem::take(&mut self.turn.active_tool_calls) {
            step.touch(RowId::tool(&call), Action::Settle);
            step.mark(StateKey::Turn, true);
        }
    }
}
