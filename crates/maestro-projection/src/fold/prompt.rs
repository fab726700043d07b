use crate::line::{Voice, block_text};
use fnv::FnvHasher;
use maestro_protocol::{QueueItemId, RequestMark, RowId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::hash::Hasher as _;

/// The prompt of a person's turn while that turn is open.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct OpenPrompt {
    message_id: String,
    /// What the prompt settles once its line is there.
    #[serde(default)]
    queue_item: Option<QueueItemId>,
    #[serde(default)]
    request: Option<(RequestMark, Timestamp)>,
    /// The prompt's blocks, once the daemon's line with them was folded.
    blocks: Option<Vec<Print>>,
}

/// A content block by length and hash, so that no checkpoint holds a prompt's text.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Print {
    length: u64,
    hash: u64,
}

impl OpenPrompt {
    pub(super) fn announced(
        message_id: String,
        queue_item: Option<QueueItemId>,
        request: Option<RequestMark>,
        at: Timestamp,
    ) -> Self {
        Self { message_id, queue_item, request: request.map(|mark| (mark, at)), blocks: None }
    }

    /// The message of the queue that this prompt was.
    pub(super) fn queue_item(&self) -> Option<QueueItemId> {
        self.queue_item
    }

    /// The request that this prompt was, and when.
    pub(super) fn take_request(&mut self) -> Option<(RequestMark, Timestamp)> {
        self.request.take()
    }

    /// Whether `chunk` is the line that the daemon writes for the prompt: the first with its message id.
    pub(super) fn claims(&mut self, chunk: &Map<String, Value>) -> bool {
        let is_own = self.blocks.is_none() && self.is_id(chunk);
        if is_own {
            let further = chunk.get("_meta").and_then(|meta| meta.get("maestro")?.get("blocks")?.as_array());
            let blocks = chunk.get("content").into_iter().chain(further.into_iter().flatten());
            self.blocks = Some(blocks.map(Print::of).collect());
        }
        is_own
    }

    pub(super) fn row_id(&self) -> RowId {
        RowId::keyed(Voice::User.prefix(), &self.message_id)
    }

    /// Whether an agent's chunk only repeats a block of the prompt.
    pub(super) fn is_echo(&self, chunk: &Map<String, Value>) -> bool {
        let blocks = self.blocks.as_deref().unwrap_or_default();
        !blocks.is_empty() && chunk.get("content").is_some_and(|block| blocks.contains(&Print::of(block)))
    }

    /// Whether the chunk names the prompt's message id.
    pub(super) fn is_id(&self, chunk: &Map<String, Value>) -> bool {
        chunk.get("messageId").and_then(Value::as_str) == Some(&self.message_id)
    }
}

impl Print {
    fn of(block: &Value) -> Self {
        let other = block_text(block).is_none().then(|| block.to_string());
        let text = other.as_deref().or_else(|| block_text(block)).unwrap_or_default();
        let mut hasher = FnvHasher::default();
        hasher.write_u8(u8::from(other.is_some()));
        hasher.write(text.as_bytes());
        Self { length: text.len() as u64, hash: hasher.finish() }
    }
}
