//! Every recording with a restart between any two lines.

use crate::{build, trace};
use maestro_projection::{Line, StateFold, Step};
use maestro_protocol::Cursor;
use std::collections::BTreeMap;

/// From so many boundaries per log the rest is folded anew. At the others, equality of the resumed fold is enough:
/// a fold's next step depends on nothing else.
const RUNS: usize = 12;

#[test]
fn a_fold_resumed_at_any_line_goes_on_as_before() {
    for trace in trace::all() {
        for log in build::logs(&trace) {
            let lines = log.lines.iter().map(|line| Line::parse(line)).collect::<Vec<_>>();
            let mut fold = StateFold::new();
            let mut steps = Vec::new();
            let mut stored = BTreeMap::new();
            let mut resumed = vec![StateFold::new()];
            let every = lines.len().div_ceil(RUNS).max(1);
            for (cursor, line) in (1..).zip(&lines) {
                steps.push(fold.apply(cursor, line));
                stored.insert(cursor, fold.checkpoint());
                let again = resume(&stored, cursor);
                assert_eq!(again, fold, "{} at line {cursor}", trace.name);
                resumed.push(again);
            }
            for (done, start) in resumed.into_iter().enumerate().step_by(every) {
                let (end, rest) = run(start, done, &lines);
                assert_eq!(rest, steps[done..], "{} from line {done}", trace.name);
                assert_eq!(end.state(), fold.state(), "{} from line {done}", trace.name);
                assert_eq!(end, fold, "{} from line {done}", trace.name);
            }
        }
    }
}

/// From the checkpoint at a line and those that it names.
fn resume(stored: &BTreeMap<Cursor, Vec<u8>>, cursor: Cursor) -> StateFold {
    StateFold::resume(&stored[&cursor], |at| stored.get(&at).cloned().ok_or(at)).unwrap().unwrap()
}

fn run(mut fold: StateFold, done: usize, lines: &[Line]) -> (StateFold, Vec<Step>) {
    let rest = (done as u64 + 1..).zip(&lines[done..]);
    let step = |(cursor, line): (Cursor, &Line)| {
        let step = fold.apply(cursor, line);
        // Stored at every line, as the fold that it is compared with was.
        fold.checkpoint();
        step
    };
    let steps = rest.map(step).collect();
    (fold, steps)
}
