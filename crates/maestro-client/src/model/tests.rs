use super::*;
use maestro_protocol::{RowTimes, StateKey, StatePatch, Timestamp, TranscriptRowKind, TurnState};
use proptest::prelude::*;
use serde_json::json;

fn row(id: &str, text: &str) -> TranscriptRow {
    let data = json!({"content": {"type": "text", "text": text}});
    TranscriptRow { id: RowId::from(id.to_owned()), kind: TranscriptRowKind::AgentText, data }
}

fn id(id: &str) -> RowId {
    RowId::from(id.to_owned())
}

fn append(id: &str, text: &str) -> TranscriptDelta {
    TranscriptDelta::Append { row: row(id, text) }
}

fn patch_row(id: &str, text: &str) -> TranscriptDelta {
    TranscriptDelta::Patch { row: row(id, text) }
}

fn append_text(row: &str, offset: u64, text: &str) -> TranscriptDelta {
    TranscriptDelta::AppendText { id: id(row), offset, text: text.into() }
}

fn snapshot(cursor: Cursor, rows: Vec<TranscriptRow>) -> Frame {
    Frame::TranscriptSnapshot { cursor, rows, times: Times::new(), older: false }
}

fn update(cursor: Cursor, transcript: Vec<TranscriptDelta>) -> Frame {
    Frame::ProjectionUpdate { cursor, transcript, state: ReducedState::default(), times: Times::new() }
}

/// Applies deltas to a model that holds the row `a` with the text `one`, and expects these rows or a gap.
#[track_caller]
fn check(deltas: Vec<TranscriptDelta>, expect: Result<&[(&str, &str)], Gap>) {
    let mut model = TranscriptModel::default();
    assert_eq!(model.apply(snapshot(1, vec![row("a", "one")])), Ok(Applied::Snapshot));
    let applied = model.apply(update(2, deltas)).map(|_| model.rows().to_vec());
    assert_eq!(applied, expect.map(|rows| rows.iter().map(|(id, text)| row(id, text)).collect()));
    for held in model.rows() {
        assert_eq!(model.row(&held.id), Some(held), "every row is found by its id");
    }
}

#[test]
fn deltas_change_rows() {
    check(vec![append("b", "two")], Ok(&[("a", "one"), ("b", "two")]));
    check(vec![append("b", "two"), patch_row("a", "1")], Ok(&[("a", "1"), ("b", "two")]));
    check(vec![append("a", "again")], Ok(&[("a", "again")]));
    check(vec![patch_row("unknown", "x")], Ok(&[("a", "one")]));
    check(vec![append("b", "two"), TranscriptDelta::Remove { id: id("a") }], Ok(&[("b", "two")]));
    check(
        vec![
            append("b", "2"),
            TranscriptDelta::Remove { id: id("a") },
            patch_row("b", "3"),
            append("c", "4"),
        ],
        Ok(&[("b", "3"), ("c", "4")]),
    );
    check(vec![TranscriptDelta::Remove { id: id("unknown") }], Ok(&[("a", "one")]));
}

#[test]
fn text_is_appended_where_it_belongs() {
    check(vec![append_text("a", 3, " more")], Ok(&[("a", "one more")]));
    check(vec![append("b", "é🦀"), append_text("b", 3, "!")], Ok(&[("a", "one"), ("b", "é🦀!")]));
    check(vec![append_text("a", 3, "😀"), append_text("a", 5, "x")], Ok(&[("a", "one😀x")]));
    check(vec![append_text("unknown", 9, "x")], Ok(&[("a", "one")]));
    check(vec![append_text("a", 4, "x")], Err(Gap { row_id: id("a"), offset: 4, held: 3 }));
    check(vec![append_text("a", 0, "x")], Err(Gap { row_id: id("a"), offset: 0, held: 3 }));
}

#[test]
fn a_snapshot_replaces_everything() {
    let mut model = TranscriptModel::default();
    model.apply(snapshot(5, vec![row("a", "1"), row("b", "2")])).expect("no gap");
    model.apply(snapshot(9, vec![row("c", "3")])).expect("no gap");
    assert_eq!(model.cursor(), 9);
    assert_eq!(model.rows(), [row("c", "3")]);
    assert_eq!(model.row(&id("a")), None);
}

#[test]
fn an_update_names_its_rows_and_moves_state_and_times() {
    let mut model = TranscriptModel::default();
    model.apply(snapshot(1, vec![row("a", "1")])).expect("no gap");
    let state = ReducedState { title: Some("t".into()), ..ReducedState::default() };
    assert_eq!(model.apply(Frame::ReducedState { state: state.clone() }), Ok(Applied::State));
    assert_eq!(model.state(), &state);

    let moment = Timestamp::from_millisecond(1000);
    let times = Times::from([(id("b"), RowTimes([moment, moment]))]);
    let transcript = vec![append("b", "2"), patch_row("a", "3")];
    let frame = Frame::ProjectionUpdate {
        cursor: 4,
        transcript,
        state: ReducedState::default(),
        times: times.clone(),
    };
    assert_eq!(model.apply(frame), Ok(Applied::Update(vec![id("b"), id("a")])));
    assert_eq!((model.cursor(), model.times()), (4, &times));
    assert_eq!(model.state(), &ReducedState::default());
}

