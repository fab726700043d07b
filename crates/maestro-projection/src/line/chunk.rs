//! A chunk of text in the shape that nearly all have, read without building values: most lines of a log are such.

use super::Voice;
use serde::de::{Error, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::fmt;

/// Where the tag of a chunk stands at the latest. It only decides which way a line is read, not how it is understood.
const TAG_WITHIN: usize = 512;

/// A chunk of an agent's text whose update holds its tag, a text block of nothing but text, and perhaps a message id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) voice: Voice,
    pub(crate) text: String,
    pub(crate) message_id: Option<String>,
    order: Order,
}

/// How the keys of a chunk came, so that a row shows them as they came.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Order {
    is_id_first: bool,
    is_text_first: bool,
}

impl Chunk {
    /// Reads a line of a log; `None` for any other line, and for a chunk of any other shape.
    pub(super) fn read(line: &str) -> Option<Self> {
        let head = &line.as_bytes()[..line.len().min(TAG_WITHIN)];
        memchr::memmem::find(head, b"_chunk\"")?;
        serde_json::from_str(line).ok().map(|Top(chunk)| chunk)
    }

    /// The `update` object without its tag.
    pub(crate) fn data(&self) -> Map<String, Value> {
        let entry = |key: &str, value: Value| (key.to_owned(), value);
        let mut block = vec![entry("type", "text".into()), entry("text", self.text.as_str().into())];
        if self.order.is_text_first {
            block.reverse();
        }
        let mut data = vec![entry("content", Value::Object(block.into_iter().collect()))];
        data.extend(self.message_id.as_deref().map(|id| entry("messageId", id.into())));
        if self.order.is_id_first {
            data.reverse();
        }
        data.into_iter().collect()
    }
}

/// The line.
struct Top(Chunk);

/// The content.
struct Block {
    text: String,
    is_text_first: bool,
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum TopKey {
    MaestroEvent,
    Params,
    Update,
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum UpdateKey {
    SessionUpdate,
    Content,
    MessageId,
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum BlockKey {
    Type,
    Text,
}

/// Any error sends the line the long way round.
fn other_shape<T, E: Error>() -> Result<T, E> {
    Err(E::custom("another shape"))
}

/// Puts a value where none may be yet: of a repeated key the last value counts, which is not looked for here.
fn put<T, E: Error>(place: &mut Option<T>, value: T) -> Result<(), E> {
    if place.replace(value).is_some() { other_shape() } else { Ok(()) }
}

impl<'de> Deserialize<'de> for Top {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TopVisitor;
        impl<'de> Visitor<'de> for TopVisitor {
            type Value = Top;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the params of an update")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Top, A::Error> {
                let mut chunk = None;
                while let Some(key) = map.next_key()? {
                    match key {
                        TopKey::Update => put(&mut chunk, map.next_value()?)?,
                        TopKey::MaestroEvent | TopKey::Params => return other_shape(),
                        TopKey::Other => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                chunk.map_or_else(other_shape, |chunk| Ok(Top(chunk)))
            }
        }
        deserializer.deserialize_map(TopVisitor)
    }
}

impl<'de> Deserialize<'de> for Chunk {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct UpdateVisitor;
        impl<'de> Visitor<'de> for UpdateVisitor {
            type Value = Chunk;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a chunk")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Chunk, A::Error> {
                let (mut voice, mut block, mut message_id) = (None, None::<Block>, None);
                let mut is_id_first = false;
                while let Some(key) = map.next_key()? {
                    match key {
                        UpdateKey::SessionUpdate => {
                            put(&mut voice, voice_of(&map.next_value::<Text<'_>>()?.0)?)?;
                        }
                        UpdateKey::Content => put(&mut block, map.next_value()?)?,
                        UpdateKey::MessageId => {
                            is_id_first = block.is_none();
                            put(&mut message_id, map.next_value::<String>()?)?;
                        }
                    }
                }
                let (Some(voice), Some(Block { text, is_text_first })) = (voice, block) else {
                    return other_shape();
                };
                Ok(Chunk { voice, text, message_id, order: Order { is_id_first, is_text_first } })
            }
        }
        deserializer.deserialize_map(UpdateVisitor)
    }
}

impl<'de> Deserialize<'de> for Block {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BlockVisitor;
        impl<'de> Visitor<'de> for BlockVisitor {
            type Value = Block;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a block of text")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Block, A::Error> {
                let (mut kind, mut text) = (None, None);
                let mut is_text_first = false;
                while let Some(key) = map.next_key()? {
                    match key {
                        BlockKey::Type if map.next_value::<Text<'_>>()?.0 == "text" => put(&mut kind, ())?,
                        BlockKey::Type => return other_shape(),
                        BlockKey::Text => {
                            is_text_first = kind.is_none();
                            put(&mut text, map.next_value()?)?;
                        }
                    }
                }
                match (kind, text) {
                    (Some(()), Some(text)) => Ok(Block { text, is_text_first }),
                    _ => other_shape(),
                }
            }
        }
        deserializer.deserialize_map(BlockVisitor)
    }
}

/// A string, borrowed where nothing in it is escaped.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// A person's chunks may be the daemon's own, or echoes of them: these are looked at in whole.
fn voice_of<E: Error>(tag: &str) -> Result<Voice, E> {
    match tag {
        "agent_message_chunk" => Ok(Voice::Agent),
        "agent_thought_chunk" => Ok(Voice::Thought),
        _ => other_shape(),
    }
}

#[cfg(test)]
mod tests {
    use super::Chunk;
    use crate::line::{Body, Line, Update};
    use proptest::prelude::*;
    use serde_json::Value;

