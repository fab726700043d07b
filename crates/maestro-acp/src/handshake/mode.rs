//! How to bring a fresh session into a wished mode. Pure.

use serde_json::Value;

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing: the session is in the mode.
    InForce,
    /// Ask with `session/set_mode`.
    SetMode,
    /// Ask with `session/set_config_option` of this option, for the agent has modes only so.
    SetOption(String),
    /// Nothing: the agent has these modes and no such one.
    NotOffered(Vec<String>),
}

/// Decides by what the agent told at the opening: `modes`, or else the select option of category `mode`.
pub(super) fn step(modes: Option<&Value>, config_options: Option<&Value>, wish: &str) -> Step {
    if let Some(modes) = modes {
        let current = modes.get("currentModeId").and_then(Value::as_str);
        return decide(current, ids(modes.get("availableModes"), "id"), wish, Step::SetMode);
    }
    let option =
        config_options.and_then(Value::as_array).into_iter().flatten().find(|option| is_mode(option));
    let Some(option) = option else { return Step::NotOffered(Vec::new()) };
    let current = option.get("currentValue").and_then(Value::as_str);
    let id = option.get("id").and_then(Value::as_str).unwrap_or_default();
    decide(current, option_values(option), wish, Step::SetOption(id.into()))
}

/// A list that is empty tells nothing, so the agent is asked.
fn decide(current: Option<&str>, offered: Vec<String>, wish: &str, ask: Step) -> Step {
    if current == Some(wish) {
        Step::InForce
    } else if offered.is_empty() || offered.iter().any(|mode| mode == wish) {
        ask
    } else {
        Step::NotOffered(offered)
    }
}

fn is_mode(option: &Value) -> bool {
    let has = |key: &str, value: &str| option.get(key).and_then(Value::as_str) == Some(value);
    has("category", "mode") && has("type", "select") && option.get("id").is_some_and(Value::is_string)
}

/// The values of a select option, flat or in groups.
fn option_values(option: &Value) -> Vec<String> {
    let entries = option.get("options").and_then(Value::as_array).into_iter().flatten();
    entries
        .flat_map(|entry| match entry.get("options") {
            Some(group) => ids(Some(group), "value"),
            None => entry.get("value").and_then(Value::as_str).map(str::to_owned).into_iter().collect(),
        })
        .collect()
}

fn ids(list: Option<&Value>, key: &str) -> Vec<String> {
    let entries = list.and_then(Value::as_array).into_iter().flatten();
    entries.filter_map(|entry| entry.get(key)?.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests;
