use super::{block_text, cut, diff};
use crate::terminal::{Paint, clean, clean_line};
use serde_json::Value;

/// How much of a tool's output is shown.
const OUTPUT_LINES_MAX: usize = 10;
const TITLE_CHARS_MAX: usize = 160;
const OUTPUT_CHARS_MAX: usize = 200;

/// A tool call as a card: a head, the files it changes, and what it printed.
pub(crate) struct Card<'a> {
    data: &'a Value,
    status: Status,
}

/// Where a tool call stands, in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Pending,
    Running,
    Done,
    Failed,
    Cancelled,
    /// Its turn ended before it did (CONTRACT §8.5). What it began may run on.
    Unfinished,
}

impl Status {
    fn words(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Unfinished => "unfinished",
        }
    }
}

impl<'a> Card<'a> {
    pub(crate) fn read(data: &'a Value) -> Self {
        let is_settled = data.pointer("/_meta/maestro/settled").is_some();
        let status = match data.get("status").and_then(Value::as_str) {
            Some("completed") => Status::Done,
            Some("failed") => Status::Failed,
            Some("cancelled") => Status::Cancelled,
            _ if is_settled => Status::Unfinished,
            Some("in_progress") => Status::Running,
            _ => Status::Pending,
        };
        Self { data, status }
    }

    /// Whether nothing more is expected of it.
    pub(crate) fn is_over(&self) -> bool {
        !matches!(self.status, Status::Pending | Status::Running)
    }

    /// Its name and where it stands, on one line.
    pub(crate) fn head(&self, paint: Paint) -> String {
        let title = self.data.get("title").and_then(Value::as_str).filter(|title| !title.trim().is_empty());
        let kind = self.data.get("kind").and_then(Value::as_str);
        let title = cut(&clean_line(title.or(kind).unwrap_or("tool call")), TITLE_CHARS_MAX);
        let words = format!("[{}]", self.status.words());
        let words = match self.status {
            Status::Pending | Status::Running => paint.dim(&words),
            Status::Done => paint.green(&words),
            Status::Failed => paint.red(&words),
            Status::Cancelled | Status::Unfinished => paint.yellow(&words),
        };
        format!("{} {} {words}\n", paint.cyan("●"), paint.bold(&title))
    }

    /// The changes to files, in short.
    pub(crate) fn diffs(&self, paint: Paint) -> String {
        let diffs = self.content().filter(|block| block.get("type").and_then(Value::as_str) == Some("diff"));
        diffs.map(|block| diff::short(block, paint)).collect()
    }

    /// The first lines of what it printed.
    pub(crate) fn output(&self, paint: Paint) -> String {
        let text = clean(&self.output_text());
        let lines: Vec<&str> = text.trim_matches('\n').lines().collect();
        let shown = lines.iter().take(OUTPUT_LINES_MAX).filter(|_| !text.trim().is_empty());
        let mut out: String =
            shown.map(|line| paint.dim(&format!("  │ {}", cut(line, OUTPUT_CHARS_MAX))) + "\n").collect();
        if lines.len() > OUTPUT_LINES_MAX {
            out += &(paint.dim(&format!("  │ … {} more lines", lines.len() - OUTPUT_LINES_MAX)) + "\n");
        }
        out
    }

    /// All of it.
    pub(super) fn whole(&self, paint: Paint) -> String {
        self.head(paint) + &self.diffs(paint) + &self.output(paint)
    }

    fn content(&self) -> impl Iterator<Item = &'a Value> {
        self.data.get("content").and_then(Value::as_array).into_iter().flatten()
    }

    /// What it printed: its content, else what its terminal showed, else its raw output where that is text.
    fn output_text(&self) -> String {
        let blocks =
            self.content().filter(|block| block.get("type").and_then(Value::as_str) == Some("content"));
        let texts: Vec<String> = blocks.filter_map(|block| block.get("content")).map(block_text).collect();
        let from_content = texts.join("\n");
        if !from_content.trim().is_empty() {
            return from_content;
        }
        let elsewhere = ["/_meta/terminal_output_delta/data", "/_meta/terminal_output/data", "/rawOutput"];
        let found = elsewhere.iter().find_map(|place| self.data.pointer(place).and_then(Value::as_str));
        found.unwrap_or_default().to_owned()
    }
}
