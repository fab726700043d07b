//! The few requests that most tests make.

use super::{Answer, Door, DoorError};
use crate::wait::TimedOut;
use maestro_protocol::{Session, Status};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

impl Door {
    /// Creates a structured session of this agent in this directory; `more` holds further fields of the body.
    /// Panics with the whole answer unless it is `201`.
    pub async fn create_session(
        &self,
        agent: &str,
        cwd: &std::path::Path,
        more: Value,
    ) -> Result<Session, DoorError> {
        let mut body = json!({"view": "Structured", "agent": agent, "cwd": cwd.to_string_lossy()});
        if let (Value::Object(body), Value::Object(more)) = (&mut body, more) {
            body.extend(more);
        }
        Ok(self.post("/api/sessions", &body).await?.expect(201).read())
    }

    /// The session as it is now. Panics with the whole answer unless it is `200`.
    pub async fn session(&self, id: &str) -> Result<Session, DoorError> {
        Ok(self.get(&format!("/api/sessions/{id}")).await?.expect(200).read())
    }

    /// Waits until the session is as `condition` says. Panics with the session as it was last when the limit is over.
    pub async fn session_when(
        &self,
        id: &str,
        limit: Duration,
        what: &str,
        condition: impl Fn(&Session) -> bool,
    ) -> Result<Session, DoorError> {
        let end = Instant::now() + limit;
        loop {
            let session = self.session(id).await?;
            if condition(&session) {
                return Ok(session);
            }
            let timeout = TimedOut { what: what.into(), limit };
            assert!(Instant::now() < end, "{timeout}; the session is {session:#?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until the session runs. Panics when it is dead, or the limit is over.
    pub async fn running(&self, id: &str, limit: Duration) -> Result<Session, DoorError> {
        let settled = self
            .session_when(id, limit, "the session to start", |session| session.status != Status::Starting);
        let session = settled.await?;
        assert!(session.status == Status::Running, "the session is dead: {session:#?}");
        Ok(session)
    }

    /// Waits until the session is dead.
    pub async fn dead(&self, id: &str, limit: Duration) -> Result<Session, DoorError> {
        self.session_when(id, limit, "the session to die", |session| session.status == Status::Dead).await
    }

    /// Sends a prompt of text.
    pub async fn prompt(&self, id: &str, text: &str) -> Result<Answer, DoorError> {
        self.post(&format!("/api/sessions/{id}/structured/prompt"), &json!({"text": text})).await
    }

    /// Cancels the turn.
    pub async fn cancel(&self, id: &str) -> Result<Answer, DoorError> {
        self.post(&format!("/api/sessions/{id}/structured/cancel"), &json!({})).await
    }

    /// Answers an approval, with `"AllowOnce"` and the like, or `{"option": …}`.
    pub async fn decide(&self, id: &str, nonce: &str, decision: Value) -> Result<Answer, DoorError> {
        let mut body = json!({"decision": null});
        body["decision"] = decision;
        self.post(&format!("/api/sessions/{id}/structured/approvals/{nonce}"), &body).await
    }

    /// A page of the replay; `query` as `since=3&limit=10`, or nothing.
    pub async fn replay(&self, id: &str, query: &str) -> Result<Answer, DoorError> {
        self.get(&format!("/api/sessions/{id}/structured/replay?{query}")).await
    }
}
