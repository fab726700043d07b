//! What a page of history costs, against folding the whole log anew and against reading the page's own bytes; and how
//! fast a log is folded. Prints lines of `name value unit ratio`, the ratio being to the floor that the name gives, or `-`.
//!
//! `cargo bench -p maestro-daemon --bench replay`, with `-- --large` for a log of 1 GB too.

#![expect(clippy::print_stdout, reason = "it prints what it measured")]
#![expect(clippy::cast_precision_loss, reason = "figures are rounded anyway")]

use maestro_daemon::history::{index_line, page};
use maestro_log::{Committer, LogDir, SessionLog};
use maestro_projection::{DeltaForm, Page, Projection, Window, replay};
use maestro_protocol::{Cursor, SessionId};
use serde_json::{Value, json};
use std::{
    error::Error,
    fs::File,
    hint::black_box,
    os::unix::fs::FileExt as _,
    path::PathBuf,
    time::{Duration, Instant},
};
use tempfile::TempDir;

type Outcome = Result<(), Box<dyn Error>>;

const MEGABYTE: u64 = 1_000_000;
/// Pages of which the median is taken, each somewhere else near the end.
const PAGES: u64 = 101;
/// Runs of which the median is taken, of what takes long.
const RUNS: usize = 5;
const EVENTS: u64 = 100;
const ID: SessionId = SessionId::from_uuid(uuid::Uuid::nil());

fn main() -> Outcome {
    let sample = Sample::write(100 * MEGABYTE)?;
    let small = sample.measure_pages("replay.page.100MB")?;
    sample.measure_fold()?;
    drop(sample);
    if std::env::args().any(|argument| argument == "--large") {
        let sample = Sample::write(1000 * MEGABYTE)?;
        let large = sample.measure_pages("replay.page.1GB")?;
        report("replay.page.1GB_to_100MB", large / small, "x", None);
    }
    Ok(())
}

/// A log as a busy agent makes it, written as the daemon writes it.
struct Sample {
    log: SessionLog,
    path: PathBuf,
    /// Where lines end, for every line near the end.
    ends: Vec<(Cursor, u64)>,
    bytes: u64,
    dir: TempDir,
}

impl Sample {
    fn write(bytes: u64) -> Result<Self, Box<dyn Error>> {
        let dir = tempfile::tempdir()?;
        let logs = LogDir::open(dir.path(), &Committer::start()?)?;
        let log = logs.create_log(ID)?;
        let path = dir.path().join(format!("{ID}.events.jsonl"));
        let mut sample = Self { log, path, ends: Vec::new(), bytes: 0, dir };
        let mut projection = Projection::new();
        let mut random = Random(12345);
        let begun = Instant::now();
        sample.append(&mut projection, &opening())?;
        while sample.bytes < bytes {
            for line in turn(sample.log.cursor(), &mut random) {
                sample.append(&mut projection, &line)?;
            }
        }
        let rate = sample.bytes as f64 / begun.elapsed().as_secs_f64() / MEGABYTE as f64;
        report("log.append_fold_index", rate, "MB/s", None);
        let of_index = ["index", "checkpoints"].map(|suffix| {
            std::fs::metadata(sample.path.with_file_name(format!("{ID}.{suffix}")))
                .map_or(0, |file| file.len())
        });
        for (name, size) in ["log.index", "log.checkpoints"].into_iter().zip(of_index) {
            let (per_line, share) =
                (size as f64 / sample.log.cursor() as f64, size as f64 / sample.bytes as f64);
            report(name, per_line, "B/line", Some(share));
        }
        Ok(sample)
    }

    fn append(&mut self, projection: &mut Projection, line: &[u8]) -> Outcome {
        let cursor = self.log.append(line)?;
        let applied = projection.apply(cursor, line);
        self.log.index(cursor, &index_line(projection, &applied, line))?;
        self.bytes += line.len() as u64 + 1;
        self.ends.push((cursor, self.bytes));
        if self.ends.len() > 8192 {
            self.ends.drain(..4096);
        }
        Ok(())
    }

