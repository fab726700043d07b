use super::{cut, lines_of};
use crate::terminal::{Paint, clean_line};
use maestro_protocol::{Activity, AgentInfo, EndReason, Session, Status, Timestamp};
use unicode_width::UnicodeWidthStr as _;

/// How many characters of an id are shown in a list, unless more are needed to tell ids apart.
const SHORT_ID_CHARS: usize = 8;
const TITLE_CHARS_MAX: usize = 50;

/// Where a session stands, in words.
pub(crate) fn status_words(session: &Session) -> String {
    match (session.status, session.activity, session.end_reason) {
        (Status::Starting, _, _) => "starting".into(),
        (Status::Running, Some(Activity::Working), _) => "working".into(),
        (Status::Running, Some(Activity::Waiting), _) => "waits for you".into(),
        (Status::Running, Some(Activity::Active) | None, _) => "ready".into(),
        (Status::Dead, _, reason) => format!("dead ({})", reason.map_or("unknown", end_reason_words)),
    }
}

pub(super) fn end_reason_words(reason: EndReason) -> &'static str {
    match reason {
        EndReason::Exited => "agent exited",
        EndReason::Killed => "killed",
        EndReason::CancelUnsettled => "cancel not settled",
        EndReason::LogFailed => "log failed",
        EndReason::HandshakeFailed => "handshake failed",
        EndReason::AdapterMissing => "agent not installed",
        EndReason::DaemonShutdown => "daemon shut down",
        EndReason::DaemonCrash => "daemon crashed",
    }
}

/// How many of an agent's last lines are shown.
const LAST_LINES_MAX: usize = 15;

/// The detail of a session: its first line, then the last of what follows, which is what the agent wrote to stderr.
pub(crate) fn detail(detail: &str) -> String {
    let mut lines = detail.lines();
    let reason = clean_line(lines.next().unwrap_or_default());
    let rest: Vec<&str> = lines.collect();
    let last = &rest[rest.len().saturating_sub(LAST_LINES_MAX)..];
    last.iter().fold(reason, |text, line| text + "\n  │ " + &clean_line(line))
}

/// What there is to know about a session besides its transcript.
pub(crate) fn facts(session: &Session, now: Timestamp, paint: Paint) -> String {
    let detail = session.activity_detail.as_deref().map(self::detail);
    let facts = [
        ("session", Some(session.id.to_string())),
        ("title", Some(clean_line(&session.title)).filter(|title| !title.is_empty())),
        ("agent", Some(session.agent.to_string())),
        ("directory", Some(clean_line(&session.cwd))),
        ("status", Some(status_words(session))),
        ("detail", detail),
        ("created", Some(format!("{} ({} ago)", session.created_at, age(session.created_at, now)))),
        ("updated", Some(format!("{} ({} ago)", session.updated_at, age(session.updated_at, now)))),
    ];
    let known = facts.into_iter().filter_map(|(name, value)| value.map(|value| (name, value)));
    lines_of(known.map(|(name, value)| format!("{} {value}", paint.dim(&format!("{name:<10}")))))
}

/// Sessions as a table.
pub(crate) fn table(sessions: &[Session], now: Timestamp, paint: Paint) -> String {
    let id_chars = distinct_chars(sessions);
    let rows = sessions.iter().map(|session| {
        vec![
            session.id.to_string().chars().take(id_chars).collect(),
            status_words(session),
            session.agent.to_string(),
            age(session.updated_at, now),
            cut(&clean_line(&session.title), TITLE_CHARS_MAX),
            clean_line(&session.cwd),
        ]
    });
    columns(&["ID", "STATUS", "AGENT", "UPDATED", "TITLE", "DIRECTORY"], &rows.collect::<Vec<_>>(), paint)
}

/// Agents as a table, with what mends a missing one.
pub(crate) fn agents(agents: &[AgentInfo], paint: Paint) -> String {
    let rows = agents.iter().map(|agent| {
        vec![
            format!("{}{}", agent.key, if agent.default { " (default)" } else { "" }),
            clean_line(&agent.name),
            agent.version.as_deref().map_or_else(|| "-".to_owned(), clean_line),
            match (&agent.program, &agent.install, &agent.missing) {
                (Some(program), _, _) => clean_line(program),
                (None, Some(_), _) => {
                    format!("missing; install it with: maestro agent install {}", agent.key)
                }
                (None, None, Some(missing)) => format!("missing: {}", clean_line(missing)),
                (None, None, None) => "missing".into(),
            },
        ]
    });
    columns(&["AGENT", "NAME", "VERSION", "PROGRAM"], &rows.collect::<Vec<_>>(), paint)
}

/// How many characters tell all ids apart, at least [`SHORT_ID_CHARS`].
fn distinct_chars(sessions: &[Session]) -> usize {
    let mut ids: Vec<String> = sessions.iter().map(|session| session.id.to_string()).collect();
    ids.sort_unstable();
    let shared = |pair: &[String]| pair[0].bytes().zip(pair[1].bytes()).take_while(|(a, b)| a == b).count();
    ids.windows(2).map(|pair| shared(pair) + 1).fold(SHORT_ID_CHARS, usize::max)
}

fn columns(names: &[&str], rows: &[Vec<String>], paint: Paint) -> String {
    let wide = |place: usize| {
        let cells = rows.iter().filter_map(|row| row.get(place)).map(|cell| cell.width());
        cells.chain(names.get(place).map(|name| name.len())).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..names.len()).map(wide).collect();
    let line = |cells: &[&str]| {
        let padded = cells.iter().zip(&widths);
        let padded =
            padded.map(|(cell, wide)| (*cell).to_owned() + &" ".repeat(wide.saturating_sub(cell.width())));
        let joined = padded.collect::<Vec<_>>().join("  ");
        joined.trim_end().to_owned()
    };
    let mut out = paint.dim(&line(names)) + "\n";
    for row in rows {
        out += &line(&row.iter().map(String::as_str).collect::<Vec<_>>());
        out.push('\n');
    }
    out
}

/// How long ago, in its largest unit.
fn age(then: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_millisecond().saturating_sub(then.as_millisecond()).max(0) / 1000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86400),
    }
}

#[cfg(test)]
mod tests {
    use super::{LAST_LINES_MAX, detail};

    #[test]
    fn a_detail_is_its_reason_and_the_last_lines() {
        let check = |text: &str, expect: &str| assert_eq!(detail(text), expect);
        check("", "");
        check("signal 9 ended the agent", "signal 9 ended the agent");
        check("it ended\nIts last words:\nbad\u{1b}[2J key", "it ended\n  │ Its last words:\n  │ bad key");
        let long = (0..100).map(|number| format!("line {number}")).collect::<Vec<_>>().join("\n");
        let shown = detail(&format!("it ended\n{long}"));
        assert_eq!(shown.lines().count(), 1 + LAST_LINES_MAX);
        assert!(shown.ends_with("│ line 99"));
    }
}
