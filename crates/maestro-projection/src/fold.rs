mod checkpoint;
mod chosen;
mod daemon;
mod kept;
mod offer;
mod prompt;
mod report;
mod spent;
mod text;
mod title;

use crate::line::{Body, Line, Update, UpdateKind, Voice};
use crate::tool::{self, Mention, Standing};
use crate::touch::{Action, Touch};
pub use chosen::Chosen;
use kept::Kept;
use maestro_protocol::{
    Command, ContextWindow, Cursor, Origin, QueueItemId, ReducedState, RequestMark, RowId, Spending,
    StateKey, Timestamp, TurnState, Usage,
};
use offer::Offer;
use prompt::OpenPrompt;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::VecDeque;
use title::Title;

/// Prompts whose `Idempotency-Key` is remembered. A client retries what it sent last, and a turn is one prompt.
const REQUESTS_MAX: usize = 16;

/// The fold of a log to its reduced state. It holds no rows: a line's rows are named by the touches it gives. A later
/// fold resumes from its [checkpoints](StateFold::checkpoint); serialised by other means it lacks its large values.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StateFold {
    cursor: Cursor,
    malformed: u64,
    /// The last `at` seen.
    clock: Option<Timestamp>,
    turn: TurnState,
    prompt: Option<OpenPrompt>,
    has_prompt: bool,
    /// Whether nothing came of the first prompt yet.
    #[serde(default)]
    is_unheard: bool,
    /// The message of the queue that was sent last. One is enough: before the next is sent, the queue's file is stored
    /// without this one.
    #[serde(default)]
    sent_item: Option<QueueItemId>,
    /// The newest prompts that had an `Idempotency-Key`, oldest first.
    #[serde(default)]
    requests: VecDeque<(RequestMark, Timestamp)>,
    open_row: Option<OpenRow>,
    unsettled_approvals: Vec<RowId>,
    plan: Kept<Value>,
    usage: Option<Usage>,
    context: Context,
    model: Offer,
    mode: Offer,
    config_options: Kept<Value>,
    commands: Kept<Vec<Command>>,
    title: Title,
    /// Absent in checkpoints of versions that had no choices.
    #[serde(default)]
    chosen: Chosen,
}

/// The text row that a chunk without message id would continue (CONTRACT §4.2).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct OpenRow {
    voice: Voice,
    row_id: RowId,
    speaker: Speaker,
}

/// Which of several speakers a text is from, where an agent tells them apart only in `_meta`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Speaker {
    /// The tool call of the subagent that speaks.
    parent_call: Option<String>,
    /// What made the agent speak, where it was no prompt.
    source: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
struct Context {
    used: Option<u64>,
    size: Option<u64>,
}

/// What one line does.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Step {
    /// The rows it touches, each once, in the order in which they would be born.
    pub touches: Vec<Touch>,
    /// The keys of the reduced state that it changed, in their order.
    pub state: Vec<StateKey>,
    /// What was spent with it.
    pub spent: Option<Spending>,
    /// Whether the fold is known to be as before, but for its cursor: so it is with most lines of a stream. A fold may
    /// pass over such a line.
    pub is_quiet: bool,
}

impl Step {
    fn touch(&mut self, row_id: RowId, action: Action) {
        self.touches.push(Touch { row_id, action });
    }
    fn mark(&mut self, key: StateKey, changed: bool) {
        if changed && !self.state.contains(&key) {
            self.state.push(key);
        }
    }
}

impl StateFold {
    /// The fold of no line.
    pub fn new() -> Self {
        Self::default()
    }

    /// Folds the line at `cursor`. Cursors are consecutive and begin with 1.
    pub fn apply(&mut self, cursor: Cursor, line: &Line) -> Step {
        let mut step = Step::default();
        self.cursor = cursor;
        self.clock = line.at.or(self.clock);
        match &line.body {
            Body::Malformed => self.malformed += 1,
            Body::UnknownEnvelope => {}
            Body::Chunk(chunk) => self.plain_chunk(cursor, chunk, &mut step),
            Body::Update(update) => self.update(cursor, update, &mut step),
            Body::Envelope(envelope) => self.envelope(cursor, envelope, &mut step),
        }
        step.state.sort_unstable();
        step
    }

    /// The state after the last line. `pending_approval` and `queue` are in no log and always `None` here.
    pub fn state(&self) -> ReducedState {
        ReducedState {
            turn: self.turn.clone(),
            pending_approval: None,
            plan: self.plan.get().cloned(),
            usage: self.usage.clone(),
            context: self.context.window(),
            model: self.model.model(),
            mode: self.mode.mode(),
            config_options: self.config_options.get().cloned(),
            commands: self.commands.get().cloned(),
            title: self.title.shown().map(str::to_owned),
            queue: None,
        }
    }

    /// One key of [`StateFold::state`] as JSON.
    pub(crate) fn key_json(&self, key: StateKey) -> Vec<u8> {
        let json = match key {
            StateKey::Turn => serde_json::to_vec(&self.turn),
            // In no log.
            StateKey::PendingApproval | StateKey::Queue => serde_json::to_vec(&()),
            StateKey::Plan => serde_json::to_vec(&self.plan.get()),
            StateKey::Usage => serde_json::to_vec(&self.usage),
            StateKey::Context => serde_json::to_vec(&self.context.window()),
            StateKey::Model => serde_json::to_vec(&self.model.model()),
            StateKey::Mode => serde_json::to_vec(&self.mode.mode()),
            StateKey::ConfigOptions => serde_json::to_vec(&self.config_options.get()),
            StateKey::Commands => serde_json::to_vec(&self.commands.get()),
            StateKey::Title => serde_json::to_vec(&self.title.shown()),
        };
        json.unwrap_or_default()
    }

