use super::{CommandResult, Context, print, print_json, say, session_ref::SessionRef};
use crate::render;
use maestro_protocol::{Cursor, ReplayQuery, TranscriptDelta};
use std::process::ExitCode;

/// Read a page of a session's event log, line by line as it changed the transcript
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The session's id, or the start of it
    id: SessionRef,
    /// The first page after this line; 0, the default, is the start
    #[arg(long, value_name = "LINE", conflicts_with = "before")]
    since: Option<Cursor>,
    /// The page right before this line
    #[arg(long, value_name = "LINE")]
    before: Option<Cursor>,
    /// How many lines, 1 to 500; 100 unless given
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

pub(super) async fn cmd_replay(context: &Context, args: &Args) -> CommandResult {
    let client = context.client().await?;
    let session = args.id.resolve(&client).await?;
    let query = ReplayQuery { since: args.since, before: args.before, limit: args.limit, deltas: None };
    let page = client.replay(session.id, query).await?;
    if context.json {
        print_json(&page)?;
        return Ok(ExitCode::SUCCESS);
    }
    let paint = context.paint();
    for event in &page.events {
        let turn = if event.state.turn.active { "turn active" } else { "no turn" };
        let mut text = paint.dim(&format!("{:>6}  {turn}", event.cursor)) + "\n";
        for delta in &event.transcript {
            text += &match delta {
                TranscriptDelta::Append { row } => changed("+", row.id.as_str(), &render::row(row, paint)),
                TranscriptDelta::Patch { row } => changed("~", row.id.as_str(), &render::row(row, paint)),
                TranscriptDelta::Remove { id } => changed("-", id.as_str(), ""),
                TranscriptDelta::AppendText { id, text, .. } => {
                    changed("~", id.as_str(), &render::plain(text))
                }
            };
        }
        print(&text)?;
    }
    match page.next {
        Some(next) => say(&format!("more: maestro replay {} --since {next}", session.id))?,
        None => say("end of the log")?,
    }
    Ok(ExitCode::SUCCESS)
}

fn changed(sign: &str, row_id: &str, lines: &str) -> String {
    let lines = render::lines_of(lines.lines().map(|line| format!("          {line}")));
    format!("        {sign} {}\n{lines}", crate::terminal::clean_line(row_id))
}
