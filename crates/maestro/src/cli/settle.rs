//! Answering the approval that waits, for `approve` and `deny`.

use super::{CommandError, Context, print_json, say, session_ref::SessionRef};
use crate::{render::approval, terminal::clean_line};
use maestro_client::{Client, StructuredEvent, StructuredStream, TranscriptModel};
use maestro_protocol::{
    ApprovalOutcome, Decision, Deltas, PendingApproval, RowId, Session, TranscriptRowKind, WatchQuery,
};
use serde::Serialize;
use std::{process::ExitCode, time::Duration};

/// How long the outcome is waited for after an answer was accepted.
const OUTCOME_LIMIT: Duration = Duration::from_secs(10);

/// How many rows are looked at: the request is among the newest, since its agent waits for the answer.
const TAIL_ROWS: u64 = 256;

/// What `--json` prints.
#[derive(Serialize)]
struct Settled<'a> {
    row_id: &'a RowId,
    /// `null` if the session ended before it was told.
    outcome: Option<ApprovalOutcome>,
}

/// Gives `decision` to the request that waits, if it is the one that is meant, and tells what became of it: somebody
/// else may have answered first.
pub(super) async fn settle(
    context: &Context,
    session: &SessionRef,
    meant: Option<&str>,
    decision: Decision,
) -> Result<ExitCode, CommandError> {
    let client = context.client().await?;
    let session = session.resolve(&client).await?;
    let query = WatchQuery { deltas: Some(Deltas::Text), tail: Some(TAIL_ROWS) };
    let mut stream = client.structured(session.id, query).await?;
    let mut model = TranscriptModel::default();
    while !advance(&mut stream, &mut model).await? {}
    let pending = pending(&session, &model, meant)?;
    answer(&client, &session, &pending, decision).await?;

    let settled = tokio::time::timeout(OUTCOME_LIMIT, async {
        while model.state().pending_approval.as_ref().is_some_and(|now| now.row_id == pending.row_id) {
            advance(&mut stream, &mut model).await?;
        }
        Ok::<(), CommandError>(())
    });
    if let Ok(settled) = settled.await {
        settled?;
    }
    tell(context, &model, &pending)?;
    Ok(ExitCode::SUCCESS)
}

/// Takes the next frame; whether the model's state is now that of its rows.
async fn advance(stream: &mut StructuredStream, model: &mut TranscriptModel) -> Result<bool, CommandError> {
    match stream.next().await? {
        StructuredEvent::Frame(frame) => {
            let Ok(applied) = model.apply(*frame) else {
                stream.resync();
                return Ok(false);
            };
            Ok(applied != maestro_client::Applied::Snapshot)
        }
        StructuredEvent::Reconnecting => Ok(false),
        StructuredEvent::Dead => Err(CommandError::user("the session died; its request is withdrawn")),
    }
}

fn pending(
    session: &Session,
    model: &TranscriptModel,
    meant: Option<&str>,
) -> Result<PendingApproval, CommandError> {
    let pending = model.state().pending_approval.clone();
    let Some(meant) = meant else {
        let nothing = || CommandError::user(format!("nothing waits for an answer in session {}", session.id));
        return pending.ok_or_else(nothing);
    };
    let error = match pending {
        Some(pending) if pending.row_id.as_str() == meant => return Ok(pending),
        _ if !is_request(model, meant) => {
            CommandError::user(format!("session {} has no request `{meant}`", session.id))
        }
        Some(_another) => CommandError::user("that request is settled, and another waits now"),
        None => CommandError::user("that request is settled, and nothing waits for an answer"),
    };
    Err(error.hint(format!("`maestro show {}` prints what waits", session.id)))
}

/// Whether this is, or was, a request of the session.
fn is_request(model: &TranscriptModel, row_id: &str) -> bool {
    model.rows().iter().any(|row| row.kind == TranscriptRowKind::Approval && row.id.as_str() == row_id)
}

async fn answer(
    client: &Client,
    session: &Session,
    pending: &PendingApproval,
    decision: Decision,
) -> Result<(), CommandError> {
    let Some(nonce) = pending.nonce else {
        let error = CommandError::user("you may see this request but not answer it");
        return Err(error.hint("a person must do this, outside of any agent"));
    };
    Ok(client.answer(session.id, nonce, decision).await?)
}

fn tell(context: &Context, model: &TranscriptModel, pending: &PendingApproval) -> Result<(), CommandError> {
    let data = model.row(&pending.row_id).map(|row| &row.data);
    let outcome = data.and_then(approval::outcome);
    if context.json {
        return print_json(&Settled { row_id: &pending.row_id, outcome });
    }
    let title = data.and_then(|data| data.pointer("/toolCall/title")).and_then(serde_json::Value::as_str);
    let title = clean_line(title.unwrap_or("the request"));
    match (data, outcome) {
        (Some(data), Some(outcome)) => say(&format!("{title}: {}", approval::outcome_words(data, &outcome))),
        _ => say(&format!("{title}: answered")),
    }
}
