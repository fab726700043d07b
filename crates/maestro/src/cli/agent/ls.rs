use crate::{
    cli::{CommandResult, Context, print, print_json},
    render,
};
use std::process::ExitCode;

/// List the agents, and the command that installs a missing one
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

pub(super) async fn cmd_ls(context: &Context, _args: &Args) -> CommandResult {
    let list = context.client().await?.agents().await?;
    if context.json {
        print_json(&list)?;
    } else {
        print(&render::session::agents(&list.agents, context.paint()))?;
    }
    Ok(ExitCode::SUCCESS)
}
