use serde_json::Value;
use std::{
    cell::Cell,
    collections::BTreeMap,
    io::{Error, Result},
};

/// What placeholders stand for.
#[derive(Debug, Default)]
pub(super) struct Variables {
    pub(super) session: Option<String>,
    pub(super) cwd: Option<String>,
    process: usize,
    /// How many numbers `{{next}}` has given out.
    counted: Cell<u64>,
    /// Ids of the calls that steps named.
    pub(super) ids: BTreeMap<String, Value>,
    /// How requests of ours were answered, by id as text.
    pub(super) outcomes: BTreeMap<String, String>,
}

impl Variables {
    pub(super) fn new(process: usize) -> Self {
        Self { process, ..Self::default() }
    }

    /// Fills every string of a value.
    pub(super) fn fill(&self, value: &Value) -> Result<Value> {
        Ok(match value {
            Value::String(text) => self.fill_string(text)?,
            Value::Array(items) => {
                Value::Array(items.iter().map(|item| self.fill(item)).collect::<Result<_>>()?)
            }
            Value::Object(fields) => Value::Object(
                fields
                    .iter()
                    .map(|(key, value)| Ok((key.clone(), self.fill(value)?)))
                    .collect::<Result<_>>()?,
            ),
            other => other.clone(),
        })
    }

    fn fill_string(&self, text: &str) -> Result<Value> {
        let whole = text.strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}"));
        match whole.filter(|name| !name.contains('}')).map(|name| self.look_up(name)) {
            Some(Ok(Some(value))) => Ok(value),
            Some(Err(error)) => Err(error),
            Some(Ok(None)) | None => Ok(Value::String(self.fill_text(text)?)),
        }
    }

    /// Fills the placeholders in a text. Braces that hold no placeholder stay as they are.
    pub(super) fn fill_text(&self, text: &str) -> Result<String> {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find("{{") {
            let (before, from) = rest.split_at(start);
            filled.push_str(before);
            let found = from.find("}}").map(|end| (end, self.look_up(&from[2..end])));
            let (taken, value) = match found {
                Some((end, value)) => (end + 2, value?),
                None => (2, None),
            };
            match value {
                Some(Value::String(text)) => filled.push_str(&text),
                Some(other) => filled.push_str(&other.to_string()),
                None => {
                    // One brace only: the next one may begin a placeholder.
                    filled.push('{');
                    rest = &from[1..];
                    continue;
                }
            }
            rest = &from[taken..];
        }
        filled.push_str(rest);
        Ok(filled)
    }

    /// `Ok(None)`: not one of our names.
    fn look_up(&self, name: &str) -> Result<Option<Value>> {
        let unset = || Error::other(format!("{{{{{name}}}}} is used before it is known"));
        let text = |value: &Option<String>| value.clone().map(Value::String).ok_or_else(unset);
        let found = match name.split_once(':') {
            None if name == "session" => text(&self.session)?,
            None if name == "cwd" => text(&self.cwd)?,
            None if name == "process" => self.process.into(),
            None if name == "next" => {
                self.counted.set(self.counted.get() + 1);
                self.counted.get().into()
            }
            Some(("id", key)) => self.ids.get(key).cloned().ok_or_else(unset)?,
            Some(("outcome", key)) => text(&self.outcomes.get(key).cloned())?,
            _ => return Ok(None),
        };
        Ok(Some(found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(given: &Value, expect: &Value) {
        let mut variables = Variables::new(2);
        variables.session = Some("s-1".into());
        variables.ids.insert("prompt".into(), json!(7));
        variables.outcomes.insert("1".into(), "allow-once".into());
        assert_eq!(variables.fill(given).unwrap(), *expect, "{given}");
    }

    #[test]
    fn placeholders_are_filled() {
        check(&json!("{{id:prompt}}"), &json!(7));
        check(&json!("n {{id:prompt}}, {{session}}"), &json!("n 7, s-1"));
        check(&json!({"a": ["{{session}}", 1, null]}), &json!({"a": ["s-1", 1, null]}));
        check(&json!("{{outcome:1}} in {{process}}"), &json!("allow-once in 2"));
        check(&json!("{{{session}}}"), &json!("{s-1}"));
        check(&json!("{{nothing}} }} {{"), &json!("{{nothing}} }} {{"));
        check(&json!("{{session}}{{session}}"), &json!("s-1s-1"));
    }

    #[test]
    fn numbers_are_given_out_once_each() {
        let variables = Variables::new(1);
        let filled = variables.fill(&json!(["{{next}}", "n{{next}}.{{next}}"])).unwrap();
        assert_eq!(filled, json!([1, "n2.3"]));
    }

    #[test]
    fn a_name_that_is_not_known_yet_is_an_error() {
        let variables = Variables::default();
        for text in ["{{session}}", "a {{id:x}}", "{{outcome:1}}"] {
            assert!(variables.fill(&json!(text)).is_err(), "{text}");
        }
    }
}
