use super::cut;
use crate::terminal::{Paint, clean_line};
use serde_json::Value;

/// How much of a notice is shown.
const CHARS_MAX: usize = 200;

/// A notice on one line: the daemon's own sentence, or an update that nobody knows, in short.
pub(super) fn line(data: &Value, paint: Paint) -> String {
    let field = |name: &str| data.get(name).and_then(Value::as_str);
    let (what, text) = match (field("reason"), field("text"), field("sessionUpdate")) {
        (Some(reason), Some(text), _) => (reason.replace('_', " "), text.to_owned()),
        (_, _, Some(kind)) => (kind.to_owned(), data.to_string()),
        _ => ("unknown update".to_owned(), data.to_string()),
    };
    paint.dim(&format!("! {}: {}", clean_line(&what), cut(&clean_line(&text), CHARS_MAX))) + "\n"
}
