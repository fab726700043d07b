//! Every recording, folded, against its reviewed snapshot.

use crate::{build, render, trace};
use maestro_projection::{Applied, Projection};
use std::fmt::Write as _;

#[test]
fn every_recording_folds_to_its_snapshot() {
    let mut settings = insta::Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_snapshot_path("../snapshots");
    settings.set_omit_expression(true);
    let _bound = settings.bind_to_scope();
    for trace in trace::all() {
        let mut text = String::new();
        for log in build::logs(&trace) {
            let mut projection = Projection::new();
            for (cursor, line) in (1..).zip(&log.lines) {
                assert_ne!(projection.apply(cursor, line), Applied::Malformed, "{} {cursor}", trace.name);
            }
            let lines = log.lines.len();
            writeln!(text, "== {lines} lines").unwrap();
            text += &render::projection(&projection);
        }
        insta::assert_snapshot!(trace.name.clone(), text);
    }
}
