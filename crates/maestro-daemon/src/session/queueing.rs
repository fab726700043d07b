//! The queue at work: stored before anybody is told, sent when a turn is free (CONTRACT §8.7).

use crate::session::{
    actor::{AfterFlush, Phase, SessionActor, Surroundings, answer},
    commands::Ask,
    handle::{Reply, SessionError},
    queue::{Life, Next, Queue, Stand, StoredQueue},
    storage::Stall,
    turn::TurnInput,
};
use maestro_log::AppendError;
use maestro_protocol::{
    Author, Queue as QueueView, QueueHold, QueueItem, QueueItemId, QueueState, RequestMark, SessionId,
    TurnLine,
};
use serde_json::Value;
use std::sync::Arc;

/// What people ask of a session's queue.
#[derive(Debug)]
pub(crate) enum QueueCommand {
    /// Show it.
    Read { reply: Reply<QueueView> },
    /// Add a message behind the others.
    Add { content: Vec<Value>, by: Author, request: Option<RequestMark>, reply: Reply<QueueItem> },
    /// Change a message's content or place.
    Edit { item: QueueItemId, content: Option<Vec<Value>>, position: Option<u64>, reply: Reply<QueueItem> },
    /// Take a message out.
    Remove { item: QueueItemId, reply: Reply<()> },
    /// Go on with what is held.
    Resume { reply: Reply<()> },
}

impl QueueCommand {
    /// Tells whoever asked that it cannot be.
    pub(super) fn refuse(self, error: &SessionError) {
        match self {
            Self::Read { reply } => answer(reply, Err(error.clone())),
            Self::Add { reply, .. } | Self::Edit { reply, .. } => answer(reply, Err(error.clone())),
            Self::Remove { reply, .. } | Self::Resume { reply } => answer(reply, Err(error.clone())),
        }
    }
}

/// The queue as others see it.
#[derive(Debug, Default)]
pub(super) struct ShownQueue {
    /// As the live state shows it.
    pub(super) state: Arc<QueueState>,
    /// The revision of the queue that it is of.
    revision: u64,
    /// What is told while the disk keeps it from being sent.
    stall: Option<Stall>,
}

impl SessionActor {
    pub(super) async fn on_queue_command(&mut self, command: QueueCommand) {
        match command {
            QueueCommand::Read { reply } => {
                let view = self.queue.as_ref().map(|queue| queue.view(self.stand()));
                answer(reply, view.map_err(Clone::clone));
            }
            QueueCommand::Add { content, by, request, reply } => {
                let added = self.add_to_queue(content, by, request).await;
                answer(reply, added);
            }
            QueueCommand::Edit { item, content, position, reply } => {
                let edited = self.change_queue(|queue| queue.edit(item, content, position)).await;
                answer(reply, edited);
            }
            QueueCommand::Remove { item, reply } => {
                let removed = self.change_queue(|queue| queue.remove(item)).await;
                answer(reply, removed);
            }
            QueueCommand::Resume { reply } => {
                let resumed = match &mut self.queue {
                    _ if matches!(self.phase, Phase::Dead) => Err(SessionError::NotStructured),
                    Ok(queue) => {
                        queue.resume();
                        Ok(())
                    }
                    Err(error) => Err(error.clone()),
                };
                answer(reply, resumed);
            }
        }
    }

    async fn add_to_queue(
        &mut self,
        content: Vec<Value>,
        by: Author,
        request: Option<RequestMark>,
    ) -> Result<QueueItem, SessionError> {
        let now = self.around.sources.clock.now();
        if let (Ok(queue), Some(retry)) = (&self.queue, &request)
            && let Some(first) = queue.answer_to(retry, &content, now)
        {
            return first;
        }
        let id = QueueItemId::from_uuid(self.around.sources.entropy.uuid());
        let item = QueueItem { id, content, created_at: now, by };
        self.change_queue(|queue| queue.add(item.clone(), request)).await.map(|()| item)
    }

    /// Stores the changed queue, then makes the change. A change that cannot be stored has not happened.
    async fn change_queue<T>(
        &mut self,
        change: impl FnOnce(&mut Queue) -> Result<T, SessionError>,
    ) -> Result<T, SessionError> {
        let mut next = self.queue.clone()?;
        let done = change(&mut next)?;
        if let Err(told) = store(&self.around, self.stored.id(), next.stored()).await {
            tell_unstored(self.stored.id(), &told);
            return Err(SessionError::QueueUnwritable);
        }
        next.file_stored();
        self.queue = Ok(next);
        Ok(done)
    }

    /// Sends the first message, whose time has come, or stores what has to be stored before.
    pub(super) async fn serve_queue(&mut self) {
        if self.next_of_queue() == Next::Store {
            self.catch_up_queue().await;
        }
        if self.next_of_queue() != Next::Send {
            return;
        }
        let Ok(queue) = &mut self.queue else { return };
        let Some(item) = queue.name_next() else { return };
        let ask = Ask { content: item.content.clone(), queue_item: Some(item.id), request: None };
        let (next, _) = self.turn.on(TurnInput::Prompt);
        match self.begin_turn(next, &ask) {
            Ok(claim) => {
                let (reply, _nobody) = tokio::sync::oneshot::channel();
                self.after_flush(AfterFlush::Dispatch { claim, ask, reply });
            }
            Err(error) => {
                let (id, told) = (self.stored.id(), crate::report::chain(&error));
                tracing::debug!(session.id = %id, "A waiting message of session `{id}` cannot be sent yet: {told}");
                if let Ok(queue) = &mut self.queue {
                    queue.unname();
                }
                if matches!(error, AppendError::Lost { .. }) {
                    self.die_of_log().await;
                } else {
                    self.note_queue_stall(error.to_string());
                }
            }
        }
    }

