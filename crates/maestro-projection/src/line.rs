mod chunk;

pub(crate) use chunk::Chunk;
use maestro_protocol::{Envelope, Timestamp, TranscriptRowKind, json};
use serde::Deserialize;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;

/// The deepest nesting that is read. An envelope wraps an agent's message in a few levels more.
const DEEPEST: usize = json::MAX_DEPTH + 8;

/// One line of an event log, understood (CONTRACT §5.1). Made of any bytes; those that are no line of a log give a
/// malformed one.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// The line's own time; only the daemon's lines have one.
    pub(crate) at: Option<Timestamp>,
    pub(crate) body: Body,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Body {
    Malformed,
    /// Text of an agent, in the usual shape.
    Chunk(Chunk),
    /// Whatever else an agent notified.
    Update(Update),
    /// What the daemon wrote.
    Envelope(Box<Envelope>),
    /// An envelope that this version does not know: it counts as an event and changes nothing.
    UnknownEnvelope,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Update {
    pub(crate) kind: UpdateKind,
    /// The `update` object; for known kinds without its `sessionUpdate`.
    pub(crate) data: Map<String, Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UpdateKind {
    Chunk(Voice),
    ToolCall,
    ToolCallUpdate,
    Plan,
    Usage,
    Mode,
    ConfigOptions,
    Commands,
    SessionInfo,
    Unknown,
}

/// Whose text a chunk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Voice {
    User,
    Agent,
    Thought,
}

impl Line {
    /// Reads a line, given without its newline.
    pub fn parse(text: &[u8]) -> Self {
        let Ok(text) = simdutf8::basic::from_utf8(text) else { return Self::malformed() };
        if let Some(chunk) = Chunk::read(text) {
            return Self { at: None, body: Body::Chunk(chunk) };
        }
        let Some(top) = read::<Top>(text) else { return Self::malformed() };
        if top.has_event {
            return read(text).map_or_else(Self::malformed, Self::from_envelope);
        }
        let whole_message = || match top.params {
            Some(Value::Object(mut params)) => params.shift_remove("update"),
            _ => None,
        };
        let update = top.update.filter(Value::is_object).or_else(whole_message);
        match update {
            Some(Value::Object(data)) => Self { at: None, body: Body::Update(Update::new(data)) },
            _ => Self::malformed(),
        }
    }

    /// Whether the bytes were no line of a log. Such a line has a cursor and makes no event.
    pub fn is_malformed(&self) -> bool {
        self.body == Body::Malformed
    }

    fn malformed() -> Self {
        Self { at: None, body: Body::Malformed }
    }

    fn from_envelope(envelope: Value) -> Self {
        let at = envelope.get("at").and_then(|at| Timestamp::deserialize(at).ok());
        let known = Envelope::deserialize(envelope).ok();
        Self { at, body: known.map_or(Body::UnknownEnvelope, |known| Body::Envelope(Box::new(known))) }
    }
}

impl Update {
    fn new(mut data: Map<String, Value>) -> Self {
        let kind = UpdateKind::of(&data);
        if kind != UpdateKind::Unknown {
            data.shift_remove("sessionUpdate");
        }
        Self { kind, data }
    }
}

impl UpdateKind {
    fn of(data: &Map<String, Value>) -> Self {
        match data.get("sessionUpdate").and_then(Value::as_str) {
            Some("user_message_chunk") => Self::Chunk(Voice::User),
            Some("agent_message_chunk") => Self::Chunk(Voice::Agent),
            Some("agent_thought_chunk") => Self::Chunk(Voice::Thought),
            // A call that names no call cannot be told from others: it is shown as it came.
            Some("tool_call" | "tool_call_update") if crate::tool::call_id(data).is_none() => Self::Unknown,
            Some("tool_call") => Self::ToolCall,
            Some("tool_call_update") => Self::ToolCallUpdate,
            Some("plan") => Self::Plan,
            Some("usage_update") => Self::Usage,
            Some("current_mode_update") => Self::Mode,
            Some("config_option_update") => Self::ConfigOptions,
            Some("available_commands_update") => Self::Commands,
            Some("session_info_update") => Self::SessionInfo,
            _ => Self::Unknown,
        }
    }
}

impl Voice {
    /// The first word of its rows' ids.
    pub(crate) fn prefix(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Agent => "agent",
            Self::Thought => "thought",
        }
    }
    pub(crate) fn row_kind(self) -> TranscriptRowKind {
        match self {
            Self::User => TranscriptRowKind::User,
            Self::Agent => TranscriptRowKind::AgentText,
            Self::Thought => TranscriptRowKind::AgentThought,
        }
    }
}

/// The text of a chunk or of a text row; `None` where its content is no text block.
pub(crate) fn text_of(data: &Map<String, Value>) -> Option<&str> {
    block_text(data.get("content")?)
}

/// The text of a content block; `None` for blocks of other types.
pub(crate) fn block_text(block: &Value) -> Option<&str> {
    let is_text = block.get("type").and_then(Value::as_str) == Some("text");
    block.get("text").filter(|_| is_text).and_then(Value::as_str)
}

/// What of a line's top level decides its class. Of a repeated key the last one counts, as everywhere.
#[derive(Default)]
struct Top {
    has_event: bool,
    update: Option<Value>,
    params: Option<Value>,
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum Key {
    MaestroEvent,
    Update,
    Params,
    #[serde(other)]
    Other,
}

impl<'de> Deserialize<'de> for Top {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TopVisitor;
        impl<'de> Visitor<'de> for TopVisitor {
            type Value = Top;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Top, A::Error> {
                let mut top = Top::default();
                while let Some(key) = map.next_key()? {
                    match key {
                        Key::Update => top.update = Some(map.next_value()?),
                        Key::Params => top.params = Some(map.next_value()?),
                        Key::MaestroEvent => {
                            top.has_event = true;
                            map.next_value::<IgnoredAny>()?;
                        }
                        Key::Other => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                Ok(top)
            }
        }
        deserializer.deserialize_map(TopVisitor)
    }
}

/// Reads JSON that nests at most [`DEEPEST`] levels. Depth is measured only where serde_json's own limit was met.
fn read<T: serde::de::DeserializeOwned>(text: &str) -> Option<T> {
    let shallow = serde_json::from_str(text).ok();
    shallow.or_else(|| {
        let depth = json::depth(text.as_bytes());
        (json::MAX_DEPTH - 1..=DEEPEST)
            .contains(&depth)
            .then(|| json::from_slice(text.as_bytes()).ok())
            .flatten()
    })
}
