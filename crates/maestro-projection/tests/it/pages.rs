//! A page made from a log's index is the page that folding the whole log gives, byte for byte.

use crate::history::{Indexed, Whole};
use crate::{build, lines, trace};
use maestro_projection::{DeltaForm, MAX_EVENTS, Page, Window};
use maestro_protocol::Cursor;
use proptest::prelude::*;
use serde_json::{Value, json};

const FORMS: [DeltaForm; 2] = [DeltaForm::Plain, DeltaForm::Text];

/// The line with its long lists and texts cut: thousands of pages begin with these lines.
fn shortened(line: &[u8]) -> Vec<u8> {
    fn shorten(value: &mut Value) {
        match value {
            Value::String(text) => *text = text.chars().take(40).collect(),
            Value::Array(values) => {
                values.truncate(1);
                values.iter_mut().for_each(shorten);
            }
            Value::Object(fields) => fields.values_mut().for_each(shorten),
            _ => {}
        }
    }
    let Ok(mut value) = serde_json::from_slice::<Value>(line) else { return line.to_vec() };
    shorten(&mut value);
    value.to_string().into_bytes()
}

#[test]
fn every_page_of_every_recording_is_that_of_a_full_fold() {
    let mut stored = 0;
    for trace in trace::all() {
        for log in build::logs(&trace) {
            let lines: Vec<_> = log.lines.iter().map(|line| shortened(line)).collect();
            let indexed = Indexed::of(&lines);
            stored += indexed.marks.iter().filter(|marks| marks.checkpoint.is_some()).count();
            let wholes = FORMS.map(|form| Whole::of(&lines, form));
            let check =
                |form: usize, at| wholes[form % 2].check(&trace.name, at, |window| indexed.page(window));
            let limits = [1, 2, 1, 1, 6].into_iter().cycle();
            for ((n, at), limit) in (0..).zip(0..lines.len() as Cursor + 2).zip(limits) {
                check(n, (Page::Since(at), limit));
                check(n + 1, (Page::Before(at), limit));
            }
            check(0, (Page::Since(0), MAX_EVENTS));
            check(1, (Page::Before(Cursor::MAX), MAX_EVENTS));
        }
    }
    assert!(stored > 40, "only {stored} states were stored");
}

/// With the long lists and texts that agents send.
#[test]
fn the_newest_page_of_a_recording_as_it_is_is_that_of_a_full_fold() {
    for trace in trace::all().iter().step_by(5) {
        for log in build::logs(trace) {
            let whole = Whole::of(&log.lines, DeltaForm::Plain);
            let indexed = Indexed::of(&log.lines);
            whole.check(&trace.name, (Page::Before(Cursor::MAX), 100), |window| indexed.page(window));
        }
    }
}

#[test]
fn a_page_reads_few_lines_that_are_not_its_own() {
    // One message over the whole log, and a call beside it that is updated for ever: their chains are as long as it.
    let lines: Vec<_> = (0..6000)
        .map(|number| match number % 3 {
            0 => json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "in_progress", "n": number}),
            1 => json!({"sessionUpdate": "agent_message_chunk", "messageId": "m",
                "content": {"type": "text", "text": "some words "}}),
            _ => json!({"sessionUpdate": "usage_update", "used": number, "size": 9}),
        })
        .map(|update| json!({"sessionId": "s", "update": update}).to_string().into_bytes())
        .collect();
    let indexed = Indexed::of(&lines);
    for page in [Page::Since(5980), Page::Before(5980), Page::Since(3001), Page::Since(0)] {
        let read = indexed.lines_read(Window { page, limit: 10, form: DeltaForm::Text });
        // Its own, those after a stored state, and of each of two rows those since it was stored.
        assert!(read <= 10 + 64 + 2 * 64 * 1024 / 256, "{page:?} read {read} lines");
    }
    let stored: usize = indexed
        .marks
        .iter()
        .flat_map(|marks| &marks.touches)
        .filter_map(|mark| mark.checkpoint.as_ref())
        .map(Vec::len)
        .sum();
    let bytes: usize = lines.iter().map(|line| line.len() + 256).sum();
    assert!(stored > 0 && stored < 2 * bytes, "{stored} bytes of rows for {bytes} bytes of lines");
}

