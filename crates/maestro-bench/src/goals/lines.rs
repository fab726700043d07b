//! Logs as sessions write them, and the fold of them.

use crate::{
    figure::{Bound, Figure},
    stage::Bench,
    stats::{median, number},
};
use anyhow::Result;
use maestro_projection::{Applied, Projection};
use rustix::time::{ClockId, clock_gettime};
use std::{fmt::Write as _, hint::black_box};

/// A log of about so many bytes: of twenty lines fourteen are text, four are tools with some kilobytes of code, one is
/// a thought, one usage; a message has forty chunks.
pub(super) fn log_of(bytes: usize) -> String {
    let mut code = Code::default();
    let mut log = String::with_capacity(bytes + 8192);
    for number in 0_u64.. {
        if log.len() >= bytes {
            break;
        }
        let (message, tool) = (number / 57, number / 10);
        let update = match number % 20 {
            3 | 13 => format!(
                r#""sessionUpdate":"tool_call","toolCallId":"t{tool}","title":"make","kind":"edit","status":"in_progress","rawInput":{{"content":"{}"}}"#,
                code.lines(40)
            ),
            7 | 17 => format!(
                r#""sessionUpdate":"tool_call_update","toolCallId":"t{tool}","status":"completed","rawOutput":"{}""#,
                code.lines(80)
            ),
            5 => format!(
                r#""sessionUpdate":"agent_thought_chunk","messageId":"h{message}","content":{{"type":"text","text":"weighing it up, number {number}"}}"#
            ),
            11 => format!(r#""sessionUpdate":"usage_update","used":{number},"size":200000"#),
            _ => format!(
                r#""sessionUpdate":"agent_message_chunk","messageId":"m{message}","content":{{"type":"text","text":"some words of an answer, number {number} "}}"#
            ),
        };
        // A String takes everything.
        writeln!(log, r#"{{"sessionId":"bench","update":{{{update}}}}}"#).unwrap_or_default();
    }
    log
}

/// Source text of which no two lines are alike, as a JSON string: made of few words and many numbers.
#[derive(Default)]
struct Code {
    state: u64,
}

impl Code {
    fn word(&mut self) -> &'static str {
        const WORDS: [&str; 16] = [
            "count", "index", "buffer", "reader", "state", "value", "entry", "cursor", "result", "limit",
            "frame", "signal", "worker", "offset", "handle", "token",
        ];
        // Numbers that look like chance and are the same in each run.
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        WORDS[usize::try_from(self.state >> 60).unwrap_or_default()]
    }

    fn lines(&mut self, n: usize) -> String {
        let mut text = String::new();
        for _ in 0..n {
            let number = self.state >> 47;
            let (a, b, c) = (self.word(), self.word(), self.word());
            // A String takes everything.
            write!(text, r#"    let {a}_{number} = self.{b}.{c}(\"{c}\", {a});\n"#).unwrap_or_default();
        }
        text
    }
}

/// Processor time of this thread that `work` takes, in seconds.
fn cpu_seconds(work: impl FnOnce()) -> f64 {
    let now = || {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        number(now.tv_sec.cast_unsigned()) + number(now.tv_nsec.cast_unsigned()) / 1e9
    };
    let begin = now();
    work();
    now() - begin
}

/// Folds every line.
pub(super) fn refold(log: &[u8]) -> Projection {
    let mut projection = Projection::new();
    for (line, cursor) in log.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).zip(1..) {
        black_box(projection.apply(cursor, line));
    }
    projection
}

/// As a session's opening does: with the rows of old lines packed.
fn reopened(log: &[u8]) -> Projection {
    let mut projection = Projection::new();
    for (line, cursor) in log.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).zip(1..) {
        black_box(projection.apply(cursor, line));
        projection.pack();
    }
    projection
}

/// How many rows a log makes.
pub(super) fn rows_in(log: &[u8]) -> usize {
    let mut projection = Projection::new();
    let lines = log.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).zip(1..);
    let born = lines.map(|(line, cursor)| match projection.apply(cursor, line) {
        Applied::Line { changes, .. } => changes.iter().filter(|change| change.born).count(),
        Applied::Malformed => 0,
    });
    born.sum()
}

pub(super) async fn fold(bench: Bench) -> Result<Vec<Figure>> {
    let log = log_of(bench.size(4 << 20, 100 << 20));
    let bytes = number(log.len());
    let measured = tokio::task::spawn_blocking(move || {
        let (mut fold, mut packed, mut values, mut scan) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for _ in 0..bench.runs() {
            fold.push(cpu_seconds(|| drop(black_box(refold(log.as_bytes())))));
            packed.push(cpu_seconds(|| drop(black_box(reopened(log.as_bytes())))));
            values.push(cpu_seconds(|| {
                log.lines().for_each(|line| drop(black_box(serde_json::from_str::<serde_json::Value>(line))));
            }));
            scan.push(cpu_seconds(|| {
                black_box(memchr::memchr_iter(b'\n', log.as_bytes()).count());
            }));
        }
        [median(&fold), median(&packed), median(&values), median(&scan)]
    })
    .await?;
    let [fold, packed, values, scan] = measured.map(|seconds| bytes / seconds / 1e9);
    Ok(vec![
        Figure::new("G7", "fold of a log, one core", fold, "GB/s").at_least(1.0).beside(
            "parse to values",
            values,
            Some(Bound::AtLeast(1.7)),
        ),
        Figure::new("G7", "the same, beside a scan for newlines", fold, "GB/s").beside(
            "memchr",
            scan,
            Some(Bound::AtLeast(0.07)),
        ),
        Figure::new("G7", "the same, with old rows packed, as a session opens", packed, "GB/s").beside(
            "parse to values",
            values,
            None,
        ),
    ])
}
