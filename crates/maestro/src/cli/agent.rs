mod install;
mod ls;

use super::{CommandResult, Context};

/// The agents that sessions can have
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Ls(ls::Args),
    Install(install::Args),
}

pub(super) async fn cmd_agent(context: &Context, args: &Args) -> CommandResult {
    match &args.command {
        Command::Ls(args) => ls::cmd_ls(context, args).await,
        Command::Install(args) => install::cmd_install(context, args).await,
    }
}
