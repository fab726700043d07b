//! What sockets are told of a session: the snapshot, and what came after what a socket holds, in the form it wants
//! (CONTRACT §6.3). Nothing is kept for a socket: it says itself what it holds.

mod transcript;

pub(crate) use transcript::TranscriptText;

use crate::session::handle::{Frames, Held, Pulse, Text, View};
use maestro_projection::{Applied, DeltaForm, Projection};
use maestro_protocol::{
    Cursor, Frame, PendingApproval, QueueState, ReducedState, StateKey, StatePatch, TextFrame, TurnState,
};
use serde::Serialize;
use std::{collections::BTreeMap, sync::Arc};

/// The part of the state that is in no log, or not yet.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Overlay {
    pub(super) pending_approval: Option<PendingApproval>,
    /// The turn as it stands once what is owed to the log is in it; `None` while nothing is.
    pub(super) turn: Option<TurnState>,
    /// What waits for its turn.
    pub(super) queue: Arc<QueueState>,
}

impl Overlay {
    /// The keys in which it differs from `other`.
    fn differing(&self, other: &Self) -> Vec<StateKey> {
        let pending = (StateKey::PendingApproval, self.pending_approval != other.pending_approval);
        let turn = (StateKey::Turn, self.turn != other.turn);
        let queue = (StateKey::Queue, self.queue != other.queue);
        [turn, pending, queue].into_iter().filter_map(|(key, differs)| differs.then_some(key)).collect()
    }

    fn lay_over(&self, state: ReducedState) -> ReducedState {
        let turn = self.turn.clone().unwrap_or(state.turn);
        let queue = Some(QueueState::clone(&self.queue));
        ReducedState { pending_approval: self.pending_approval.clone(), turn, queue, ..state }
    }
}

/// Makes the frames of one session.
#[derive(Debug, Default)]
pub(super) struct Wire {
    pulse: Flow,
    overlay: Overlay,
    /// Counts the changes of the overlay.
    overlay_version: u64,
    /// The version in which each key of the overlay changed last.
    overlay_changed: BTreeMap<StateKey, u64>,
    /// The newest answers, shared by sockets that hold the same.
    plain: Option<(Cursor, Frames)>,
    text: Option<(Held, Frames)>,
}

/// How the log grew lately, for the pace of sockets.
#[derive(Debug, Clone, Copy, Default)]
struct Flow {
    reshaped: Cursor,
    streamed: u64,
    growing: u64,
}

impl Wire {
    /// A line was folded.
    pub(super) fn note(&mut self, cursor: Cursor, applied: &Applied) {
        (self.plain, self.text) = (None, None);
        let Applied::Line { changes, state, .. } = applied else { return };
        let growths = changes.iter().map(|change| change.growth.as_ref()).collect::<Option<Vec<_>>>();
        match growths {
            Some(growths) if state.is_empty() => {
                for growth in growths {
                    let added = growth.text.encode_utf16().count() as u64;
                    self.pulse.streamed += added;
                    self.pulse.growing = growth.offset_utf16 + added;
                }
            }
            Some(_) | None => self.pulse.reshaped = cursor,
        }
    }

    /// What to announce, but for the end.
    pub(super) fn pulse(&self, cursor: Cursor, urgent: Cursor) -> Pulse {
        let Flow { reshaped, streamed, growing } = self.pulse;
        Pulse { cursor, urgent, reshaped, streamed, growing, overlay: self.overlay_version, ended: None }
    }

    /// The whole transcript, or its tail, and the state.
    pub(super) fn snapshot(&mut self, projection: &Projection, overlay: Overlay, view: View) -> Frames {
        self.observe(overlay);
        // Both forms begin alike.
        let transcript = TranscriptText::new(projection, view.tail.unwrap_or(usize::MAX));
        let state = Frame::ReducedState { state: self.overlay.lay_over(projection.state()) };
        Frames {
            held: self.held(projection),
            frames: vec![Text::Transcript(Box::new(transcript)), serialise(&state)],
        }
    }

    /// One frame with everything that came after what a socket holds; none if nothing did. Where that is only something
    /// beside the log, it has the cursor that the socket holds.
    pub(super) fn changes(
        &mut self,
        projection: &Projection,
        overlay: Overlay,
        held: &Held,
        form: DeltaForm,
    ) -> Frames {
        self.observe(overlay);
        if held.cursor >= projection.cursor() && held.overlay >= self.overlay_version {
            return Frames { held: self.held(projection), frames: Vec::new() };
        }
        match form {
            DeltaForm::Plain => self.plain_changes(projection, held.cursor),
            DeltaForm::Text => self.text_changes(projection, held),
        }
    }

    fn plain_changes(&mut self, projection: &Projection, since: Cursor) -> Frames {
        if let Some((from, frames)) = &self.plain
            && *from == since
        {
            return frames.clone();
        }
        let (transcript, times) = projection.changed_since(since);
        let state = self.overlay.lay_over(projection.state());
        let frame = Frame::ProjectionUpdate { cursor: projection.cursor(), transcript, state, times };
        let frames = Frames { held: self.held(projection), frames: vec![serialise(&frame)] };
        self.plain = Some((since, frames.clone()));
        frames
    }

    fn text_changes(&mut self, projection: &Projection, held: &Held) -> Frames {
        if let Some((from, frames)) = &self.text
            && from == held
        {
            return frames.clone();
        }
        let (transcript, times) = projection.grown_since(&held.standing);
        let mut keys = projection.state_changed_since(held.cursor);
        let newer = self.overlay_changed.iter().filter(|(_, version)| **version > held.overlay);
        keys.extend(newer.map(|(key, _)| *key));
        // Most frames of a stream change nothing of the state, which may be large.
        let state = if keys.is_empty() {
            StatePatch::default()
        } else {
            StatePatch::of(self.overlay.lay_over(projection.state()), &keys)
        };
        let frame = TextFrame::ProjectionUpdate { cursor: projection.cursor(), transcript, state, times };
        let frames = Frames { held: self.held(projection), frames: vec![serialise(&frame)] };
        self.text = Some((held.clone(), frames.clone()));
        frames
    }

    fn held(&self, projection: &Projection) -> Held {
        Held {
            cursor: projection.cursor(),
            streamed: self.pulse.streamed,
            overlay: self.overlay_version,
            standing: projection.standing(),
        }
    }

    /// Takes the newest part of the state that is in no log.
    pub(super) fn observe(&mut self, overlay: Overlay) {
        let differing = overlay.differing(&self.overlay);
        if differing.is_empty() {
            return;
        }
        (self.plain, self.text) = (None, None);
        self.overlay_version += 1;
        self.overlay_changed.extend(differing.into_iter().map(|key| (key, self.overlay_version)));
        self.overlay = overlay;
    }
}

/// Frames have string keys only, which JSON can always hold.
fn serialise(frame: &impl Serialize) -> Text {
    Text::Whole(serde_json::to_vec(frame).expect("a frame is always representable as JSON").into())
}

#[cfg(test)]
mod tests;
