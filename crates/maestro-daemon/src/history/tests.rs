use super::{folded, index_line, page};
use maestro_log::{Committer, IndexState, LogDir, OpenReport, SessionLog};
use maestro_projection::{DeltaForm, Page, Projection, Window};
use maestro_protocol::{Cursor, SessionId};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::{fs, path::PathBuf};
use tempfile::TempDir;
use uuid::Uuid;

const ID: SessionId = SessionId::from_uuid(Uuid::nil());

/// A log with its projection, in step as the daemon keeps them.
struct Bench {
    dir: TempDir,
    logs: LogDir,
    log: SessionLog,
    projection: Projection,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let logs = LogDir::open(dir.path(), &Committer::start().expect("a committer")).expect("logs");
        let log = logs.create_log(ID).expect("a log");
        Self { dir, logs, log, projection: Projection::new() }
    }

    fn append(&mut self, line: &[u8]) {
        let cursor = self.log.append(line).expect("appended");
        let applied = self.projection.apply(cursor, line);
        let indexed = index_line(&mut self.projection, &applied, line);
        self.log.index(cursor, &indexed).expect("indexed");
    }

    /// Opens the log again, as the next daemon does.
    fn reopen(&mut self) -> OpenReport {
        let mut projection = Projection::new();
        let (log, report) = self
            .logs
            .open_log(ID, |cursor, line| {
                let applied = projection.apply(cursor, line);
                index_line(&mut projection, &applied, line)
            })
            .expect("opened");
        (self.log, self.projection) = (log, projection);
        report
    }

    fn file(&self, suffix: &str) -> PathBuf {
        self.dir.path().join(format!("{ID}.{suffix}"))
    }

    fn index_files(&self) -> [Vec<u8>; 2] {
        ["index", "checkpoints"].map(|suffix| fs::read(self.file(suffix)).expect("the index"))
    }

    /// The page made of the index is that of the full fold.
    #[track_caller]
    fn check(&self, page_at: Page, limit: u64, form: DeltaForm) {
        let window = Window { page: page_at, limit, form };
        let log = self.log.reader();
        let indexed = super::page_of(&mut super::Indexed(log.indexed().expect("an index")), window);
        let indexed = String::from_utf8(indexed.expect("the index is that of the log")).expect("JSON");
        let folded = String::from_utf8(folded(&log, window).expect("a page")).expect("JSON");
        assert!(indexed == folded, "{window:?}\n{indexed:.2000}\ninstead of\n{folded:.2000}");
    }
}

fn update(update: &Value) -> Vec<u8> {
    json!({"sessionId": "s", "update": update}).to_string().into_bytes()
}

fn text(id: u64, text: &str) -> Vec<u8> {
    update(&json!({"sessionUpdate": "agent_message_chunk", "messageId": format!("m{id}"),
        "content": {"type": "text", "text": text}}))
}

/// A turn of a busy agent, about a hundred lines long: a message in pieces, calls with output, a mode, a malformed line.
fn turn(number: u64) -> Vec<Vec<u8>> {
    let started = json!({"maestroEvent": "turn", "phase": "started", "origin": "person",
        "at": "2026-12-01T00:00:00Z"});
    let ended = json!({"maestroEvent": "turn", "phase": "ended", "origin": "person", "reason": "end_turn",
        "at": "2026-12-01T00:00:01Z"});
    let mut lines = vec![started.to_string().into_bytes()];
    lines.extend((0..60).map(|n| text(number, &format!("piece {n} \u{1F980} "))));
    for call in 0..12 {
        let call = format!("call-{number}-{call}");
        let at = |status: &str, len: usize| {
            update(&json!({"sessionUpdate": "tool_call_update", "toolCallId": call, "status": status,
                "content": [{"type": "content", "content": {"type": "text", "text": "o".repeat(len)}}]}))
        };
        lines.extend([at("pending", 10), at("in_progress", 300), at("completed", 2000)]);
    }
    lines.push(update(&json!({"sessionUpdate": "current_mode_update", "currentModeId": number.to_string()})));
    lines.push(b"not a line".to_vec());
    lines.push(ended.to_string().into_bytes());
    lines
}

fn busy(turns: u64) -> Bench {
    let mut bench = Bench::new();
    for line in (0..turns).flat_map(turn) {
        bench.append(&line);
    }
    bench
}

#[test]
fn a_page_is_made_of_the_index() {
    let bench = busy(6);
    let last = bench.log.cursor();
    for at in (0..=last + 1).step_by(23) {
        for (limit, form) in [(1, DeltaForm::Plain), (100, DeltaForm::Text)] {
            bench.check(Page::Since(at), limit, form);
            bench.check(Page::Before(at), limit, form);
        }
    }
}

