use super::{THINKING, approval, notice, plan, tool::Card, user_text};
use crate::terminal::{Paint, Sanitiser};
use maestro_protocol::{RowId, TranscriptRow, TranscriptRowKind};
use serde_json::Value;
use std::{borrow::Cow, collections::HashMap};

/// Prints rows while they change: of a growing text only what is new, of a tool call each new state, its changes and its
/// output once. Pure: takes rows, returns what to print next. Prompts are left out, since the person who sees the
/// stream has just typed one.
pub(crate) struct RowStream {
    paint: Paint,
    shown: HashMap<RowId, Shown>,
    /// The text row whose line is still open.
    open: Option<RowId>,
    /// The row that was printed last.
    last: Option<RowId>,
}

/// How much of a row was printed.
enum Shown {
    Text(Box<ShownText>),
    Tool { head: String, diffs: String, output: bool },
    Line(String),
}

struct ShownText {
    n_bytes: usize,
    sanitiser: Sanitiser,
    /// Newlines at the end that wait for more text: a block ends without empty lines.
    held_newlines: usize,
}

impl ShownText {
    fn new() -> Self {
        Self { n_bytes: 0, sanitiser: Sanitiser::new(), held_newlines: 0 }
    }

    /// What is new in the text, cleaned. Where it does not continue an open line it starts without empty lines.
    fn take(&mut self, text: &str, continues: bool) -> String {
        let piece = text.get(self.n_bytes..).unwrap_or_default();
        self.n_bytes = self.n_bytes.max(text.len());
        let fresh = "\n".repeat(self.held_newlines) + &self.sanitiser.push(piece);
        let kept = fresh.trim_end_matches('\n');
        self.held_newlines = fresh.len() - kept.len();
        if continues { kept.to_owned() } else { kept.trim_start_matches('\n').to_owned() }
    }
}

impl RowStream {
    pub(crate) fn new(paint: Paint) -> Self {
        Self { paint, shown: HashMap::new(), open: None, last: None }
    }

    /// Takes a row as seen already: only what changes later is printed.
    pub(crate) fn skip(&mut self, row: &TranscriptRow) {
        let before = (self.open.take(), self.last.clone());
        let _printed_by_somebody_else: String = self.row(row);
        (self.open, self.last) = before;
    }

    /// What to print for a row that was born or has changed.
    pub(crate) fn row(&mut self, row: &TranscriptRow) -> String {
        match row.kind {
            TranscriptRowKind::User => String::new(),
            TranscriptRowKind::AgentText | TranscriptRowKind::AgentThought => self.text(row),
            TranscriptRowKind::ToolCall | TranscriptRowKind::ToolDiff => self.tool(row),
            TranscriptRowKind::Approval => {
                let settled = approval::outcome(&row.data).map(|_| approval::settled(&row.data, self.paint));
                self.line(&row.id, &settled.unwrap_or_default())
            }
            TranscriptRowKind::Plan => self.line(&row.id, &plan::checklist(&row.data, self.paint)),
            TranscriptRowKind::Notice => self.line(&row.id, &notice::line(&row.data, self.paint)),
        }
    }

    /// Ends the line that a text left open.
    pub(crate) fn end_line(&mut self) -> String {
        if self.open.take().is_some() { "\n".into() } else { String::new() }
    }

    fn text(&mut self, row: &TranscriptRow) -> String {
        // A block that is no text has a row of its own and never grows; its words serve as its text.
        let is_text = row.data.pointer("/content/text").and_then(Value::as_str);
        let text = is_text.map_or_else(|| Cow::Owned(user_text(&row.data)), Cow::Borrowed);
        let mut shown = match self.shown.remove(&row.id) {
            Some(Shown::Text(shown)) => shown,
            Some(Shown::Tool { .. } | Shown::Line(_)) | None => Box::new(ShownText::new()),
        };
        let continues = self.open.as_ref() == Some(&row.id);
        let fresh = shown.take(&text, continues);
        self.shown.insert(row.id.clone(), Shown::Text(shown));
        if fresh.is_empty() {
            return String::new();
        }
        let is_thought = row.kind == TranscriptRowKind::AgentThought;
        let start = if continues { String::new() } else { self.start_block(&row.id) };
        let label = if !continues && is_thought { THINKING } else { "" };
        self.open = Some(row.id.clone());
        let words = format!("{label}{fresh}");
        start + &if is_thought { self.paint.dim(&words) } else { words }
    }

    fn tool(&mut self, row: &TranscriptRow) -> String {
        let card = Card::read(&row.data);
        let (head, diffs, over) = (card.head(self.paint), card.diffs(self.paint), card.is_over());
        let (old_head, old_diffs, old_output) = match self.shown.remove(&row.id) {
            Some(Shown::Tool { head, diffs, output }) => (head, diffs, output),
            Some(Shown::Text(_) | Shown::Line(_)) | None => (String::new(), String::new(), false),
        };
        let mut out = String::new();
        if head != old_head {
            out += &head;
        }
        if diffs != old_diffs {
            out += &diffs;
        }
        if over && !old_output {
            out += &card.output(self.paint);
        }
        self.shown.insert(row.id.clone(), Shown::Tool { head, diffs, output: over || old_output });
        self.block(&row.id, &out)
    }

    fn line(&mut self, id: &RowId, line: &str) -> String {
        let shown = Shown::Line(line.to_owned());
        match self.shown.insert(id.clone(), shown) {
            Some(Shown::Line(old)) if old == line => String::new(),
            Some(Shown::Line(_) | Shown::Text(_) | Shown::Tool { .. }) | None => self.block(id, line),
        }
    }

    fn block(&mut self, id: &RowId, lines: &str) -> String {
        if lines.is_empty() { String::new() } else { self.start_block(id) + lines }
    }

    /// Ends an open line, and leaves a blank one between rows. What is told of one row again follows at once.
    fn start_block(&mut self, id: &RowId) -> String {
        let open = self.open.take().is_some();
        let last = self.last.replace(id.clone());
        match last {
            Some(last) if last == *id && !open => String::new(),
            Some(_) if open => "\n\n".into(),
            Some(_) => "\n".into(),
            None => String::new(),
        }
    }
}
