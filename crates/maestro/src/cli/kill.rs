use super::{CommandResult, Context, session_ref::SessionRef};
use std::process::ExitCode;

/// End a session's agent and everything it started; the transcript is kept
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The session's id, or the start of it
    id: SessionRef,
}

pub(super) async fn cmd_kill(context: &Context, args: &Args) -> CommandResult {
    let client = context.client().await?;
    let session = args.id.resolve(&client).await?;
    client.kill(session.id).await?;
    context.tell_session(&client, session.id, "killed").await?;
    Ok(ExitCode::SUCCESS)
}