    /// What is to be done with the first message.
    pub(super) fn next_of_queue(&self) -> Next {
        self.queue.as_ref().map_or(Next::Nothing, |queue| queue.next(self.stand()))
    }

    /// The log has a message for good: the file follows.
    pub(super) async fn confirm_queue_item(&mut self, id: QueueItemId) {
        let is_confirmed = self.queue.as_mut().is_ok_and(|queue| queue.confirm(id));
        if is_confirmed {
            Box::pin(self.catch_up_queue()).await;
        }
    }

    /// Tries again what the disk refused.
    pub(super) async fn retry_queue(&mut self) {
        match &mut self.queue {
            Ok(queue) if queue.is_behind() => Box::pin(self.catch_up_queue()).await,
            Ok(queue) => queue.try_again(),
            Err(_unreadable) => {}
        }
    }

    async fn catch_up_queue(&mut self) {
        let Ok(queue) = &self.queue else { return };
        let stored = store(&self.around, self.stored.id(), queue.stored()).await;
        let Ok(queue) = &mut self.queue else { return };
        match stored {
            Ok(()) => queue.file_stored(),
            Err(told) => {
                if !queue.is_stuck() {
                    tell_unstored(self.stored.id(), &told);
                }
                queue.set_stuck();
                self.note_queue_stall(SessionError::QueueUnwritable.to_string());
            }
        }
    }

    /// Says, once, why what waits is not sent although its time has come.
    fn note_queue_stall(&mut self, words: String) {
        if self.shown_queue.stall.is_none() && self.stall.is_none() && self.is_queue_stuck() {
            self.shown_queue.stall = Some(Stall::note(words, &mut self.stored.session));
        }
    }

    /// Takes that back.
    pub(super) fn lift_queue_stall(&mut self) {
        if let Some(stall) = self.shown_queue.stall.take() {
            stall.lift(&mut self.stored.session);
        }
    }

    /// Whether the disk refused something of the queue that is to be tried again.
    pub(super) fn is_queue_stuck(&self) -> bool {
        matches!(&self.queue, Ok(queue) if queue.is_stuck())
    }

    pub(super) fn hold_queue(&mut self, why: QueueHold) {
        if let Ok(queue) = &mut self.queue {
            queue.hold(Some(why));
        }
    }

    /// A turn that failed, or that the agent calls cancelled, holds what waits.
    pub(super) fn hold_queue_after(&mut self, end: &TurnLine) {
        if let TurnLine::Ended { reason, .. } = end {
            match reason.as_str() {
                "error" => self.hold_queue(QueueHold::Failed),
                "cancelled" => self.hold_queue(QueueHold::Cancelled),
                _ => {}
            }
        }
    }

    /// Brings what the live state shows beside the log up to date.
    pub(super) fn show_overlay(&mut self) {
        if let Ok(queue) = &self.queue {
            let held = queue.why_held(self.stand());
            let shown = &mut self.shown_queue;
            if (queue.revision(), held) != (shown.revision, shown.state.held) {
                shown.state = Arc::new(queue.preview(held));
                shown.revision = queue.revision();
            }
        }
        if !self.is_queue_stuck() {
            self.lift_queue_stall();
        }
        self.journal.observe(self.overlay());
    }

    fn stand(&self) -> Stand {
        let life = match self.phase {
            Phase::Dead => Life::Dead,
            Phase::Starting { .. } => Life::Starting,
            Phase::Running(_) => Life::Running,
        };
        Stand {
            life,
            turn: self.turn,
            asked: self.approvals.is_open(),
            blocked: !self.held.is_empty() || self.is_stalled(),
        }
    }
}

/// Reads a session's queue. `sent` is the message that the log named last. A file that cannot be read is told, left
/// alone, and the error to everything that is asked of the queue.
pub(super) async fn open(
    around: &Surroundings,
    id: SessionId,
    sent: Option<QueueItemId>,
    held: Option<QueueHold>,
) -> Result<Queue, SessionError> {
    let logs = around.logs.clone();
    let told = match tokio::task::spawn_blocking(move || logs.read_queue::<StoredQueue>(id)).await {
        Ok(Ok(stored)) => return Ok(Queue::open(stored.unwrap_or_default(), sent, held)),
        Ok(Err(error)) => crate::report::chain(&error),
        Err(error) => error.to_string(),
    };
    tracing::error!(session.id = %id, "The queue of session `{id}` cannot be read: {told}");
    Err(SessionError::QueueUnreadable)
}

/// Stores a queue, or says why that failed.
async fn store(around: &Surroundings, id: SessionId, queue: StoredQueue) -> Result<(), String> {
    let logs = around.logs.clone();
    match tokio::task::spawn_blocking(move || logs.write_queue(id, &queue)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(crate::report::chain(&error)),
        Err(error) => Err(error.to_string()),
    }
}

fn tell_unstored(id: SessionId, told: &str) {
    tracing::error!(session.id = %id, "The queue of session `{id}` could not be stored: {told}");
}

/// The queue of a new session, with its first prompt.
pub(crate) fn first(item: QueueItem) -> StoredQueue {
    StoredQueue { items: vec![Arc::new(item)], ..StoredQueue::default() }
}
