use super::lines_of;
use crate::terminal::{Paint, clean, clean_line};
use serde_json::Value;
use similar::{ChangeTag, TextDiff};
use std::time::Duration;

/// How many lines of a diff are shown where it need not be shown whole.
const LINES_MAX: usize = 40;

/// How long a comparison may take before it settles for a coarser one.
const COMPARE_LIMIT: Duration = Duration::from_millis(200);

/// A `diff` content block as a header and its changed lines, with two lines around each change.
pub(super) fn short(block: &Value, paint: Paint) -> String {
    let text = |name: &str| block.get(name).and_then(Value::as_str);
    let (old, new) = (text("oldText"), text("newText").unwrap_or_default());
    let path = clean_line(text("path").unwrap_or("a file"));
    let what = if old.is_none() { " (new file)" } else { "" };

    let (old, new) = (clean(old.unwrap_or_default()), clean(new));
    let compared = TextDiff::configure().timeout(COMPARE_LIMIT).diff_lines(&old, &new);
    let mut lines = Vec::new();
    for (n, group) in compared.grouped_ops(2).iter().enumerate() {
        if n > 0 {
            lines.push(paint.dim("⋮"));
        }
        for change in group.iter().flat_map(|op| compared.iter_changes(op)) {
            let line = change.value().trim_end_matches('\n');
            lines.push(match change.tag() {
                ChangeTag::Delete => paint.red(&format!("- {line}")),
                ChangeTag::Insert => paint.green(&format!("+ {line}")),
                ChangeTag::Equal => paint.dim(&format!("  {line}")),
            });
        }
    }
    let n_hidden = lines.len().saturating_sub(LINES_MAX);
    lines.truncate(LINES_MAX);
    if n_hidden > 0 {
        lines.push(paint.dim(&format!("… {n_hidden} more lines")));
    }
    let body = lines_of(lines.iter().map(|line| format!("    {line}")));
    format!("  {}\n{body}", paint.bold(&format!("{path}{what}")))
}
