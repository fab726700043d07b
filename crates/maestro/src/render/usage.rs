use crate::terminal::{Paint, clean_line};
use maestro_protocol::{LastEnd, ReducedState};
use serde_json::Value;

/// The mode and model in use and what a turn has used, on one line; `None` where the agent reports nothing. The mode
/// comes first: it says what the agent does without asking.
pub(crate) fn line(state: &ReducedState, paint: Paint) -> Option<String> {
    let mut parts = Vec::new();
    if let Some(mode) = state.mode.as_ref().and_then(|mode| mode.current.as_ref()) {
        parts.push(format!("mode {}", clean_line(mode)));
    }
    if let Some(model) = state.model.as_ref().and_then(|model| model.current.as_ref()) {
        parts.push(format!("model {}", clean_line(model)));
    }
    if let Some(context) = state.context {
        let share = (context.used * 100).checked_div(context.size);
        let share = share.map(|percent| format!(" ({percent}%)")).unwrap_or_default();
        parts.push(format!("context {} of {} tokens{share}", grouped(context.used), grouped(context.size)));
    }
    let usage = state.usage.as_ref();
    let tokens =
        usage.and_then(|usage| usage.last_turn.as_ref()).and_then(|last_turn| last_turn.get("usage"));
    let token_count = |name: &str| tokens.and_then(|tokens| tokens.get(name)).and_then(Value::as_u64);
    if let (Some(input), Some(output)) = (token_count("inputTokens"), token_count("outputTokens")) {
        parts.push(format!("turn {} tokens in, {} out", grouped(input), grouped(output)));
    }
    if let Some(cost) = usage.and_then(|usage| usage.cost.as_ref()) {
        parts.push(format!("cost so far {:.4} {}", cost.amount, clean_line(&cost.currency)));
    }
    (!parts.is_empty()).then(|| paint.dim(&parts.join(" · ")) + "\n")
}

/// How a turn ended, on one line.
pub(crate) fn turn_end(end: &LastEnd, paint: Paint) -> String {
    let reason = clean_line(&end.reason);
    let message = end.error.as_ref().and_then(|error| error.get("message")).and_then(Value::as_str);
    match message {
        Some(message) => paint.red(&format!("turn ended: {reason}: {}", clean_line(message))) + "\n",
        None => paint.dim(&format!("turn ended: {reason}")) + "\n",
    }
}

/// A number with its thousands apart.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{grouped, line};
    use crate::terminal::Paint;
    use maestro_protocol::{ContextWindow, ModeState, ModelState, ReducedState};
    use serde_json::Value;

    #[test]
    fn the_mode_is_in_sight() {
        let check = |state: &ReducedState, expect: Option<&str>| {
            assert_eq!(line(state, Paint::Plain).as_deref(), expect);
        };
        check(&ReducedState::default(), None);
        let mode = Some(ModeState { current: Some("plan\u{1b}[2J".into()), available: Value::Null });
        check(&ReducedState { mode: mode.clone(), ..ReducedState::default() }, Some("mode plan\n"));
        let model = Some(ModelState { current: Some("opus".into()), available: Value::Null });
        let context = Some(ContextWindow { used: 1_500, size: 3_000 });
        let state = ReducedState { mode, model, context, ..ReducedState::default() };
        check(&state, Some("mode plan · model opus · context 1,500 of 3,000 tokens (50%)\n"));
    }

    #[test]
    fn thousands_stand_apart() {
        let check = |number, expect: &str| assert_eq!(grouped(number), expect);
        check(0, "0");
        check(999, "999");
        check(1000, "1,000");
        check(12_345_678, "12,345,678");
    }
}
