use super::*;
use maestro_protocol::{RowTimes, Timestamp, TranscriptRowKind};
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

fn patch(id: &str, text: &str) -> TranscriptDelta {
    TranscriptDelta::Patch { row: row(id, text) }
}

fn append_text(row: &str, offset: u64, text: &str) -> TranscriptDelta {
    TranscriptDelta::AppendText { id: id(row), offset, text: text.into() }
}

fn snapshot(cursor: Cursor, rows: Vec<TranscriptRow>) -> Frame {
    Frame::TranscriptSnapshot { cursor, rows, times: Times::new() }
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
    check(vec![append("b", "two"), patch("a", "1")], Ok(&[("a", "1"), ("b", "two")]));
    check(vec![append("a", "again")], Ok(&[("a", "again")]));
    check(vec![patch("unknown", "x")], Ok(&[("a", "one")]));
    check(vec![append("b", "two"), TranscriptDelta::Remove { id: id("a") }], Ok(&[("b", "two")]));
    check(
        vec![append("b", "2"), TranscriptDelta::Remove { id: id("a") }, patch("b", "3"), append("c", "4")],
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
    let transcript = vec![append("b", "2"), patch("a", "3")];
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
            patched.apply(update(cursor, vec![patch("a", &text)])).expect("no gap");
        }
        prop_assert_eq!(pieced, patched);
    }
}
