//! A session's frames as sockets take them: the lines are the agent's and the daemon's own.

use super::{Overlay, Wire};
use crate::session::handle::{Frames, Held, View};
use maestro_projection::{DeltaForm, Projection};
use maestro_protocol::{Frame, Nonce, PendingApproval, RowId, TextFrame, TranscriptDelta, TurnState};
use serde_json::{Value, json};
use uuid::Uuid;

/// A log and what is told of it.
#[derive(Default)]
struct Told {
    projection: Projection,
    wire: Wire,
    overlay: Overlay,
}

impl Told {
    fn line(&mut self, line: &Value) {
        let cursor = self.projection.cursor() + 1;
        let applied = self.projection.apply(cursor, line.to_string().as_bytes());
        self.wire.note(cursor, &applied);
    }

    fn says(&mut self, message: &str, text: &str) {
        let content = json!({"type": "text", "text": text});
        let update =
            json!({"sessionUpdate": "agent_message_chunk", "messageId": message, "content": content});
        self.line(&json!({"sessionId": "s", "update": update}));
    }

    fn ask(&mut self, row: &str) {
        let (nonce, row_id) = (Some(Nonce::from_uuid(Uuid::nil())), RowId::from(row.to_owned()));
        self.overlay.pending_approval =
            Some(PendingApproval { nonce, row_id, options: Vec::new(), decisions: Vec::new() });
    }

    fn snapshot(&mut self, tail: Option<usize>) -> Frames {
        let view = View { form: DeltaForm::Text, tail };
        self.wire.snapshot(&self.projection, self.overlay.clone(), view)
    }

    fn changes(&mut self, held: &Held, form: DeltaForm) -> Frames {
        self.wire.changes(&self.projection, self.overlay.clone(), held, form)
    }

    /// The one text frame, as JSON, without times; and what is held after it.
    fn text(&mut self, held: &Held) -> (Value, Held) {
        let Frames { held, frames } = self.changes(held, DeltaForm::Text);
        let [frame] = frames.as_slice() else { panic!("{} frames", frames.len()) };
        drop(serde_json::from_slice::<TextFrame>(&frame.whole()).expect("a frame of the text form"));
        let mut frame: Value = serde_json::from_slice(&frame.whole()).expect("JSON");
        frame.as_object_mut().expect("an object").remove("times");
        (frame, held)
    }
}

fn update(cursor: u64, transcript: &Value, state: &Value) -> Value {
    json!({"type": "ProjectionUpdate", "cursor": cursor, "transcript": transcript, "state": state})
}

#[test]
fn a_text_frame_holds_what_is_new_since_what_the_socket_holds() {
    let mut told = Told::default();
    told.says("m", "\u{1F980}");
    let first = told.snapshot(None).held;
    told.says("m", "a");
    let grown = |offset: u64, text: &str| json!([{"type": "AppendText", "id": "agent:m", "offset": offset, "text": text}]);
    let (frame, second) = told.text(&first);
    assert_eq!(frame, update(2, &grown(2, "a"), &json!({})));
    told.says("m", "b");
    assert_eq!(told.text(&second).0, update(3, &grown(3, "b"), &json!({})));
    assert_eq!(told.text(&first).0, update(3, &grown(2, "ab"), &json!({})), "an older one gets all of it");
    let third = told.text(&first).1;
    assert_eq!(told.changes(&third, DeltaForm::Text).frames.len(), 0, "nothing is new");
}

#[test]
fn a_text_frame_names_the_keys_of_the_state_that_changed() {
    let mut told = Told::default();
    told.line(&json!({"maestroEvent": "summary", "summary": "t", "at": "2026-01-01T00:00:00Z"}));
    let first = told.snapshot(None).held;
    told.says("m", "a");
    let (frame, second) = told.text(&first);
    assert_eq!(frame["state"], json!({}));
    told.line(&json!({"maestroEvent": "summary", "summary": "", "at": "2026-01-01T00:00:00Z"}));
    assert_eq!(told.text(&second).0["state"], json!({"title": null}), "null is cleared");

    // What is in no log is compared with what was shown.
    told.ask("approval:1");
    let (frame, third) = told.text(&second);
    assert_eq!(frame["state"]["pending_approval"]["row_id"], "approval:1");
    told.says("m", "b");
    let (frame, fourth) = told.text(&third);
    assert_eq!(frame["state"], json!({}));
    told.overlay = Overlay::default();
    told.says("m", "c");
    assert_eq!(told.text(&fourth).0["state"], json!({"pending_approval": null}));
    assert_eq!(told.text(&third).0["state"], json!({"pending_approval": null}));

    // A turn that is ahead of the log, until the log is there.
    let fifth = told.snapshot(None).held;
    told.overlay.turn = Some(TurnState { turn_id: Some("turn:9".into()), ..TurnState::default() });
    told.says("m", "d");
    let (frame, sixth) = told.text(&fifth);
    assert_eq!(frame["state"]["turn"]["turn_id"], "turn:9");
    told.overlay.turn = None;
    told.says("m", "e");
    assert_eq!(told.text(&sixth).0["state"]["turn"]["turn_id"], Value::Null);
}

