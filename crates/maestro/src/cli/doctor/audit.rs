use super::Finding;
use maestro_client::Client;
use maestro_protocol::{AuditPage, AuditQuery};

const SUBJECT: &str = "audit log";

/// Whether the audit log is as the daemon wrote it.
pub(super) async fn look(client: &Client) -> Finding {
    match client.audit(AuditQuery { before: None, limit: Some(1) }).await {
        Ok(page) => finding(&page),
        Err(error) => {
            Finding::wrong(SUBJECT, error.to_string()).mend("look at the daemon's log, run/daemon.log")
        }
    }
}

fn finding(page: &AuditPage) -> Finding {
    let Some(line) = page.broken_line else {
        return Finding::ok(SUBJECT, "every line follows from the one before it");
    };
    let found = format!("line {line} of audit.jsonl was changed or cut short, or follows from another line");
    Finding::wrong(SUBJECT, found).mend(
        "find out who did: `maestro audit` shows it; once you know, move audit.jsonl away and restart the daemon to begin a new one",
    )
}
