//! Chunks of text and the rows they belong to (CONTRACT §4.1, §4.2, §4.4).

use super::{OpenRow, REQUESTS_MAX, Speaker, StateFold, Step};
use crate::line::{Chunk, Voice, text_of};
use crate::touch::Action;
use maestro_protocol::{Cursor, RowId, StateKey};
use serde_json::{Map, Value};

type Object = Map<String, Value>;

impl StateFold {
    /// Takes a chunk. Whether it continues the open row, so that what changed is only what `step` names.
    pub(super) fn chunk(&mut self, cursor: Cursor, voice: Voice, data: &Object, step: &mut Step) -> bool {
        if voice == Voice::User && self.prompt_or_echo(data, step) {
            return false;
        }
        let Some(text) = text_of(data) else {
            step.touch(RowId::keyed(voice.prefix(), cursor), Action::Block);
            self.open_row = None;
            self.indicate(Some(voice), step);
            return false;
        };
        let message_id = self.message_id(voice, data).map(str::to_owned);
        let said = Said {
            voice,
            message_id: message_id.as_deref(),
            speaker: Speaker::of(data),
            is_empty: text.is_empty(),
        };
        self.say(cursor, said, step)
    }

    /// As [`StateFold::chunk`], for text in the usual shape.
    pub(super) fn plain_chunk(&mut self, cursor: Cursor, chunk: &Chunk, step: &mut Step) {
        let was_unheard = self.is_unheard;
        let message_id = chunk.message_id.as_deref().filter(|id| !id.is_empty());
        let speaker = Speaker::default();
        let said = Said { voice: chunk.voice, message_id, speaker, is_empty: chunk.text.is_empty() };
        step.is_quiet = self.say(cursor, said, step);
        step.is_quiet &= step.state.is_empty() && self.is_unheard == was_unheard;
    }

    /// Takes text. Whether it continues the open row.
    fn say(&mut self, cursor: Cursor, said: Said<'_>, step: &mut Step) -> bool {
        let Said { voice, message_id, speaker, is_empty } = said;
        let open = self.open_row.as_ref();
        let (row_id, continues) = match message_id {
            Some(id) => {
                let row_id = RowId::keyed(voice.prefix(), id);
                let continues = open.is_some_and(|open| open.row_id == row_id);
                (row_id, continues)
            }
            None if is_empty => {
                // Agents without message ids send one where a message begins or ends, if they send one at all.
                self.open_row = None;
                return false;
            }
            None => match open.filter(|open| open.voice == voice && open.speaker == speaker) {
                Some(open) => (open.row_id.clone(), true),
                None => (RowId::keyed(voice.prefix(), cursor), false),
            },
        };
        if continues && is_empty {
            return true;
        }
        if !continues {
            self.open_row = Some(OpenRow { voice, row_id: row_id.clone(), speaker });
        }
        step.touch(row_id, Action::Text);
        self.indicate(Some(voice), step);
        continues
    }

    /// Takes the daemon's own line of a prompt, and drops an agent's echo of it; whether `data` was one of these.
    fn prompt_or_echo(&mut self, data: &Object, step: &mut Step) -> bool {
        let Some(prompt) = &mut self.prompt else { return false };
        if !prompt.claims(data) {
            return prompt.is_echo(data);
        }
        step.touch(prompt.row_id(), Action::Prompt);
        // What an agent says in the person's name never lengthens what the person wrote.
        self.open_row = None;
        let is_first = !std::mem::replace(&mut self.has_prompt, true);
        // Not earlier: a start without its prompt, which a crash can leave, sent nothing and keeps no text.
        self.sent_item = prompt.queue_item().or(self.sent_item);
        self.requests.extend(prompt.take_request());
        if self.requests.len() > REQUESTS_MAX {
            self.requests.pop_front();
        }
        self.indicate(None, step);
        self.is_unheard = is_first;
        let changed = self.title.see_prompt(text_of(data).unwrap_or_default());
        step.mark(StateKey::Title, changed);
        true
    }

    /// The message that a chunk belongs to. The id of the open prompt is the daemon's and counts as none.
    fn message_id<'a>(&self, voice: Voice, data: &'a Object) -> Option<&'a str> {
        let is_prompt = voice == Voice::User && self.prompt.as_ref().is_some_and(|prompt| prompt.is_id(data));
        let id = data.get("messageId").and_then(Value::as_str);
        id.filter(|id| !id.is_empty() && !is_prompt)
    }
}

/// A chunk of text, as far as it decides which row it belongs to.
struct Said<'a> {
    voice: Voice,
    /// Not empty.
    message_id: Option<&'a str>,
    speaker: Speaker,
    is_empty: bool,
}

impl Speaker {
    fn of(data: &Object) -> Self {
        let Some(meta) = data.get("_meta") else { return Self::default() };
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        let of_claude = || meta.get("claudeCode")?.get("parentToolUseId");
        Self {
            parent_call: text(meta.get("parentToolCallId").or_else(of_claude)),
            source: text(meta.get("source")),
        }
    }
}