fn text_update(cursor: Cursor, transcript: Vec<TranscriptDelta>, state: StatePatch) -> TextFrame {
    TextFrame::ProjectionUpdate { cursor, transcript, state, times: Times::new() }
}

#[test]
fn a_text_frame_lengthens_rows_and_lays_its_keys_over_the_state() {
    let mut model = TranscriptModel::default();
    model.apply(snapshot(1, vec![row("a", "e\u{301}\u{1F980}")])).expect("no gap");
    let title = ReducedState { title: Some("t".into()), ..ReducedState::default() };
    model.apply(TextFrame::ReducedState { state: title.clone() }).expect("no gap");

    let turn =
        ReducedState { turn: TurnState { active: true, ..TurnState::default() }, ..ReducedState::default() };
    let patch = StatePatch::of(turn.clone(), &[StateKey::Turn]);
    let frame = text_update(2, vec![append_text("a", 4, "\u{1F980}"), append_text("a", 6, "z")], patch);
    assert_eq!(model.apply(frame), Ok(Applied::Update(vec![id("a"), id("a")])));
    assert_eq!(model.rows(), [row("a", "e\u{301}\u{1F980}\u{1F980}z")]);
    assert_eq!(model.state(), &ReducedState { turn: turn.turn.clone(), ..title });

    let cleared = StatePatch::of(ReducedState::default(), &[StateKey::Title]);
    model
        .apply(text_update(3, vec![patch_row("a", "new"), append_text("a", 3, "er")], cleared))
        .expect("no gap");
    assert_eq!(model.rows(), [row("a", "newer")]);
    assert_eq!((model.cursor(), model.state()), (3, &turn));
}

#[test]
fn a_text_that_does_not_fit_is_a_gap_and_changes_no_text() {
    let mut model = TranscriptModel::default();
    model.apply(snapshot(1, vec![row("a", "\u{1F980}")])).expect("no gap");
    for offset in [0, 1, 3, 4] {
        let gap = Err(Gap { row_id: id("a"), offset, held: 2 });
        assert_eq!(
            model.apply(text_update(2, vec![append_text("a", offset, "x")], StatePatch::default())),
            gap
        );
        assert_eq!((model.cursor(), model.rows()), (1, &[row("a", "\u{1F980}")][..]));
    }
    model.apply(text_update(2, vec![append_text("a", 2, "x")], StatePatch::default())).expect("it fits");
}

#[test]
fn of_a_tail_changes_of_older_rows_are_ignored() {
    let mut model = TranscriptModel::default();
    let frame =
        Frame::TranscriptSnapshot { cursor: 5, rows: vec![row("b", "2")], times: Times::new(), older: true };
    model.apply(frame).expect("no gap");
    assert!(model.has_older());
    let moment = Timestamp::from_millisecond(1000);
    let frame = TextFrame::ProjectionUpdate {
        cursor: 7,
        transcript: vec![
            append_text("a", 99, "x"),
            patch_row("a", "y"),
            append("c", "3"),
            append_text("b", 1, "!"),
        ],
        state: StatePatch::default(),
        times: ["a", "b"].map(|row| (id(row), RowTimes([moment, moment]))).into(),
    };
    model.apply(frame).expect("no gap");
    assert_eq!(model.rows(), [row("b", "2!"), row("c", "3")]);
    assert_eq!(model.times().keys().collect::<Vec<_>>(), [&id("b")]);
    model.apply(snapshot(9, vec![row("a", "1")])).expect("no gap");
    assert!(!model.has_older());
}

proptest! {
    /// Text that comes in pieces gives the row that one patch with the whole text gives.
    #[test]
    fn pieces_and_patches_agree(pieces in proptest::collection::vec("\\PC{0,5}", 0..12)) {
        let mut pieced = TranscriptModel::default();
        let mut patched = TranscriptModel::default();
        for model in [&mut pieced, &mut patched] {
            model.apply(snapshot(1, vec![row("a", "")])).expect("no gap");
        }
        let mut text = String::new();
        for (cursor, piece) in (2..).zip(&pieces) {
            pieced.apply(update(cursor, vec![append_text("a", utf16_len(&text), piece)])).expect("no gap");
            text.push_str(piece);
            patched.apply(update(cursor, vec![patch_row("a", &text)])).expect("no gap");
        }
        prop_assert_eq!(pieced, patched);
    }
}
