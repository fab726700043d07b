use super::{CommandResult, Context, session_ref::SessionRef, settle::settle};
use maestro_protocol::Decision;

/// Refuse what a session's agent asks permission for, this one time if the agent knows a difference
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The session's id, or the start of it
    id: SessionRef,
    /// Only if this is the request that waits, as `maestro show` and `maestro run` name it
    #[arg(long, value_name = "ROW")]
    request: Option<String>,
}

pub(super) async fn cmd_deny(context: &Context, args: Args) -> CommandResult {
    settle(context, &args.id, args.request.as_deref(), Decision::Deny).await
}
