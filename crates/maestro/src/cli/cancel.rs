use super::{CommandResult, Context, session_ref::SessionRef};
use std::process::ExitCode;

/// Cancel a session's active turn; nothing happens without one
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The session's id, or the start of it
    id: SessionRef,
}

pub(super) async fn cmd_cancel(context: &Context, args: &Args) -> CommandResult {
    let client = context.client().await?;
    let session = args.id.resolve(&client).await?;
    client.cancel(session.id).await?;
    context.tell_session(&client, session.id, "no turn is active any more in").await?;
    Ok(ExitCode::SUCCESS)
}
