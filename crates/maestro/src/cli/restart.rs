use super::{CommandError, CommandResult, Context, follow, print_json, say, session_ref::SessionRef};
use crate::render;
use maestro_protocol::Status;
use std::process::ExitCode;

/// Start the agent of a dead session again, with the conversation it had
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The session's id, or the start of it
    id: SessionRef,
}

pub(super) async fn cmd_restart(context: &Context, args: &Args) -> CommandResult {
    let client = context.client().await?;
    let session = args.id.resolve(&client).await?;
    let session = client.restart(session.id).await?;
    let session = follow::until_started(&client, session).await?;
    if context.json {
        print_json(&session)?;
    }
    if session.status == Status::Dead {
        return Err(CommandError::user(follow::why_dead(&session)));
    }
    if !context.json {
        say(&format!("restarted {}", session.id))?;
        let queue = client.queue(session.id).await?;
        if let Some(words) = render::queue::held(&queue, session.id) {
            say(&words)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
