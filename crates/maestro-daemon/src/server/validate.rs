//! What the values of a request may be (CONTRACT §11.1). Pure.

use super::problem::ApiError;
use maestro_protocol::{
    AuditQuery, CreateSession, Cursor, Deltas, EditQueueItem, ProblemCode, PromptBody, ReplayQuery,
    UsageQuery, WatchQuery,
};
use serde_json::{Value, json};
use std::path::Path;

/// The longest title, mode, model and option, in characters.
const NAME_MAX_CHARS: usize = 200;

/// Names of environment variables that only the daemon sets.
const OWN_PREFIX: &str = "MAESTRO_";

/// Checks what can be known of a new session without looking at the machine.
pub(super) fn create(body: &CreateSession) -> Result<(), ApiError> {
    if let Some(cwd) = &body.cwd {
        self::cwd(cwd)?;
    }
    if let Some(title) = &body.title {
        self::title(title)?;
    }
    for (field, id) in [("mode", &body.mode), ("model", &body.model)] {
        if let Some(id) = id {
            choice(field, id)?;
        }
    }
    for (name, value) in body.env.iter().flatten() {
        env(name, value)?;
    }
    Ok(())
}

fn cwd(cwd: &str) -> Result<(), ApiError> {
    if cwd.contains('\0') || !Path::new(cwd).is_absolute() {
        let detail =
            format!("`{cwd}` is not an absolute path: give the whole path of a directory that exists");
        return Err(ApiError::new(ProblemCode::InvalidCwd, detail).at("cwd"));
    }
    Ok(())
}

/// A title is at most 200 characters on one line; an empty one removes the name.
pub(super) fn title(title: &str) -> Result<(), ApiError> {
    name("title", title)
}

/// The id of something that an agent offers.
pub(super) fn choice(field: &str, id: &str) -> Result<(), ApiError> {
    if id.is_empty() {
        return Err(ApiError::invalid(
            field,
            format!("`{field}` is empty: give an id that the agent offers"),
        ));
    }
    name(field, id)
}

fn name(field: &str, text: &str) -> Result<(), ApiError> {
    let breaks = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    if text.chars().count() > NAME_MAX_CHARS {
        Err(ApiError::invalid(field, format!("`{field}` is longer than {NAME_MAX_CHARS} characters")))
    } else if text.contains(breaks) {
        Err(ApiError::invalid(
            field,
            format!("`{field}` holds a line break or a control character: give one line of text"),
        ))
    } else {
        Ok(())
    }
}

fn env(name: &str, value: &str) -> Result<(), ApiError> {
    let reason = if name.is_empty() {
        "a name is empty".into()
    } else if name.contains(['=', '\0']) {
        format!("the name `{name}` holds `=` or a NUL")
    } else if name.starts_with(OWN_PREFIX) {
        format!("`{name}` is not allowed: names that begin with `{OWN_PREFIX}` belong to the daemon")
    } else if value.contains('\0') {
        format!("the value of `{name}` holds a NUL")
    } else {
        return Ok(());
    };
    Err(ApiError::invalid("env", format!("`env`: {reason}")))
}

/// The content blocks of a new session's first prompt, if it has one.
pub(super) fn first_prompt(prompt: Option<PromptBody>) -> Result<Option<Vec<Value>>, ApiError> {
    prompt.map(self::prompt).transpose().map_err(|error| error.within("prompt"))
}

/// What is to become of a message that waits: its new content and its new place, at least one of them.
pub(super) fn edit(body: EditQueueItem) -> Result<(Option<Vec<Value>>, Option<u64>), ApiError> {
    let EditQueueItem { text, content, position } = body;
    if text.is_none() && content.is_none() && position.is_none() {
        return Err(ApiError::invalid("text", "nothing is to change: give `text`, `content` or `position`"));
    }
    let has_content = text.is_some() || content.is_some();
    let content = has_content.then(|| prompt(PromptBody { text, content })).transpose()?;
    Ok((content, position))
}

/// The content blocks of a prompt, of whichever form it was given in.
pub(super) fn prompt(body: PromptBody) -> Result<Vec<Value>, ApiError> {
    let one_of = "give exactly one of `text` and `content`";
    match (body.text, body.content) {
        (Some(_), Some(_)) => Err(ApiError::invalid("content", format!("there is `text` too: {one_of}"))),
        (None, None) => Err(ApiError::invalid("text", format!("the prompt is missing: {one_of}"))),
        (Some(text), None) if text.trim().is_empty() => {
            Err(ApiError::invalid("text", "`text` is empty: give the prompt's text"))
        }
        (Some(text), None) => Ok(vec![json!({"type": "text", "text": text})]),
        (None, Some(content)) if content.is_empty() => {
            Err(ApiError::invalid("content", "`content` is empty: give at least one content block"))
        }
        (None, Some(content)) => {
            match content.iter().position(|block| !block.get("type").is_some_and(Value::is_string)) {
                Some(at) => {
                    let detail =
                        format!("`content[{at}]` is not a content block: an object with a text `type`");
                    Err(ApiError::invalid(format!("content[{at}]"), detail))
                }
                None => Ok(content),
            }
        }
    }
}

