//! Reading JSON that may nest as deep as [`MAX_DEPTH`], which serde_json refuses by default at 128.

use serde::de::DeserializeOwned;

/// The deepest nesting of an agent's message that is kept as JSON and relayed; deeper ones become a notice
/// (CONTRACT §4.5). A frame wraps such a message in a few levels more, so readers of frames must not stop at 128.
pub const MAX_DEPTH: usize = 128;

/// Reads one JSON document without serde_json's own nesting limit. Only for text that came from the daemon or was
/// measured with [`depth`] before: unbounded nesting overflows the stack.
///
/// # Errors
/// As [`serde_json::from_slice`].
pub fn from_slice<T: DeserializeOwned>(text: &[u8]) -> serde_json::Result<T> {
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    deserializer.disable_recursion_limit();
    let value = T::deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// The deepest nesting of arrays and objects in `text`, found without building anything. Correct for every valid
/// JSON text; for others it is some number.
pub fn depth(text: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0_usize);
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => skip_string(&mut bytes),
            _ => {}
        }
    }
    deepest
}

fn skip_string(bytes: &mut std::slice::Iter<'_, u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return,
            b'\\' => {
                bytes.next();
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_counts_only_what_is_outside_strings() {
        let check = |text: &str, expect: usize| assert_eq!(depth(text.as_bytes()), expect, "{text}");
        check("1", 0);
        check("[]", 1);
        check(r#"{"a":[{"b":1}],"c":[]}"#, 3);
        check(r#"{"a":"[[[[{"}"#, 1);
        check(r#"{"a":"\"[[\\"}"#, 1);
    }

    #[test]
    fn reads_deeper_than_serde_json_would() {
        let text = format!("{}{}", "[".repeat(200), "]".repeat(200));
        assert!(serde_json::from_str::<serde_json::Value>(&text).is_err());
        assert!(from_slice::<serde_json::Value>(text.as_bytes()).is_ok());
    }
}
