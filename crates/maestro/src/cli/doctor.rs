//! Looking for what is wrong, and what mends it. Nothing is changed and no daemon is started.

mod agents;
mod audit;
mod daemon;
mod directory;
mod health;
mod leftovers;

use super::{CommandResult, Context, connect, error, print, print_json};
use crate::{
    render::lines_of,
    terminal::{Paint, clean_line},
};
use maestro_client::Client;
use serde::Serialize;
use std::process::ExitCode;

/// Look for what is wrong with this installation, and say what mends it
///
/// Looks at the daemon, its data directory, the agents and the programs that they need. Changes nothing, and starts no
/// daemon. The exit code is 0 if nothing is wrong, else 1; what is only worth knowing is a note.
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Level {
    Ok,
    Note,
    Wrong,
}

/// One thing that was looked at.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Finding {
    subject: String,
    level: Level,
    found: String,
    /// What to do, where there is something to do.
    mend: Option<String>,
}

impl Finding {
    fn ok(subject: &str, found: impl Into<String>) -> Self {
        Self { subject: subject.into(), level: Level::Ok, found: found.into(), mend: None }
    }

    fn note(subject: &str, found: impl Into<String>) -> Self {
        Self { level: Level::Note, ..Self::ok(subject, found) }
    }

    fn wrong(subject: &str, found: impl Into<String>) -> Self {
        Self { level: Level::Wrong, ..Self::ok(subject, found) }
    }

    fn mend(mut self, mend: impl Into<String>) -> Self {
        self.mend = Some(mend.into());
        self
    }
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    findings: &'a [Finding],
    /// How many things are wrong.
    wrong: usize,
}

pub(super) async fn cmd_doctor(context: &Context, _args: &Args) -> CommandResult {
    let findings = findings(context).await;
    let wrong = findings.iter().filter(|finding| finding.level == Level::Wrong).count();
    if context.json {
        print_json(&Report { findings: &findings, wrong })?;
    } else {
        print(&text(&findings, wrong, context.paint()))?;
    }
    Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::from(error::USER) })
}

async fn findings(context: &Context) -> Vec<Finding> {
    let settings = &context.settings;
    let mut findings = directory::look(settings);
    let connected = connect::connect(settings).await;
    let announced = daemon::announced(settings);
    findings.push(daemon::look(&connected, announced.as_ref()));
    let client: Option<&Client> = connected.as_ref().ok();
    let daemons_path =
        announced.filter(|_| client.is_some()).and_then(|announced| daemon::path_of(announced.pid));
    findings.extend(daemons_path.and_then(|path| daemon::compare_paths(&path)));
    if let Some(client) = client {
        findings.extend(health::look(client).await);
        findings.push(audit::look(client).await);
    }
    findings.extend(agents::look(context, client).await);
    findings.push(leftovers::look(settings));
    findings
}

fn text(findings: &[Finding], wrong: usize, paint: Paint) -> String {
    let width = findings.iter().map(|finding| finding.subject.len()).max().unwrap_or_default();
    let mut lines = Vec::new();
    for finding in findings {
        let level = match finding.level {
            Level::Ok => paint.dim("ok   "),
            Level::Note => paint.yellow("note "),
            Level::Wrong => paint.red("WRONG"),
        };
        lines.push(format!("{level}  {:<width$}  {}", finding.subject, clean_line(&finding.found)));
        lines
            .extend(finding.mend.iter().map(|mend| format!("       {:<width$}  → {}", "", clean_line(mend))));
    }
    lines.push(match wrong {
        0 => "nothing is wrong".to_owned(),
        1 => "1 thing is wrong".to_owned(),
        _ => format!("{wrong} things are wrong"),
    });
    lines_of(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_from_top_to_bottom() {
        let findings = [
            Finding::ok("git", "/usr/bin/git"),
            Finding::note("codex-acp", "not installed").mend("maestro agent install codex-acp"),
            Finding::wrong("daemon", "it is\u{1b}[2J of version 0.0.1").mend("restart it"),
        ];
        let expect = "\
ok     git        /usr/bin/git
note   codex-acp  not installed
                  → maestro agent install codex-acp
WRONG  daemon     it is of version 0.0.1
                  → restart it
1 thing is wrong
";
        assert_eq!(text(&findings, 1, Paint::Plain), expect);
        assert_eq!(text(&findings[..1], 0, Paint::Plain), "ok     git  /usr/bin/git\nnothing is wrong\n");
    }
}
