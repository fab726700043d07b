//! The audit log of a day: what was done, who decided, what was refused.

use crate::stage::{LIMIT, Outcome, Stage, opened};
use maestro_protocol::{AuditPage, EndReason};
use serde_json::{Value, json};
use std::{error::Error, fs};

impl Stage {
    async fn audit(&self) -> Result<AuditPage, Box<dyn Error>> {
        let page = self.door.get("/api/audit").await?.expect(200).json();
        Ok(serde_json::from_value(page)?)
    }
}

/// The names of the events, in order.
fn names(page: &AuditPage) -> Result<Vec<String>, Box<dyn Error>> {
    let name = |entry| Ok(serde_json::to_value(entry)?["event"].as_str().unwrap_or_default().to_owned());
    page.entries.iter().map(name).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_day_is_in_the_audit_log_and_a_change_of_it_is_found() -> Outcome {
    let script = opened().on_prompt(|turn| turn.permission(1, "t1", "ls").await_answer(1).end_turn());
    let mut stage = Stage::open(script).await?;
    stage.begin("the secret words of a prompt").await?;
    let nonce = stage.asked().await?;
    stage.decide(&nonce, json!("AllowOnce"), 204).await?;
    assert_eq!(stage.watch.turn_end(LIMIT).await?, "end_turn");
    stage.kill().await?;
    assert_eq!(stage.dead().await?.end_reason, Some(EndReason::Killed));
    stage.daemon.stop()?;
    let path = stage.daemon.data().join("audit.jsonl");
    let text = fs::read_to_string(&path)?;
    assert!(!text.contains("secret") && !text.contains(&nonce), "{text}");
    stage.daemon.start()?;

    let page = stage.audit().await?;
    let day =
        ["daemon_started", "session_created", "agent_started", "decided", "session_ended", "daemon_ended"];
    assert_eq!(names(&page)?[..6], day);
    assert_eq!((names(&page)?[6..].join(" "), page.broken_line), ("daemon_started".into(), None));
    let decided = serde_json::to_value(&page.entries[3])?;
    assert_eq!((&decided["decision"], &decided["session"]), (&json!("AllowOnce"), &json!(stage.id)));

    stage.daemon.stop()?;
    let forged = text.replace("AllowOnce", "Deny");
    assert_ne!(forged, text);
    fs::write(&path, forged)?;
    stage.daemon.start()?;
    let page = stage.audit().await?;
    assert_eq!(page.broken_line, Some(5), "the line behind the one that was changed");
    let last: Value = serde_json::to_value(page.entries.last())?;
    assert_eq!(last["event"], "daemon_started", "it goes on");
    Ok(())
}
