use super::{CommandResult, Context, session_ref::SessionRef, settle::settle};
use maestro_protocol::Decision;

/// Allow what a session's agent asks permission for
///
/// Allows once, unless told otherwise. `maestro show` prints the request that waits.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The session's id, or the start of it
    id: SessionRef,
    /// Allow it for the rest of the session
    #[arg(long, conflicts_with = "option")]
    session: bool,
    /// Choose this option of the agent, by its id
    #[arg(long, value_name = "OPTION")]
    option: Option<String>,
    /// Only if this is the request that waits, as `maestro show` and `maestro run` name it
    #[arg(long, value_name = "ROW")]
    request: Option<String>,
}

pub(super) async fn cmd_approve(context: &Context, args: Args) -> CommandResult {
    let decision = match (args.option, args.session) {
        (Some(option), _) => Decision::Option(option),
        (None, true) => Decision::AllowForSession,
        (None, false) => Decision::AllowOnce,
    };
    settle(context, &args.id, args.request.as_deref(), decision).await
}
