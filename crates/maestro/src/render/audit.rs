use super::{lines_of, session::end_reason_words};
use crate::terminal::{Paint, clean_line};
use maestro_protocol::{AuditEntry, AuditEvent, Decision};

/// Entries of the audit log, one a line.
pub(crate) fn table(entries: &[AuditEntry], paint: Paint) -> String {
    let line = |entry: &AuditEntry| {
        let when = paint.dim(&format!("{:>6}  {:<24}", entry.number, entry.at.to_string()));
        format!("{when}  {}", clean_line(&words(&entry.event)))
    };
    lines_of(entries.iter().map(line))
}

fn words(event: &AuditEvent) -> String {
    match event {
        AuditEvent::DaemonStarted { version } => format!("the daemon started (maestro {version})"),
        AuditEvent::DaemonEnded => "the daemon shut down".into(),
        AuditEvent::SessionCreated { session, agent, cwd, client } => {
            format!("session {session} of {agent} was made in {cwd}, with {client}")
        }
        AuditEvent::AgentStarted { session, agent } => format!("{agent} runs in session {session}"),
        AuditEvent::SessionEnded { session, reason } => {
            format!("session {session} ended: {}", end_reason_words(*reason))
        }
        AuditEvent::Decided { session, row_id, decision, option_id, client } => {
            let decision = match decision {
                Decision::AllowOnce => "allowed once",
                Decision::AllowForSession => "allowed for the session",
                Decision::Deny => "denied",
                Decision::Option(_) => "answered",
            };
            let option =
                option_id.as_ref().map_or_else(String::new, |option| format!(" (option `{option}`)"));
            format!("{row_id} of session {session} was {decision}{option}, with {client}")
        }
        AuditEvent::Refused { method, path, session, .. } => {
            let who = session
                .map_or("somebody else".to_owned(), |session| format!("the agent of session {session}"));
            format!("refused to {who}: {method} {path}")
        }
        AuditEvent::LeftOut { count } => format!("{count} entries are missing here"),
    }
}

#[cfg(test)]
mod tests {
    use super::table;
    use crate::terminal::Paint;
    use maestro_protocol::{
        AuditEntry, AuditEvent, Decision, EndReason, ProblemCode, RowId, SessionId, Timestamp,
    };

    #[test]
    fn each_event_has_its_words() {
        let session: SessionId = "a0c95032-31d1-458a-ac18-90c012a0c7b9".parse().expect("an id");
        let row_id: RowId = serde_json::from_str(r#""approval:2""#).expect("an id");
        let agent = "demo".parse().expect("a key");
        let decided = |decision, option_id: Option<&str>| AuditEvent::Decided {
            session,
            row_id: row_id.clone(),
            decision,
            option_id: option_id.map(str::to_owned),
            client: "cli".into(),
        };
        let refused = |session| AuditEvent::Refused {
            code: ProblemCode::AgentPeer,
            method: "POST".into(),
            path: "/api/\u{1b}[31m".into(),
            session,
        };
        let events = [
            AuditEvent::DaemonStarted { version: "0.1.0".into() },
            AuditEvent::SessionCreated { session, agent, cwd: "/srv/api".into(), client: "cli".into() },
            decided(Decision::AllowOnce, Some("allow")),
            decided(Decision::Deny, None),
            refused(Some(session)),
            refused(None),
            AuditEvent::LeftOut { count: 3 },
            AuditEvent::SessionEnded { session, reason: EndReason::Killed },
            AuditEvent::DaemonEnded,
        ];
        let entry = |(number, event)| AuditEntry {
            number,
            at: Timestamp::from_millisecond(0),
            account: "owner@localhost".into(),
            event,
        };
        let entries: Vec<AuditEntry> = (1..).zip(events).map(entry).collect();
        insta::assert_snapshot!(table(&entries, Paint::Plain));
    }
}
