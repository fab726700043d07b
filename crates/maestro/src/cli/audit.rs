use super::{CommandResult, Context, print, print_json, say};
use crate::render;
use maestro_protocol::AuditQuery;
use std::process::ExitCode;

/// Show what was done for you, by whom, and what was refused, newest last
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// How many entries at most, up to 500
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Entries before this number
    #[arg(long, value_name = "N")]
    before: Option<u64>,
}

pub(super) async fn cmd_audit(context: &Context, args: &Args) -> CommandResult {
    let query = AuditQuery { before: args.before, limit: args.limit };
    let page = context.client().await?.audit(query).await?;
    if context.json {
        print_json(&page)?;
    } else {
        print(&render::audit::table(&page.entries, context.paint()))?;
        if let Some(before) = page.before {
            say(&format!("older ones: maestro audit --before {before}"))?;
        }
        if let Some(line) = page.broken_line {
            say(&format!(
                "the log cannot be trusted from its line {line} on: it was changed or cut short there"
            ))?;
        }
    }
    // A log that somebody changed is a finding.
    Ok(if page.broken_line.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
