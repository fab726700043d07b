use super::Finding;
use maestro_client::Client;
use maestro_protocol::{Health, HealthStatus, Trouble};

const SUBJECT: &str = "logs";

/// What the daemon says about its sessions' logs and its disk (CONTRACT §5.4).
pub(super) async fn look(client: &Client) -> Vec<Finding> {
    match client.health().await {
        Ok(health) => findings(&health),
        Err(error) => vec![Finding::wrong(SUBJECT, format!("the daemon does not tell: {error}"))],
    }
}

fn findings(health: &Health) -> Vec<Finding> {
    let mut findings: Vec<Finding> = health.troubles.iter().map(finding).collect();
    if health.status == HealthStatus::Ok {
        let counts = health.sessions;
        let sessions =
            format!("{} running, {} starting, {} dead", counts.running, counts.starting, counts.dead);
        findings.insert(0, Finding::ok(SUBJECT, format!("all well; sessions: {sessions}")));
    }
    findings
}

/// The daemon's words say what to do, too.
fn finding(trouble: &Trouble) -> Finding {
    let session = trouble.session.map(|id| format!("session {id}: ")).unwrap_or_default();
    let found = format!("{session}{}", trouble.detail);
    if trouble.kind.degrades() { Finding::wrong(SUBJECT, found) } else { Finding::note(SUBJECT, found) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::Level;
    use serde_json::json;

    #[test]
    fn what_degrades_the_daemon_is_wrong() {
        let check = |status: &str, kind: &str, expect: &[(Level, &str)]| {
            let health: Health = serde_json::from_value(json!({
                "status": status, "version": "1.0.0", "started_at": "2030-01-01T00:00:00Z", "disk": null,
                "sessions": {"starting": 0, "running": 2, "dead": 1},
                "troubles": [{"kind": kind, "session": null, "detail": "this and that"}],
            }))
            .expect("a health");
            let found = findings(&health);
            let found: Vec<_> = found.iter().map(|finding| (finding.level, finding.found.as_str())).collect();
            assert_eq!(found, expect);
        };
        check("degraded", "disk_low", &[(Level::Wrong, "this and that")]);
        let all_well = (Level::Ok, "all well; sessions: 2 running, 0 starting, 1 dead");
        check("ok", "malformed_lines", &[all_well, (Level::Note, "this and that")]);
    }
}