#[test]
fn an_index_that_is_made_anew_is_the_one_that_was_written_live() {
    let mut bench = busy(6);
    drop(bench.reopen());
    let live = bench.index_files();
    let mut check = |what: &str, state: fn(&IndexState) -> bool, change: &dyn Fn(&Bench)| {
        change(&bench);
        let report = bench.reopen();
        assert!(state(&report.index), "{what}: {:?}", report.index);
        assert!(report.damaged.is_empty(), "{what}");
        assert!(bench.index_files() == live, "{what}");
        bench.check(Page::Since(bench.log.cursor() - 100), 100, DeltaForm::Plain);
    };
    let rebuilt = |state: &IndexState| matches!(state, IndexState::Rebuilt);
    check("untouched", |state| matches!(state, IndexState::Kept), &|_| {});
    for suffix in ["index", "checkpoints"] {
        let cut = |bench: &Bench, len: u64| {
            let file = fs::OpenOptions::new().write(true).open(bench.file(suffix)).expect("the file");
            file.set_len(len).expect("cut");
        };
        check("lost", rebuilt, &|bench| fs::remove_file(bench.file(suffix)).expect("removed"));
        check("short", rebuilt, &|bench| cut(bench, 9_000));
        check("torn in its header", rebuilt, &|bench| cut(bench, 3));
        check("of an older version", rebuilt, &|bench| {
            fs::write(bench.file(suffix), b"maestro\x01 and what that held").expect("written");
        });
        check("foreign", rebuilt, &|bench| fs::write(bench.file(suffix), "a text").expect("written"));
        check("wrong in its middle", rebuilt, &|bench| {
            let mut bytes = fs::read(bench.file(suffix)).expect("the file");
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            fs::write(bench.file(suffix), bytes).expect("written");
        });
    }
}

#[test]
fn a_page_of_a_wrong_index_is_folded_from_the_log() {
    let mut bench = busy(4);
    // What is still gathered in memory is not damaged with the files.
    drop(bench.reopen());
    let window = Window { page: Page::Since(250), limit: 100, form: DeltaForm::Plain };
    let right = page(ID, &bench.log.reader(), window).expect("a page");
    for suffix in ["index", "checkpoints"] {
        let good = fs::read(bench.file(suffix)).expect("the file");
        let mut seen = 0;
        for at in (40..good.len()).step_by(good.len() / 50) {
            let mut bytes = good.clone();
            bytes[at] ^= 4;
            fs::write(bench.file(suffix), bytes).expect("written");
            let log = bench.log.reader();
            seen += u32::from(
                super::page_of(&mut super::Indexed(log.indexed().expect("an index")), window).is_err(),
            );
            assert!(page(ID, &log, window).expect("a page") == right, "{suffix} at {at}");
        }
        assert!(seen > 0, "no damage of {suffix} was on the page");
        fs::write(bench.file(suffix), good).expect("written");
    }
}

#[test]
fn a_log_without_an_index_has_pages() {
    let mut bench = Bench::new();
    fs::remove_file(bench.file("index")).expect("removed");
    fs::create_dir(bench.file("index")).expect("in the way");
    assert!(matches!(bench.reopen().index, IndexState::Off(_)));
    bench.log.append(&text(1, "one")).expect("appended");
    let log = bench.log.reader();
    assert!(log.indexed().is_none());
    let window = Window { page: Page::Since(0), limit: 1, form: DeltaForm::Plain };
    let page = page(ID, &log, window).expect("a page");
    assert!(String::from_utf8_lossy(&page).contains("one"));
}

fn any_line() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => (0..4_u64, 0..3_usize).prop_map(|(id, n)| text(id, &"a\u{e9}\"".repeat(n * n * n * 400))),
        4 => (0..3_u8, 0..4_usize).prop_map(|(id, n)| {
            let status = ["pending", "in_progress", "completed", "odd"][n];
            update(&json!({"sessionUpdate": "tool_call_update", "toolCallId": id.to_string(), "status": status,
                "rawOutput": "o".repeat(n * 3000)}))
        }),
        1 => Just(br#"{"maestroEvent":"turn","phase":"ended","origin":"agent","reason":"x","at":"2026-12-01T00:00:00Z"}"#.to_vec()),
        1 => Just(Vec::new()),
        1 => prop::collection::vec(any::<u8>().prop_filter("one line", |byte| *byte != b'\n'), 0..9),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn pages_and_index_hold_whatever_a_crash_leaves(
        lines in prop::collection::vec(any_line(), 1..300),
        torn in any_line(),
        lost in 0.0..1.0_f64,
        at in 0..320_u64,
    ) {
        let mut bench = Bench::new();
        for line in &lines {
            bench.append(line);
        }
        // A crash: the last line is torn, and of the index a part is not there.
        let mut bytes = fs::read(bench.file("events.jsonl")).expect("the log");
        bytes.extend(&torn);
        fs::write(bench.file("events.jsonl"), &bytes).expect("written");
        let index = bench.index_files();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss,
            reason = "a share of a small number")]
        let kept = (index[0].len() as f64 * lost) as usize;
        fs::write(bench.file("index"), &index[0][..kept]).expect("written");
        let report = bench.reopen();
        prop_assert!(report.damaged.is_empty());
        prop_assert_eq!(report.torn, !torn.is_empty());
        for form in [DeltaForm::Plain, DeltaForm::Text] {
            bench.check(Page::Since(at), 20, form);
            bench.check(Page::Before(at as Cursor), 20, form);
        }
        drop(bench.reopen());
        let live = bench.index_files();
        fs::remove_file(bench.file("checkpoints")).expect("removed");
        drop(bench.reopen());
        prop_assert!(bench.index_files() == live);
    }
}
