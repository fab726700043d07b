//! What a new session is before anything of it runs.

use crate::{
    account::AccountScope,
    registry::{CreateError, NewSession},
    session::{Made, StoredQueue, StoredSession, Surroundings, first_queue},
};
use maestro_protocol::{Author, EndReason, QueueItem, QueueItemId, Session, SessionId, Status, View};
use std::path::Path;

/// Checks the wish and makes the session of it, and its queue, if it begins with a prompt. Nothing is stored. One whose agent is not installed is dead from the
/// beginning and says how to install it (CONTRACT §2.2).
pub(super) fn new_session(
    around: &Surroundings,
    scope: &AccountScope,
    new: NewSession,
) -> Result<(StoredSession, Option<StoredQueue>), CreateError> {
    let NewSession { wish, prompt, client, request } = new;
    let agents = &around.agents;
    let agent = wish.agent.unwrap_or_else(|| agents.default_key());
    if !agents.contains(&agent) {
        return Err(CreateError::UnknownAgent { agent: agent.to_string(), known: agents.known() });
    }
    let cwd = wish.cwd.unwrap_or_else(home);
    if !(Path::new(&cwd).is_absolute() && Path::new(&cwd).is_dir()) {
        return Err(CreateError::InvalidCwd { cwd });
    }
    let env = wish.env.unwrap_or_default();
    let missing = agents.missing(&agent, env.get("PATH"));
    let now = around.sources.clock.now();
    let session = Session {
        id: SessionId::from_uuid(around.sources.entropy.uuid()),
        owner: scope.email().to_owned(),
        view: View::Structured,
        agent,
        title: wish.title.unwrap_or_default(),
        cwd,
        status: if missing.is_some() { Status::Dead } else { Status::Starting },
        activity: None,
        end_reason: missing.is_some().then_some(EndReason::AdapterMissing),
        activity_detail: missing,
        acp_session_id: None,
        created_at: now,
        updated_at: now,
        usage: None,
    };
    let queue = prompt.map(|content| {
        let id = QueueItemId::from_uuid(around.sources.entropy.uuid());
        let by = Author { account: scope.email().to_owned(), client };
        first_queue(QueueItem { id, content, created_at: now, by })
    });
    let created = request.map(|request| Box::new(Made { request, at: now, session: session.clone() }));
    let (mode, model) = (wish.mode, wish.model);
    let stored = StoredSession {
        session,
        env,
        mode,
        model,
        load_supported: None,
        doubtful_from: None,
        spawn: None,
        spawned_in: None,
        ledger: None,
        created,
        restarted: None,
    };
    Ok((stored, queue))
}

/// Where a session of the daemon's own user works unless it says otherwise.
fn home() -> String {
    std::env::var("HOME").unwrap_or_else(|_unset_or_not_utf8| "/".into())
}
