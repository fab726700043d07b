//! Merging of a tool call's data, and the daemon's own marks under `_meta.maestro`.

use serde_json::{Map, Value};

type Object = Map<String, Value>;

/// The mark of a call that was still open when its turn ended (CONTRACT §8.5).
pub(super) const SETTLED: &str = "settled";

/// Removes what an agent wrote where only the daemon writes.
pub(crate) fn strip_maestro(data: &mut Object) {
    if let Some(Value::Object(meta)) = data.get_mut("_meta") {
        meta.shift_remove("maestro");
    }
}

/// Lays the present fields of `patch` over `data`: arrays and objects replace, `_meta` merges (CONTRACT §4.3).
pub(super) fn merge(data: &mut Object, patch: Object) {
    for (key, value) in patch {
        match (key.as_str(), value) {
            ("_meta", Value::Object(patch)) => merge_meta(entry_object(data, "_meta"), patch),
            (_, Value::Null) | ("_meta", _) => {}
            (_, value) => {
                data.insert(key, value);
            }
        }
    }
}

fn merge_meta(meta: &mut Object, patch: Object) {
    for (key, value) in patch {
        match (key.as_str(), value, meta.get_mut(&key)) {
            ("maestro", _, _) | (_, Value::Null, _) => {}
            ("terminal_output_delta", Value::Object(patch), Some(Value::Object(old))) => {
                append_output(old, patch);
            }
            (_, Value::Object(patch), Some(Value::Object(old))) => {
                old.extend(patch);
            }
            (_, value, _) => {
                meta.insert(key, value);
            }
        }
    }
}

/// Some agents send a command's output in pieces, and only here.
fn append_output(old: &mut Object, patch: Object) {
    for (key, value) in patch {
        match (key.as_str(), value, old.get_mut(&key)) {
            ("data", Value::String(more), Some(Value::String(data))) => data.push_str(&more),
            (_, value, _) => {
                old.insert(key, value);
            }
        }
    }
}

pub(super) fn has_diff(data: &Object) -> bool {
    let blocks = data.get("content").and_then(Value::as_array);
    blocks.is_some_and(|blocks| {
        blocks.iter().any(|block| block.get("type").and_then(Value::as_str) == Some("diff"))
    })
}

pub(super) fn set_mark(data: &mut Object, key: &str, value: Value) {
    entry_object(entry_object(data, "_meta"), "maestro").insert(key.into(), value);
}

pub(super) fn clear_mark(data: &mut Object, key: &str) {
    let Some(Value::Object(meta)) = data.get_mut("_meta") else { return };
    let Some(Value::Object(marks)) = meta.get_mut("maestro") else { return };
    marks.shift_remove(key);
    if marks.is_empty() {
        meta.shift_remove("maestro");
    }
    if meta.is_empty() {
        data.shift_remove("_meta");
    }
}

/// The object at `key`, put there if there is none.
fn entry_object<'a>(data: &'a mut Object, key: &str) -> &'a mut Object {
    let value = data.entry(key).or_insert(Value::Null);
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(object) => object,
        _ => unreachable!("an object was put there"),
    }
}
