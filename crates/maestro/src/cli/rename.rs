use super::{CommandResult, Context, session_ref::SessionRef};
use std::process::ExitCode;

/// Name a session
///
/// An empty name takes the name away: the session is called as its agent calls it, or by its first prompt.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The session's id, or the start of it
    id: SessionRef,
    /// The name, at most 200 characters on one line
    title: String,
}

pub(super) async fn cmd_rename(context: &Context, args: &Args) -> CommandResult {
    let client = context.client().await?;
    let session = args.id.resolve(&client).await?;
    client.rename(session.id, &args.title).await?;
    context.tell_session(&client, session.id, "renamed").await?;
    Ok(ExitCode::SUCCESS)
}