    /// Pages near the end; gives the median in microseconds.
    fn measure_pages(&self, name: &str) -> Result<f64, Box<dyn Error>> {
        let last = self.log.cursor();
        let window = |at: u64| Window {
            page: Page::Since(last - EVENTS - at * 17),
            limit: EVENTS,
            form: DeltaForm::Plain,
        };
        let reader = self.log.reader();
        let mut size = 0;
        let mut pages = Vec::new();
        for at in 0..PAGES {
            let begun = Instant::now();
            // As a request does it: the handle is made anew for each.
            let made = page(ID, &self.log.reader(), window(at))?;
            pages.push(begun.elapsed());
            size += made.len();
        }
        let file = File::open(&self.path)?;
        let mut reads = Vec::new();
        for at in 0..PAGES {
            let begun = Instant::now();
            black_box(self.read(&file, last - EVENTS - at * 17)?);
            reads.push(begun.elapsed());
        }
        let (page_us, read_us) = (micros(median(&mut pages.clone())), micros(median(&mut reads)));
        pages.sort_unstable();
        report(&format!("{name}.p50"), page_us, "us", Some(page_us / read_us));
        report(&format!("{name}.p99"), micros(pages[pages.len() * 99 / 100]), "us", None);
        report(&format!("{name}.read_of_its_bytes"), read_us, "us", Some(1.0));
        report(&format!("{name}.bytes"), size as f64 / PAGES as f64, "B", None);
        let runs = if self.bytes > 500 * MEGABYTE { 1 } else { RUNS };
        let mut folds = Vec::new();
        for _ in 0..runs {
            let begun = Instant::now();
            let folded = serde_json::to_vec(&replay(reader.lines().flatten(), window(0)))?;
            folds.push(begun.elapsed());
            assert!(folded == page(ID, &reader, window(0))?, "the page is that of the full fold");
        }
        let fold_us = micros(median(&mut folds));
        report(&format!("{name}.full_fold"), fold_us, "us", Some(fold_us / page_us));
        Ok(page_us)
    }

    /// The bytes of the page's lines.
    fn read(&self, file: &File, since: Cursor) -> Result<Vec<u8>, Box<dyn Error>> {
        let end_of = |cursor: Cursor| {
            let at = self.ends.binary_search_by_key(&cursor, |(cursor, _)| *cursor);
            at.map(|at| self.ends[at].1).map_err(|_place| "a line that was not kept")
        };
        let (start, end) = (end_of(since)?, end_of(since + EVENTS)?);
        let mut bytes = vec![0; usize::try_from(end - start)?];
        file.read_exact_at(&mut bytes, start)?;
        Ok(bytes)
    }

    /// Folding from memory, against parsing every line as JSON.
    fn measure_fold(&self) -> Outcome {
        let text = std::fs::read(&self.path)?;
        let lines: Vec<_> = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
        let rate = |time: Duration| text.len() as f64 / time.as_secs_f64() / MEGABYTE as f64;
        let (mut parses, mut folds) = (Vec::new(), Vec::new());
        for _ in 0..RUNS {
            let begun = Instant::now();
            for line in &lines {
                black_box(serde_json::from_slice::<Value>(line)?);
            }
            parses.push(begun.elapsed());
            let begun = Instant::now();
            let mut projection = Projection::new();
            for (cursor, line) in (1..).zip(&lines) {
                black_box(projection.apply(cursor, line));
            }
            folds.push(begun.elapsed());
        }
        let (parse, fold) = (rate(median(&mut parses)), rate(median(&mut folds)));
        report("fold.json_values", parse, "MB/s", Some(1.0));
        report("fold.projection", fold, "MB/s", Some(fold / parse));
        // The directory outlives what was read of it.
        black_box(&self.dir);
        Ok(())
    }
}

/// What an agent says first: modes, and as many commands as real ones have.
fn opening() -> Vec<u8> {
    let commands: Vec<_> = (0..40)
        .map(|number| json!({"name": format!("command-{number}"), "description": "what it does ".repeat(20)}))
        .collect();
    update(&json!({"sessionUpdate": "available_commands_update", "availableCommands": commands}))
}

/// A message in pieces, a few calls with their output, and what was used.
fn turn(cursor: Cursor, random: &mut Random) -> Vec<Vec<u8>> {
    let mut lines = Vec::new();
    for _ in 0..20 + random.below(80) {
        let text = format!("word{} \u{e9} and some more text ", random.below(1000));
        lines.push(update(&json!({"sessionUpdate": "agent_message_chunk",
            "content": {"type": "text", "text": text}})));
    }
    for call in 0..=random.below(4) {
        for (kind, status, repeats) in [
            ("tool_call", "pending", 40),
            ("tool_call_update", "in_progress", 600),
            ("tool_call_update", "completed", 1200),
        ] {
            let text = "x\"y\\n".repeat(repeats);
            lines.push(update(&json!({"sessionUpdate": kind, "toolCallId": format!("call-{cursor}-{call}"),
                "title": "Run", "status": status,
                "content": [{"type": "content", "content": {"type": "text", "text": text}}]})));
        }
    }
    lines.push(update(&json!({"sessionUpdate": "usage_update", "used": cursor, "size": 1_000_000})));
    lines
}

fn update(update: &Value) -> Vec<u8> {
    json!({"sessionId": "s", "update": update}).to_string().into_bytes()
}

/// The same log every time.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn report(name: &str, value: f64, unit: &str, ratio: Option<f64>) {
    let ratio = ratio.map_or("-".into(), |ratio| format!("{ratio:.3}"));
    println!("{name} {value:.1} {unit} {ratio}");
}