#[test]
fn a_large_state_is_stored_once_and_not_with_every_line_that_leaves_it() {
    let plan = |text: &str| json!({"sessionUpdate": "plan", "entries": [{"content": text.repeat(50_000)}]});
    let chunk = json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "word "}});
    let calls = (0..3000).map(|n| json!({"sessionUpdate": "tool_call", "toolCallId": format!("call-{n}")}));
    let updates = [vec![plan("a")], vec![chunk.clone(); 1000], vec![plan("b")], vec![chunk; 1000]].concat();
    let lines = |updates: &mut dyn Iterator<Item = Value>| -> Vec<Vec<u8>> {
        updates.map(|update| json!({"sessionId": "s", "update": update}).to_string().into_bytes()).collect()
    };
    let stored = |lines: &[Vec<u8>]| -> usize {
        Indexed::of(lines).marks.iter().filter_map(|marks| marks.checkpoint.as_ref()).map(Vec::len).sum()
    };
    let plans = stored(&lines(&mut updates.into_iter()));
    assert!((100_000..150_000).contains(&plans), "two plans took {plans} bytes");
    let calls = lines(&mut calls.into_iter());
    let bytes: usize = calls.iter().map(Vec::len).sum();
    let open = stored(&calls);
    assert!(open < bytes + 64 * 1024, "{open} bytes of states for {bytes} bytes of lines");
    let whole = Whole::of(&calls, DeltaForm::Plain);
    let indexed = Indexed::of(&calls);
    whole.check("open calls", (Page::Since(2900), 5), |window| indexed.page(window));
}

/// Lines that make rows heavy enough to be stored by themselves.
fn heavy() -> impl Strategy<Value = Vec<u8>> {
    let text = (0..4_usize, 1..9_usize)
        .prop_map(|(letter, n)| ["x", "\u{e9}\"", "\u{1F980}", "\n"][letter].repeat(n * 1000));
    (text, 0..4_u8).prop_map(|(text, kind)| {
        let block = json!({"type": "text", "text": text});
        let update = match kind {
            0 => json!({"sessionUpdate": "agent_message_chunk", "messageId": "m1", "content": block}),
            1 => json!({"sessionUpdate": "tool_call_update", "toolCallId": "t1", "content": [block]}),
            2 => json!({"sessionUpdate": "tool_call_update", "toolCallId": "t2",
                "_meta": {"terminal_output_delta": {"data": text}}}),
            _ => json!({"sessionUpdate": "plan", "entries": [block]}),
        };
        json!({"sessionId": "s", "update": update}).to_string().into_bytes()
    })
}

/// Long enough for several stored states.
fn log() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let part = (lines::log(), prop::collection::vec(heavy(), 0..6), 1..4_usize);
    prop::collection::vec(part, 1..7).prop_map(|parts| {
        let parts = parts.into_iter().map(|(mut lines, heavy, times)| {
            for (at, line) in heavy.into_iter().enumerate() {
                lines.insert((at * 7).min(lines.len()), line);
            }
            vec![lines; times].concat()
        });
        parts.flatten().collect()
    })
}

fn window() -> impl Strategy<Value = (f64, bool, u64, usize)> {
    (0.0..=1.05, any::<bool>(), prop_oneof![1..9_u64, Just(60), Just(MAX_EVENTS)], 0..2_usize)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn every_page_is_that_of_a_full_fold(lines in log(), windows in prop::collection::vec(window(), 8)) {
        let indexed = Indexed::of(&lines);
        let wholes = FORMS.map(|form| Whole::of(&lines, form));
        for (n, (at, is_since, limit, form)) in windows.into_iter().enumerate() {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss,
                reason = "a share of a few hundred lines")]
            let at = (lines.len() as f64 * at) as Cursor;
            let page = if is_since { Page::Since(at) } else { Page::Before(at) };
            wholes[form].check("indexed", (page, limit), |window| indexed.page(window));
            if n == 0 {
                wholes[form].check("folded anew", (page, limit), |window| indexed.replayed(window));
            }
        }
    }
}
