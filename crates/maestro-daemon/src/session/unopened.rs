//! A session whose log cannot be opened: it has an owner that says so, until a person has mended it or there is space.

use crate::session::{
    actor::{Birth, DEAD_IDLE, RETRY, Shown, answer, sleep_until},
    handle::{Command, Reply, SessionError, StopWish},
    lanes::Lanes,
    opening::JournalError,
    publish::save,
    start::Wish,
};
use maestro_protocol::{EndReason, RequestMark, Session, Status};
use tokio::time::Instant;

/// What becomes of it.
pub(super) enum Next {
    /// The log is to be tried again, for a person who wants the session back if there is one.
    Again(Option<RestartWish>),
    /// Nobody asked for a while, or the daemon shuts down.
    Leave,
}

/// A person's restart, and the request that it is.
pub(super) type RestartWish = (Option<RequestMark>, Reply<Session>);

/// Whether a start goes on by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// There is no space for the log of a session that is to start; it starts when there is.
    WaitsForSpace,
    Dead,
}

/// Serves a session that has no log. A mere look at one that is dead changes nothing of it; one that was to start is dead
/// now and says why, unless only space is missing.
pub(super) async fn serve(birth: &mut Birth, error: &JournalError, shown: &Shown, lanes: &mut Lanes) -> Next {
    let told = crate::report::chain(error);
    let standing = match birth.start {
        Some(_) if error.is_full() => Standing::WaitsForSpace,
        _ => Standing::Dead,
    };
    show(birth, standing, &told, shown).await;
    let again_at = (standing == Standing::WaitsForSpace).then(|| Instant::now() + RETRY);
    loop {
        let command = tokio::select! {
            biased;
            Some(wish) = lanes.stops.recv() => match wish {
                StopWish::Kill { reply } if standing == Standing::WaitsForSpace => {
                    bury(birth, EndReason::Killed, None, shown).await;
                    answer(reply, Ok(()));
                    return Next::Again(None);
                }
                StopWish::Kill { reply } => {
                    answer(reply, Ok(()));
                    continue;
                }
                StopWish::Shutdown { reply } => {
                    if standing == Standing::WaitsForSpace {
                        shut_down(birth, shown).await;
                    }
                    answer(reply, Ok(()));
                    return Next::Leave;
                }
            },
            () = sleep_until(again_at) => return Next::Again(None),
            Some(command) = lanes.urgent.recv() => command,
            command = lanes.commands.recv() => match command {
                Some(command) => command,
                None => return Next::Leave,
            },
            Some(look) = lanes.looks.recv() => look,
            () = tokio::time::sleep(DEAD_IDLE) => {
                if lanes.close_if_empty() {
                    return Next::Leave;
                }
                continue;
            }
        };
        if let Some(wish) = refuse(*command, standing, &told) {
            return Next::Again(Some(wish));
        }
    }
}

/// Refuses a command, or returns one that may change everything.
fn refuse(command: Command, standing: Standing, told: &str) -> Option<RestartWish> {
    let dead = match standing {
        Standing::WaitsForSpace => SessionError::LogUnwritable,
        Standing::Dead => SessionError::NotStructured,
    };
    match command {
        Command::Prompt { reply, .. } | Command::Cancel { reply } | Command::Decide { reply, .. } => {
            answer(reply, Err(dead));
        }
        Command::Set { reply, .. } => answer(reply, Err(dead)),
        Command::Snapshot { reply, .. } | Command::Changes { reply, .. } => answer(reply, Err(dead)),
        Command::Row { reply, .. } => answer(reply, Err(dead)),
        Command::Log { reply } => answer(reply, Err(dead)),
        Command::Rename { reply, .. } => {
            answer(reply, Err(SessionError::LogFailed { detail: told.to_owned() }));
        }
        // What of it the log has already cannot be known.
        Command::Queue(command) => command.refuse(&SessionError::LogFailed { detail: told.to_owned() }),
        Command::Restart { reply, .. } if standing == Standing::WaitsForSpace => {
            answer(reply, Err(SessionError::AlreadyRunning));
        }
        Command::Restart { request, reply } => return Some((request, reply)),
        // What is open in the log is closed when it can be opened.
        Command::Mend { reply } => answer(reply, Ok(())),
    }
    None
}

async fn show(birth: &mut Birth, standing: Standing, told: &str, shown: &Shown) {
    let id = birth.stored.id();
    shown.health.send_modify(|health| health.unopened = Some(told.to_owned()));
    match standing {
        Standing::WaitsForSpace => {
            let session = &mut birth.stored.session;
            if session.activity_detail.as_deref() != Some(told) {
                tracing::warn!(session.id = %id, "Session `{id}` waits for space: {told}");
            }
            session.status = Status::Starting;
            session.end_reason = None;
            session.activity_detail = Some(told.to_owned());
            shown.session.send_replace(session.clone());
        }
        Standing::Dead if birth.start.is_some() => {
            bury(birth, EndReason::LogFailed, Some(told.to_owned()), shown).await;
        }
        Standing::Dead => {
            tracing::error!(session.id = %id, "The log of session `{id}` cannot be opened: {told}");
            shown.pulse.send_modify(|pulse| pulse.ended = birth.stored.session.end_reason);
        }
    }
}

/// A session that waits for space is shut down like one that starts; one that was to be resumed is to be resumed still.
async fn shut_down(birth: &mut Birth, shown: &Shown) {
    let (id, resumes) = (birth.stored.id(), birth.start == Some(Wish::Recover));
    bury(birth, EndReason::DaemonShutdown, None, shown).await;
    if resumes && let Err(error) = birth.around.logs.write_marker(id) {
        let told = crate::report::chain(&error);
        tracing::error!(session.id = %id, "Session `{id}` will not be resumed: {told}");
    }
}

async fn bury(birth: &mut Birth, reason: EndReason, detail: Option<String>, shown: &Shown) {
    let id = birth.stored.id();
    tracing::error!(session.id = %id, "Session `{id}` is dead ({reason:?}): {}", detail.as_deref().unwrap_or_default());
    birth.start = None;
    let session = &mut birth.stored.session;
    session.status = Status::Dead;
    session.activity = None;
    session.end_reason = Some(reason);
    session.activity_detail = detail;
    session.updated_at = birth.around.sources.clock.now();
    shown.session.send_replace(session.clone());
    save(&birth.around, &birth.stored).await;
    shown.pulse.send_modify(|pulse| pulse.ended = Some(reason));
}
