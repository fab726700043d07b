use super::{CommandError, CommandResult, Context, now, print, print_json, say, session_ref::SessionRef};
use crate::render;
use maestro_client::TranscriptModel;
use maestro_protocol::{ProblemCode, Queue, ReducedState, Session, TranscriptSnapshot};
use serde::Serialize;
use std::process::ExitCode;

/// Show a session and its transcript
///
/// The transcript of a dead session cannot be read until the session is restarted. Messages that wait are shown in
/// any case.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The session's id, or the start of it
    id: SessionRef,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Shown<'a> {
    session: &'a Session,
    /// `null` for a dead session.
    transcript: Option<TranscriptSnapshot>,
    state: Option<&'a ReducedState>,
    queue: &'a Queue,
}

pub(super) async fn cmd_show(context: &Context, args: &Args) -> CommandResult {
    let client = context.client().await?;
    let session = args.id.resolve(&client).await?;
    let model = match client.snapshot(session.id).await {
        Ok(model) => Some(model),
        Err(error) if error.code() == Some(ProblemCode::NotStructured) => None,
        Err(error) => return Err(error.into()),
    };
    let queue = client.queue(session.id).await?;
    if context.json {
        let transcript = model
            .as_ref()
            .map(|model| TranscriptSnapshot { cursor: model.cursor(), rows: model.rows().to_vec() });
        let state = model.as_ref().map(TranscriptModel::state);
        print_json(&Shown { session: &session, transcript, state, queue: &queue })?;
        return Ok(ExitCode::SUCCESS);
    }
    print(&render::session::facts(&session, now(), context.paint()))?;
    match model {
        Some(model) => show_transcript(context, &session, &model)?,
        None => say(&format!(
            "the session is dead, so its transcript cannot be read; bring it back with: maestro restart {}",
            session.id
        ))?,
    }
    if let Some(waiting) = render::queue::waiting(&queue, session.id, context.paint()) {
        print(&format!("\n{waiting}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn show_transcript(
    context: &Context,
    session: &Session,
    model: &TranscriptModel,
) -> Result<(), CommandError> {
    let transcript = render::transcript(model.rows(), context.paint());
    if !transcript.is_empty() {
        print(&format!("\n{transcript}"))?;
    }
    if let Some(end) = model.state().turn.last_end.as_ref().filter(|_| !model.state().turn.active) {
        print(&format!("\n{}", render::usage::turn_end(end, context.paint())))?;
    }
    if let Some(line) = render::usage::line(model.state(), context.paint()) {
        print(&line)?;
    }
    if let Some(pending) = &model.state().pending_approval {
        let question = render::approval::question_of(model, &session.cwd, pending, context.paint());
        let answers = render::approval::commands(session.id, pending);
        print(&format!("\n{question}{answers}"))?;
    }
    Ok(())
}
