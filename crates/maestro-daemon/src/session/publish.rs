//! What others see of a session: the watched `Session`, the wake-ups of sockets, the sidecar.

use crate::session::{
    actor::{Phase, SessionActor, Surroundings},
    health::SessionHealth,
    stored::StoredSession,
};
use maestro_protocol::{Activity, AuditEvent, StateKey, Status};
use std::sync::Arc;

impl SessionActor {
    /// Brings everything that others see up to date. Called after every input.
    pub(super) async fn publish(&mut self) {
        let changed = self.journal.take_changed();
        if [StateKey::Title, StateKey::Usage, StateKey::Turn].iter().any(|key| changed.contains(key)) {
            self.take_from_log();
        }
        self.show_overlay();
        self.stored.session.activity = self.activity();
        let has_lines = self.journal.announce(&self.pulse);
        let (is_new, is_to_store) = {
            let before = self.session.borrow();
            let now = &self.stored.session;
            (*before != *now, before.title != now.title || before.status != now.status)
        };
        if has_lines || is_new {
            self.stored.session.updated_at = self.around.sources.clock.now();
            self.session.send_replace(self.stored.session.clone());
        }
        let health = self.health();
        self.health.send_if_modified(|shown| {
            let news = *shown != health;
            *shown = health;
            news
        });
        let is_first_count = std::mem::take(&mut self.is_first_count);
        if is_to_store || is_first_count {
            self.save().await;
        }
    }

    /// The log is the home of title and usage; the sidecar's are copies, which a killed daemon may have left behind.
    pub(super) fn take_from_log(&mut self) {
        let projection = self.journal.projection();
        let ledger = projection.ledger();
        if self.stored.ledger.as_deref() != Some(ledger) {
            self.stored.ledger = Some(Arc::new(ledger.clone()));
            self.ledger.send_replace(self.stored.ledger.clone());
        }
        if projection.cursor() > 0 {
            let state = projection.state();
            self.stored.session.title = state.title.unwrap_or_default();
            self.stored.session.usage = state.usage;
        }
    }

    /// Notes what was done with this session.
    pub(super) fn audit(&self, event: AuditEvent) {
        self.around.audit.note(&self.stored.session.owner, event);
    }

    fn health(&self) -> SessionHealth {
        let waiting = (self.journal.unpaid().0 + self.backlog.len()) as u64;
        SessionHealth {
            stalled: self.stall.as_ref().map(|stall| (stall.words.clone(), waiting)),
            is_unsaved: self.is_unsaved,
            ..self.journal.health()
        }
    }

    fn activity(&self) -> Option<Activity> {
        match self.phase {
            Phase::Dead | Phase::Starting { .. } => None,
            Phase::Running(_) if self.approvals.live().is_some() => Some(Activity::Waiting),
            Phase::Running(_) if self.turn.is_active() => Some(Activity::Working),
            Phase::Running(_) => Some(Activity::Active),
        }
    }

    /// Stores the sidecar, now or when there is space.
    pub(super) async fn save(&mut self) {
        let told = store(&self.around, &self.stored).await.err();
        if let Some(told) = told.as_deref().filter(|_| !self.is_unsaved) {
            tell_unsaved(&self.stored, told);
        }
        self.is_unsaved = told.is_some();
    }

    pub(super) fn is_dead(&self) -> bool {
        self.stored.session.status == Status::Dead
    }
}

/// Stores a sidecar. A failure is told and changes nothing else: the log is the truth of a transcript.
pub(super) async fn save(around: &Surroundings, stored: &StoredSession) {
    if let Err(told) = store(around, stored).await {
        tell_unsaved(stored, &told);
    }
}

fn tell_unsaved(stored: &StoredSession, told: &str) {
    let id = stored.id();
    tracing::error!(session.id = %id, "The sidecar of session `{id}` could not be stored: {told}");
}

/// The error is what to tell.
async fn store(around: &Surroundings, stored: &StoredSession) -> Result<(), String> {
    let (logs, stored) = (around.logs.clone(), stored.clone());
    let written = tokio::task::spawn_blocking(move || logs.write_sidecar(stored.id(), &stored)).await;
    match written {
        Ok(written) => written.map_err(|error| crate::report::chain(&error)),
        Err(broke_off) => Err(broke_off.to_string()),
    }
}