    /// What the long way gives for the same line, as JSON with its order of keys.
    fn the_long_way(line: &str) -> Option<String> {
        let mut line: Value = serde_json::from_str(line).ok()?;
        let Some(Value::Object(update)) = line.get_mut("update").map(Value::take) else { return None };
        Some(Value::Object(Update::new(update).data).to_string())
    }

    #[track_caller]
    fn check(line: &str, expect: bool) {
        let read = Chunk::read(line);
        assert_eq!(read.is_some(), expect, "{line}");
        if let Some(chunk) = read {
            assert_eq!(Some(Value::Object(chunk.data()).to_string()), the_long_way(line), "{line}");
            assert!(matches!(Line::parse(line.as_bytes()).body, Body::Chunk(_)));
        }
    }

    fn update(update: &str) -> String {
        format!(r#"{{"sessionId":"s","update":{{{update}}}}}"#)
    }

    #[test]
    fn the_usual_shapes_are_read_and_all_others_are_left() {
        let tag = r#""sessionUpdate":"agent_message_chunk""#;
        let text = r#""content":{"type":"text","text":"a \"b\" é"}"#;
        check(&update(&format!("{tag},{text}")), true);
        check(&update(&format!("{text},{tag}")), true);
        check(&update(&format!(r#"{tag},"messageId":"m",{text}"#)), true);
        check(&update(&format!(r#"{tag},{text},"messageId":"m""#)), true);
        check(&update(&format!(r#"{tag},"content":{{"text":"","type":"text"}}"#)), true);
        check(&update(&format!(r#""sessionUpdate":"agent_thought_chunk",{text}"#)), true);
        check(&format!(r#"{{"update":{{{tag},{text}}},"_meta":{{"a":[1]}}}}"#), true);

        check(&update(&format!(r#""sessionUpdate":"user_message_chunk",{text}"#)), false);
        check(&update(&format!(r#"{tag},{text},"_meta":{{}}"#)), false);
        check(&update(&format!(r#"{tag},{text},"messageId":null"#)), false);
        check(&update(&format!("{tag},{text},{text}")), false);
        check(&update(&format!(r#"{tag},"content":{{"type":"image","text":""}}"#)), false);
        check(&update(&format!(r#"{tag},"content":{{"type":"text","text":"","annotations":null}}"#)), false);
        check(&update(&format!(r#"{tag},"content":{{"type":"text","text":"\ud800"}}"#)), false);
        check(&update(&format!(r#"{tag},"content":"text""#)), false);
        check(&update(tag), false);
        check(&format!(r#"{{"maestroEvent":"x","update":{{{tag},{text}}}}}"#), false);
        check(&format!(r#"{{"update":{{{tag},{text}}},"update":{{{tag},{text}}}}}"#), false);
        check(&format!(r#"{{"params":{{}},"update":{{{tag},{text}}}}}"#), false);
        check(&format!("{} x", update(&format!("{tag},{text}"))), false);
        check("[]", false);
        check("", false);
    }

    proptest! {
        #[test]
        fn what_is_read_is_what_the_long_way_reads(text: String, id: Option<String>, order in 0..6_usize) {
            let tag = r#""sessionUpdate":"agent_message_chunk""#.to_owned();
            let content = format!(r#""content":{{"type":"text","text":{}}}"#, Value::from(text.clone()));
            let id = id.map(|id| format!(r#""messageId":{}"#, Value::from(id)));
            let mut parts: Vec<String> = [Some(tag), Some(content), id].into_iter().flatten().collect();
            let count = parts.len();
            parts.rotate_left(order % count);
            if order >= 3 {
                parts.reverse();
            }
            let line = update(&parts.join(","));
            // A long text may stand before the tag.
            if let Some(chunk) = Chunk::read(&line) {
                prop_assert_eq!(Some(Value::Object(chunk.data()).to_string()), the_long_way(&line));
            } else {
                prop_assert!(line.len() > 512);
            }
        }
    }
}
