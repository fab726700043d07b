use super::{CommandResult, Context, now, print, print_json, say};
use crate::render;
use std::process::ExitCode;

/// List your sessions, newest first
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

pub(super) async fn cmd_ls(context: &Context, _args: &Args) -> CommandResult {
    let list = context.client().await?.sessions().await?;
    if context.json {
        print_json(&list)?;
    } else if list.sessions.is_empty() {
        say("no sessions yet; start one with: maestro run \"…\"")?;
    } else {
        print(&render::session::table(&list.sessions, now(), context.paint()))?;
    }
    Ok(ExitCode::SUCCESS)
}
