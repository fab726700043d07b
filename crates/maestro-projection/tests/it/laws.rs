//! What holds for every log, over random ones.

use crate::client::Client;
use crate::lines::{self, Lines};
use maestro_projection::{
    Applied, DeltaForm, Line, MAX_EVENTS, Page, Projection, RowChange, StateFold, Touch, Window, fold_row,
    replay,
};
use maestro_protocol::{Cursor, ReplayEvent, StateKey, StatePatch, TranscriptDelta, TranscriptRow};
use proptest::prelude::*;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;

fn folded(lines: &Lines) -> Projection {
    let mut projection = Projection::new();
    for (cursor, line) in (1..).zip(lines) {
        projection.apply(cursor, line);
    }
    projection
}

fn split() -> impl Strategy<Value = (Lines, usize)> {
    lines::log().prop_flat_map(|lines| {
        let end = lines.len();
        (Just(lines), 0..=end)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_resumed_fold_is_the_fold((lines, at) in split()) {
        let mut fold = StateFold::new();
        for (cursor, line) in (1..).zip(&lines[..at]) {
            fold.apply(cursor, &Line::parse(line));
        }
        let stored = fold.checkpoint();
        let mut resumed = StateFold::resume(&stored, |_| Err(())).unwrap().unwrap();
        prop_assert_eq!(&resumed, &fold);
        for (cursor, line) in (at as Cursor + 1..).zip(&lines[at..]) {
            let line = Line::parse(line);
            prop_assert_eq!(resumed.apply(cursor, &line), fold.apply(cursor, &line));
        }
        prop_assert_eq!(&resumed, &fold);
        prop_assert_eq!(resumed.state(), folded(&lines).state());
    }

    #[test]
    fn a_snapshot_and_the_deltas_after_it_are_the_later_snapshot((lines, at) in split()) {
        let mut projection = folded(&lines[..at].to_vec());
        let start = projection.snapshot();
        let mut times = projection.times();
        let mut clients = [DeltaForm::Plain, DeltaForm::Text].map(|form| (form, Client::holding(start.clone())));
        for (cursor, line) in (at as Cursor + 1..).zip(&lines[at..]) {
            let applied = projection.apply(cursor, line);
            for (form, client) in &mut clients {
                projection.deltas(&applied, *form).into_iter().for_each(|delta| client.take(delta));
            }
        }
        let (since, since_times) = projection.changed_since(start.cursor);
        let mut late = Client::holding(start);
        for delta in since {
            late.take(delta);
        }
        times.extend(since_times);
        let end = projection.snapshot();
        prop_assert_eq!(end.cursor, lines.len() as Cursor);
        prop_assert_eq!(&late.rows, &end.rows);
        for (_, client) in clients {
            prop_assert_eq!(&client.rows, &end.rows);
        }
        prop_assert_eq!(times, projection.times());
    }

    /// A reader that looks after any number of lines, each time from where it stands, holds what is there, in both
    /// forms; with the last rows only, it holds these.
    #[test]
    fn frames_at_any_splits_are_the_snapshot_at_the_end(
        lines in lines::log(),
        looks in prop::collection::vec(any::<bool>(), 48),
        tail in 0..4_usize,
    ) {
        let mut projection = Projection::new();
        let mut standing = projection.standing();
        let mut state = projection.state();
        let (mut text, mut plain, mut last) = (Client::default(), Client::default(), Client::of_a_tail());
        let mut held = 0;
        for ((cursor, line), look) in (1..).zip(&lines).zip(looks) {
            projection.apply(cursor, line);
            if !look && cursor != lines.len() as Cursor {
                continue;
            }
            let (changed, times) = projection.changed_since(standing.cursor());
            let (grown, text_times) = projection.grown_since(&standing);
            prop_assert_eq!(text_times, times);
            prop_assert_eq!(grown.len(), changed.len());
            for delta in changed {
                plain.take(delta);
            }
            if standing.cursor() == 0 {
                let (rows, _, older) = projection.tail(tail);
                prop_assert_eq!((rows.len(), older), (tail.min(plain.rows.len()), tail < plain.rows.len()));
                held = plain.rows.len() - rows.len();
                for row in rows {
                    last.take(TranscriptDelta::Append { row });
                }
            } else {
                for delta in &grown {
                    last.take(delta.clone());
                }
            }
            for delta in grown {
                text.take(delta);
            }
            let keys = projection.state_changed_since(standing.cursor());
            StatePatch::of(projection.state(), &keys).apply(&mut state);
            standing = projection.standing();
            prop_assert_eq!(standing.cursor(), cursor);
        }
        prop_assert_eq!(&plain.rows, &projection.snapshot().rows);
        prop_assert_eq!(&text.rows, &plain.rows);
        prop_assert_eq!(&last.rows, &plain.rows[held..]);
        prop_assert_eq!(state, projection.state());
    }

    #[test]
    fn a_row_is_made_of_the_lines_that_touch_it(lines in lines::log()) {
        let mut projection = Projection::new();
        let mut changes = BTreeMap::<Cursor, Vec<RowChange>>::new();
        let mut newest = BTreeMap::new();
        for (cursor, line) in (1..).zip(&lines) {
            if let Applied::Line { changes: of_line, .. } = projection.apply(cursor, line) {
                for change in &of_line {
                    prop_assert_eq!(change.born, change.prev == 0);
                    newest.insert(change.row_id.clone(), cursor);
                }
                changes.insert(cursor, of_line);
            }
        }
        for (row_id, mut cursor) in newest {
            let mut chain = Vec::new();
            while cursor != 0 {
                let change = changes[&cursor].iter().find(|change| change.row_id == row_id).unwrap();
                chain.push((cursor, change.action));
                cursor = change.prev;
            }
            let fold = |row: Option<TranscriptRow>, (cursor, action): &(Cursor, _)| {
                let touch = Touch { row_id: row_id.clone(), action: *action };
                Some(fold_row(row, &touch, &Line::parse(&lines[usize::try_from(*cursor).unwrap() - 1])))
            };
            let row = chain.iter().rev().fold(None, fold);
            prop_assert_eq!(row, projection.row(&row_id).map(Cow::into_owned));
        }
    }

    #[test]
    fn a_line_names_exactly_the_state_keys_that_it_changed(lines in lines::log()) {
        let mut projection = Projection::new();
        let mut before = serde_json::to_value(projection.state()).unwrap();
        for (cursor, line) in (1..).zip(&lines) {
            let applied = projection.apply(cursor, line);
            let after = serde_json::to_value(projection.state()).unwrap();
            let changed = after.as_object().unwrap().iter().filter(|(key, value)| before[key.as_str()] != **value);
            let changed = changed.map(|(key, _)| Value::from(key.as_str()));
            let changed = changed.map(|key| serde_json::from_value::<StateKey>(key).unwrap()).collect::<Vec<_>>();
            let named = if let Applied::Line { state, .. } = applied { state } else { Vec::new() };
            prop_assert_eq!(named, changed);
            before = after;
        }
    }

    #[test]
    fn a_quiet_line_leaves_the_fold_as_it_is(lines in lines::log()) {
        let mut fold = StateFold::new();
        for (cursor, line) in (1..).zip(&lines) {
            let mut passed = fold.clone();
            let line = Line::parse(line);
            if fold.apply(cursor, &line).is_quiet {
                // A line that changes nothing at all brings the cursor along.
                passed.apply(cursor, &Line::parse(br#"{"maestroEvent":"later"}"#));
                prop_assert_eq!(&passed, &fold);
            }
        }
    }

    #[test]
    fn pages_put_together_are_the_whole_log(lines in lines::log(), limit in 0..9_u64) {
        let mut projection = Projection::new();
        let mut all = Vec::new();
        for (cursor, line) in (1..).zip(&lines) {
            let applied = projection.apply(cursor, line);
            if applied != Applied::Malformed {
                let transcript = projection.deltas(&applied, DeltaForm::Text);
                all.push(ReplayEvent { cursor, transcript, state: projection.state() });
            }
        }
        let page = |page| replay(lines.iter(), Window { page, limit, form: DeltaForm::Text });
        let mut forward = Vec::new();
        let mut next = Some(0);
        while let Some(since) = next {
            let page = page(Page::Since(since));
            prop_assert!(page.events.len() as u64 <= limit.clamp(1, MAX_EVENTS));
            prop_assert_eq!(page.prev, page.events.first().filter(|_| !forward.is_empty()).map(|event| event.cursor));
            forward.extend(page.events);
            next = page.next;
        }
        prop_assert_eq!(&forward, &all);
        let mut backward = Vec::new();
        let mut prev = Some(lines.len() as Cursor + 1);
        while let Some(before) = prev {
            let mut page = page(Page::Before(before));
            prop_assert_eq!(page.next, page.events.last().filter(|_| !backward.is_empty()).map(|event| event.cursor));
            page.events.append(&mut backward);
            backward = page.events;
            prev = page.prev;
        }
        prop_assert_eq!(&backward, &all);
    }

    #[test]
    fn what_the_daemon_alone_writes_never_comes_from_an_agent(lines in lines::log()) {
        for row in folded(&lines).snapshot().rows {
            let marks = &row.data["_meta"]["maestro"];
            let marks = marks.as_object().cloned().unwrap_or_default();
            for (mark, value) in marks {
                let is_ours = match mark.as_str() {
                    "settled" => value == "interrupted" && row.id.as_str().starts_with("tool:"),
                    "outcome" => value["what"] == "cancelled" && row.id.as_str().starts_with("approval:"),
                    "blocks" => row.id.as_str() == "user:p",
                    _ => false,
                };
                prop_assert!(is_ours, "{mark}: {value} in {}", row.id);
            }
            prop_assert!(row.data["toolCall"]["_meta"]["maestro"].is_null());
        }
    }

    #[test]
    fn no_json_and_no_bytes_make_a_fold_panic(
        values in prop::collection::vec(lines::json_value(), 0..12),
        garbage in prop::collection::vec(any::<u8>(), 0..200),
        cursors in prop::collection::vec(any::<u64>(), 13),
    ) {
        let lines = values.iter().map(|value| value.to_string().into_bytes()).chain([garbage]);
        let mut projection = Projection::new();
        for (cursor, line) in cursors.into_iter().zip(lines) {
            let applied = projection.apply(cursor, &line);
            projection.deltas(&applied, DeltaForm::Text);
            projection.changed_since(cursor / 2);
        }
    }
}