    /// The last line folded; 0 before the first.
    pub fn cursor(&self) -> Cursor {
        self.cursor
    }
    /// How many lines were malformed.
    pub fn malformed(&self) -> u64 {
        self.malformed
    }
    /// The last time that a line named.
    pub fn last_time(&self) -> Option<Timestamp> {
        self.clock
    }
    /// Who began the turn that has not ended.
    pub fn open_turn(&self) -> Option<Origin> {
        self.turn.origin.filter(|_| self.turn.active)
    }
    /// Whether a tool call is open.
    pub fn has_open_call(&self) -> bool {
        !self.turn.active_tool_calls.is_empty()
    }
    /// The approvals whose outcome is not in the log, oldest first.
    pub fn unsettled_approvals(&self) -> &[RowId] {
        &self.unsettled_approvals
    }
    /// What people chose of what the agent offers.
    pub fn chosen(&self) -> &Chosen {
        &self.chosen
    }
    /// Whether a person's prompt is in the log that its agent may have kept. One that ended in an error before anything
    /// came of it, as without a sign-in, was not.
    pub fn has_prompt(&self) -> bool {
        self.has_prompt
    }

    /// The message of the queue whose prompt is in the log, the last one of them (CONTRACT §8.7).
    pub fn sent_item(&self) -> Option<QueueItemId> {
        self.sent_item
    }
    /// The prompts that had an `Idempotency-Key` and when they began, the newest ones, oldest first (CONTRACT §11.5).
    pub fn requests(&self) -> impl DoubleEndedIterator<Item = &(RequestMark, Timestamp)> {
        self.requests.iter()
    }

    fn update(&mut self, cursor: Cursor, update: &Update, step: &mut Step) {
        let data = &update.data;
        let was_unheard = self.is_unheard;
        match update.kind {
            UpdateKind::Chunk(voice) => step.is_quiet = self.chunk(cursor, voice, data, step),
            UpdateKind::ToolCall => step.is_quiet = self.tool_mention(Mention::Call, data, step),
            UpdateKind::ToolCallUpdate => step.is_quiet = self.tool_mention(Mention::Update, data, step),
            UpdateKind::Plan => self.new_plan(data, step),
            UpdateKind::Usage => self.usage_update(data, step),
            UpdateKind::Mode => self.current_mode(data, step),
            UpdateKind::ConfigOptions => self.config_options_update(data, step),
            UpdateKind::Commands => self.new_commands(data, step),
            UpdateKind::SessionInfo => self.agent_title(data, step),
            UpdateKind::Unknown => {
                step.touch(RowId::keyed("notice", cursor), Action::Notice);
                self.open_row = None;
            }
        }
        step.is_quiet &= step.state.is_empty() && self.is_unheard == was_unheard;
    }

    /// Takes a mention of a call. Whether the call was open, so that what changed is only what `step` names.
    fn tool_mention(&mut self, mention: Mention, patch: &Map<String, Value>, step: &mut Step) -> bool {
        let Some(id) = tool::call_id(patch) else { return false };
        step.touch(RowId::tool(id), Action::Tool);
        let open = self.turn.active_tool_calls.iter().position(|call| call == id);
        // Of a call that is not open it is unknown here whether it has a row.
        if open.is_none() {
            self.open_row = None;
        }
        match (tool::standing(mention, patch), open) {
            (Some(Standing::Open), None) => {
                self.turn.active_tool_calls.push(id.to_owned());
                step.mark(StateKey::Turn, true);
            }
            (Some(Standing::Closed), Some(at)) => {
                self.turn.active_tool_calls.remove(at);
                step.mark(StateKey::Turn, true);
            }
            _ => {}
        }
        self.indicate(None, step);
        open.is_some()
    }

    fn new_plan(&mut self, data: &Map<String, Value>, step: &mut Step) {
        step.touch(RowId::plan(), Action::Plan);
        if self.plan.get().is_none() {
            self.open_row = None;
        }
        let mut plan = data.clone();
        crate::row::strip_maestro(&mut plan);
        step.mark(StateKey::Plan, self.plan.set(Some(Value::Object(plan))));
        self.indicate(None, step);
    }

    /// The newest thing of the turn was a chunk of `voice`, or no chunk.
    fn indicate(&mut self, voice: Option<Voice>, step: &mut Step) {
        let responding = self.turn.active && voice == Some(Voice::Agent);
        let thinking = self.turn.active && voice == Some(Voice::Thought);
        step.mark(StateKey::Turn, (responding, thinking) != (self.turn.responding, self.turn.thinking));
        self.turn.responding = responding;
        self.turn.thinking = thinking;
        self.is_unheard = false;
    }
}

impl Context {
    fn window(self) -> Option<ContextWindow> {
        Some(ContextWindow { used: self.used?, size: self.size? })
    }
}