#[test]
fn a_tail_is_the_last_rows_and_says_that_there_are_older_ones() {
    let mut told = Told::default();
    for message in ["a", "b", "c"] {
        told.says(message, "x");
    }
    let mut check = |tail: Option<usize>, expect: &[&str], has_older: bool| {
        let frames = told.snapshot(tail).frames;
        let snapshot = serde_json::from_slice(&frames[0].whole()).expect("a frame");
        let Frame::TranscriptSnapshot { cursor, rows, older, .. } = snapshot else { panic!("{snapshot:?}") };
        let ids = rows.iter().map(|row| row.id.as_str()).collect::<Vec<_>>();
        assert_eq!((cursor, ids.as_slice(), older), (3, expect, has_older), "{tail:?}");
    };
    check(None, &["agent:a", "agent:b", "agent:c"], false);
    check(Some(0), &[], true);
    check(Some(2), &["agent:b", "agent:c"], true);
    check(Some(3), &["agent:a", "agent:b", "agent:c"], false);
    check(Some(usize::MAX), &["agent:a", "agent:b", "agent:c"], false);
}

#[test]
fn an_answer_is_made_once_for_all_sockets_that_hold_the_same() {
    let mut told = Told::default();
    told.says("m", "a");
    let held = told.snapshot(None).held;
    told.says("m", "b");
    for form in [DeltaForm::Plain, DeltaForm::Text] {
        let [one, two] = [(), ()].map(|()| told.changes(&held, form).frames);
        assert_eq!(one[0].whole().as_ptr(), two[0].whole().as_ptr(), "{form:?}");
        told.ask("approval:1");
        let three = told.changes(&held, form).frames;
        assert_ne!(one[0].whole(), three[0].whole(), "the state is another now");
        told.overlay = Overlay::default();
    }
}

/// The text form costs what is new, whoever looks when; the plain form costs the row again with each look.
#[test]
fn text_frames_grow_with_the_text_and_not_with_its_square() {
    let bytes = |form: DeltaForm| {
        let mut told = Told::default();
        told.says("m", "x");
        let (mut held, mut bytes) = (told.snapshot(None).held, 0);
        for _ in 0..256 {
            told.says("m", &"x".repeat(1024));
            let frames = told.changes(&held, form);
            bytes += frames.frames.iter().map(|text| text.whole().len()).sum::<usize>();
            held = frames.held;
        }
        bytes
    };
    let text = 256 * 1024;
    assert!(bytes(DeltaForm::Text) < text + 256 * 256, "{}", bytes(DeltaForm::Text));
    assert!(bytes(DeltaForm::Plain) > 100 * text);
}

#[test]
fn a_line_is_announced_by_what_it_does() {
    let mut told = Told::default();
    let check = |told: &mut Told, expect: (u64, u64, u64)| {
        let pulse = told.wire.pulse(told.projection.cursor(), 0);
        assert_eq!((pulse.reshaped, pulse.streamed, pulse.growing), expect);
    };
    told.says("m", "abc");
    check(&mut told, (1, 0, 0));
    told.says("m", "\u{1F980}");
    check(&mut told, (1, 2, 5));
    told.says("m", "d");
    check(&mut told, (1, 3, 6));
    told.line(&json!({"maestroEvent": "clock", "at": "2026-01-01T00:00:00Z"}));
    check(&mut told, (1, 3, 6));
    told.line(&json!({"sessionId": "s", "update": {"sessionUpdate": "tool_call", "toolCallId": "t"}}));
    check(&mut told, (5, 3, 6));
    told.line(&json!({"maestroEvent": "summary", "summary": "t", "at": "2026-01-01T00:00:00Z"}));
    check(&mut told, (6, 3, 6));
}

/// A socket that is far behind gets each row once, so an answer is never longer than a snapshot but for what names the
/// deltas.
#[test]
fn an_answer_is_bounded_by_the_transcript() {
    let mut told = Told::default();
    told.says("m0", "x");
    let held = told.snapshot(None).held;
    for n in 0..2000 {
        told.says(&format!("m{}", n % 20), "some words of a text");
    }
    let snapshot: usize = told.snapshot(None).frames.iter().map(|text| text.whole().len()).sum();
    for form in [DeltaForm::Plain, DeltaForm::Text] {
        let frames = told.changes(&held, form).frames;
        assert!(
            frames[0].whole().len() < snapshot + 20 * 40,
            "{form:?}: {} and {snapshot}",
            frames[0].whole().len()
        );
        let frame: Value = serde_json::from_slice(&frames[0].whole()).expect("JSON");
        let deltas: Vec<TranscriptDelta> =
            serde_json::from_value(frame["transcript"].clone()).expect("deltas");
        assert_eq!(deltas.len(), 20, "{form:?}");
    }
}
