//! A transcript so long that its old rows are packed, with lines that come late to any of them.

use crate::client::Client;
use maestro_projection::{Applied, DeltaForm, Line, Projection, StateFold, fold_row};
use maestro_protocol::{Cursor, RowId, TranscriptRow};
use std::collections::BTreeMap;

/// Numbers that look like chance and are the same each time.
fn chance(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % below
}

/// New calls and messages, and every third line something to an older one, near or far.
fn lines(seed: u64, count: usize) -> Vec<String> {
    let mut state = seed;
    let mut born = 0;
    let mut lines = Vec::new();
    for number in 0..count {
        let is_late = number % 3 == 2;
        let which = if is_late { chance(&mut state, born) } else { born };
        born += u64::from(!is_late);
        let body = "x ".repeat(usize::try_from(chance(&mut state, 400)).unwrap());
        let update = match which % 3 {
            0 => format!(
                r#""sessionUpdate":"agent_message_chunk","messageId":"m{which}","content":{{"type":"text","text":"é {number} {body}"}}"#
            ),
            1 if is_late => format!(
                r#""sessionUpdate":"tool_call_update","toolCallId":"t{which}","status":"completed","rawOutput":{{"n":1.5e3,"out":"{body}"}}"#
            ),
            1 => format!(r#""sessionUpdate":"tool_call","toolCallId":"t{which}","title":"{body}""#),
            // Of such a row JSON would make another one.
            _ => format!(
                r#""sessionUpdate":"tool_call","$serde_json::private::RawValue":"{number}","toolCallId":"r{which}""#
            ),
        };
        lines.push(format!(r#"{{"sessionId":"s","update":{{{update}}}}}"#));
    }
    lines
}

/// The rows as their own lines make them, each folded by itself.
fn folded_apart(lines: &[String]) -> Vec<TranscriptRow> {
    let (mut fold, mut rows, mut order) =
        (StateFold::new(), BTreeMap::<RowId, TranscriptRow>::new(), Vec::new());
    for (cursor, line) in (1..).zip(lines) {
        let line = Line::parse(line.as_bytes());
        for touch in fold.apply(cursor, &line).touches {
            let before = rows.remove(&touch.row_id);
            if before.is_none() {
                order.push(touch.row_id.clone());
            }
            rows.insert(touch.row_id.clone(), fold_row(before, &touch, &line));
        }
    }
    order.iter().map(|id| rows[id].clone()).collect()
}

#[test]
fn a_long_transcript_is_what_its_lines_make_of_it() {
    for seed in 0..4 {
        let lines = lines(seed, 3000);
        let mut projection = Projection::new();
        let mut clients =
            [DeltaForm::Plain, DeltaForm::Text].map(|form| (form, Client::holding(projection.snapshot())));
        let (mut slow, mut held) = (Client::holding(projection.snapshot()), projection.standing());
        for (cursor, line) in (1 as Cursor..).zip(&lines) {
            let applied = projection.apply(cursor, line.as_bytes());
            projection.pack();
            assert!(matches!(applied, Applied::Line { .. }), "{line}");
            for (form, client) in &mut clients {
                projection.deltas(&applied, *form).into_iter().for_each(|delta| client.take(delta));
            }
            if cursor % 700 == 0 {
                let (deltas, _) = projection.grown_since(&held);
                for delta in deltas {
                    slow.take(delta);
                }
                held = projection.standing();
            }
        }
        let (deltas, _) = projection.grown_since(&held);
        for delta in deltas {
            slow.take(delta);
        }
        let rows = folded_apart(&lines);
        assert!(rows.len() > 1500, "{} rows", rows.len());
        assert_eq!(projection.snapshot().rows, rows, "seed {seed}");
        assert_eq!(projection.tail(900).0, rows[rows.len() - 900..], "seed {seed}");
        for (form, client) in clients {
            assert_eq!(client.rows, rows, "seed {seed}, {form:?}");
        }
        assert_eq!(slow.rows, rows, "seed {seed}, a slow reader");
        for row in &rows {
            assert_eq!(projection.row(&row.id).as_deref(), Some(row), "seed {seed}");
        }
    }
}