/// Reads the query of a replay.
pub(super) fn replay(query: &str) -> Result<ReplayQuery, ApiError> {
    let mut wanted = ReplayQuery::default();
    for (key, value) in form_urlencoded::parse(query.as_bytes()) {
        let is_again = match key.as_ref() {
            "since" => wanted.since.replace(number(&key, &value)?).is_some(),
            "before" => wanted.before.replace(number(&key, &value)?).is_some(),
            "limit" => wanted.limit.replace(number(&key, &value)?).is_some(),
            "deltas" => wanted.deltas.replace(deltas(&value)?).is_some(),
            other => {
                let detail = format!(
                    "`{other}` is no parameter of replay: there are `since`, `before`, `limit` and `deltas`"
                );
                return Err(ApiError::invalid(other, detail));
            }
        };
        if is_again {
            return Err(ApiError::invalid(key.as_ref(), format!("`{key}` is given twice")));
        }
    }
    if wanted.since.is_some() && wanted.before.is_some() {
        return Err(ApiError::invalid(
            "before",
            "there is `since` too: give at most one of `since` and `before`",
        ));
    }
    Ok(wanted)
}

/// Reads the query of a usage report.
pub(super) fn usage(query: &str) -> Result<UsageQuery, ApiError> {
    let mut wanted = UsageQuery::default();
    for (key, value) in form_urlencoded::parse(query.as_bytes()) {
        let place = match key.as_ref() {
            "since" => &mut wanted.since,
            "until" => &mut wanted.until,
            other => {
                let detail = format!("`{other}` is no parameter of usage: there are `since` and `until`");
                return Err(ApiError::invalid(other, detail));
            }
        };
        let day = value.parse().map_err(|invalid| {
            ApiError::invalid(key.as_ref(), format!("`{key}` is `{value}`, which is {invalid}"))
        })?;
        if place.replace(day).is_some() {
            return Err(ApiError::invalid(key.as_ref(), format!("`{key}` is given twice")));
        }
    }
    Ok(wanted)
}

/// Reads the query of the audit log.
pub(super) fn audit(query: &str) -> Result<AuditQuery, ApiError> {
    let mut wanted = AuditQuery::default();
    for (key, value) in form_urlencoded::parse(query.as_bytes()) {
        let place = match key.as_ref() {
            "before" => &mut wanted.before,
            "limit" => &mut wanted.limit,
            other => {
                let detail =
                    format!("`{other}` is no parameter of the audit log: there are `before` and `limit`");
                return Err(ApiError::invalid(other, detail));
            }
        };
        let number = value.parse().map_err(|_no_number| {
            ApiError::invalid(
                key.as_ref(),
                format!("`{key}` is `{value}`, which is no whole number from 0 on"),
            )
        })?;
        if place.replace(number).is_some() {
            return Err(ApiError::invalid(key.as_ref(), format!("`{key}` is given twice")));
        }
    }
    Ok(wanted)
}

/// Reads the query of a socket.
pub(super) fn watch(query: &str) -> Result<WatchQuery, ApiError> {
    let mut wanted = WatchQuery::default();
    for (key, value) in form_urlencoded::parse(query.as_bytes()) {
        let is_again = match key.as_ref() {
            "deltas" => wanted.deltas.replace(deltas(&value)?).is_some(),
            "tail" => wanted.tail.replace(number(&key, &value)?).is_some(),
            other => {
                let detail =
                    format!("`{other}` is no parameter of this socket: there are `deltas` and `tail`");
                return Err(ApiError::invalid(other, detail));
            }
        };
        if is_again {
            return Err(ApiError::invalid(key.as_ref(), format!("`{key}` is given twice")));
        }
    }
    Ok(wanted)
}

fn deltas(value: &str) -> Result<Deltas, ApiError> {
    match value {
        "plain" => Ok(Deltas::Plain),
        "text" => Ok(Deltas::Text),
        other => {
            Err(ApiError::invalid("deltas", format!("`deltas` is `plain` or `text`, and not `{other}`")))
        }
    }
}

fn number(key: &str, value: &str) -> Result<Cursor, ApiError> {
    let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    let number = if digits { value.parse().ok() } else { None };
    let detail = || format!("`{key}` is not a whole number of at most 20 digits: `{value}`");
    number.ok_or_else(|| ApiError::invalid(key, detail()))
}
