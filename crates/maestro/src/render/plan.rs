use crate::terminal::{Paint, clean_line};
use serde_json::Value;

/// A plan as a checklist.
pub(super) fn checklist(data: &Value, paint: Paint) -> String {
    let entries = data.get("entries").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if entries.is_empty() {
        return String::new();
    }
    let steps = entries.iter().map(|entry| {
        let field = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
        let content = clean_line(field("content"));
        match field("status") {
            "completed" => paint.dim(&format!("  [x] {content}")) + "\n",
            "in_progress" => paint.bold(&format!("  [>] {content}")) + "\n",
            _ => format!("  [ ] {content}\n"),
        }
    });
    format!("{}\n{}", paint.cyan("plan"), steps.collect::<String>())
}
