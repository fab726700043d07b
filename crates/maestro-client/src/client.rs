use crate::{
    ClientError, StructuredStream, TranscriptModel, UnreadableAnswer,
    transport::{Answer, Door},
};
use bytes::Bytes;
use http::{HeaderValue, Method};
use maestro_protocol::{
    AgentList, ApprovalAnswer, AuditPage, AuditQuery, CreateSession, Decision, Deltas, EditQueueItem, Health,
    Nonce, PromptBody, Queue, QueueItem, QueueItemId, RenameSession, ReplayPage, ReplayQuery, RowHunks,
    RowId, Session, SessionId, SessionList, SetConfig, SetMode, SetModel, WatchQuery,
};
use serde::{Serialize, de::DeserializeOwned};
use std::{path::Path, time::Duration};
use uuid::Uuid;

/// A client of one daemon. Cheap to clone; every request has a connection of its own.
#[derive(Debug, Clone)]
pub struct Client {
    pub(crate) door: Door,
}

impl Client {
    /// Makes a client of the daemon that listens at `socket`, once it is seen to answer and to be this user's own.
    /// `user_agent` is what the daemon writes down as the client of a decision, such as `maestro-cli/0.1.0`.
    ///
    /// # Errors
    /// [`ClientError::Unreachable`] and [`ClientError::ForeignSocket`].
    ///
    /// # Panics
    /// If `user_agent` holds anything but visible ASCII.
    pub async fn connect(socket: &Path, user_agent: &str) -> Result<Self, ClientError> {
        let user_agent = HeaderValue::from_str(user_agent).expect("a user agent is visible ASCII");
        let door = Door { socket: socket.into(), user_agent };
        drop(door.dial().await?);
        Ok(Self { door })
    }

    /// The socket that this client speaks to.
    pub fn socket(&self) -> &Path {
        &self.door.socket
    }

    /// `POST /api/sessions`: the new session, which is `Starting`, or already `Dead` with the reason. A connection that
    /// breaks is tried again, and still one session is created.
    pub async fn create_session(&self, wish: &CreateSession) -> Result<Session, ClientError> {
        self.start("/api/sessions", Some(wish)).await.and_then(|answer| read(&answer))
    }

    /// `GET /api/sessions`: the caller's sessions, newest first.
    pub async fn sessions(&self) -> Result<SessionList, ClientError> {
        self.get("/api/sessions").await
    }

    /// `GET /api/sessions/{id}`.
    pub async fn session(&self, id: SessionId) -> Result<Session, ClientError> {
        self.get(&format!("/api/sessions/{id}")).await
    }

    /// `PATCH /api/sessions/{id}`: renames; an empty title removes the rename.
    pub async fn rename(&self, id: SessionId, title: &str) -> Result<Session, ClientError> {
        let body = RenameSession { title: title.into() };
        self.send(Method::PATCH, &format!("/api/sessions/{id}"), Some(&body))
            .await
            .and_then(|answer| read(&answer))
    }

    /// `DELETE /api/sessions/{id}`: ends the agent and returns once the session is dead. Harmless if it was.
    pub async fn kill(&self, id: SessionId) -> Result<(), ClientError> {
        self.act(Method::DELETE, &format!("/api/sessions/{id}"), NO_BODY).await
    }

    /// `POST /api/sessions/{id}/restart`: the session, which is `Starting` again. Tried again as
    /// [`Client::create_session`] is.
    pub async fn restart(&self, id: SessionId) -> Result<Session, ClientError> {
        let path = format!("/api/sessions/{id}/restart");
        self.start(&path, NO_BODY).await.and_then(|answer| read(&answer))
    }

    /// `GET /api/sessions/{id}/queue`: the messages that wait.
    pub async fn queue(&self, id: SessionId) -> Result<Queue, ClientError> {
        self.get(&format!("/api/sessions/{id}/queue")).await
    }

    /// `POST /api/sessions/{id}/queue`: adds a message behind those that wait. A connection that breaks is tried again,
    /// and still one message is added.
    pub async fn queue_message(&self, id: SessionId, message: &PromptBody) -> Result<QueueItem, ClientError> {
        let path = format!("/api/sessions/{id}/queue");
        self.start(&path, Some(message)).await.and_then(|answer| read(&answer))
    }

    /// `PATCH /api/sessions/{id}/queue/{item}`: changes a message that waits.
    pub async fn edit_queued(
        &self,
        id: SessionId,
        item: QueueItemId,
        edit: &EditQueueItem,
    ) -> Result<QueueItem, ClientError> {
        let path = format!("/api/sessions/{id}/queue/{item}");
        self.send(Method::PATCH, &path, Some(edit)).await.and_then(|answer| read(&answer))
    }

    /// `DELETE /api/sessions/{id}/queue/{item}`: takes a message out.
    pub async fn remove_queued(&self, id: SessionId, item: QueueItemId) -> Result<(), ClientError> {
        self.act(Method::DELETE, &format!("/api/sessions/{id}/queue/{item}"), NO_BODY).await
    }

    /// `POST /api/sessions/{id}/queue/resume`: goes on with messages that are held.
    pub async fn resume_queue(&self, id: SessionId) -> Result<(), ClientError> {
        self.act(Method::POST, &format!("/api/sessions/{id}/queue/resume"), NO_BODY).await
    }

    /// `POST …/structured/prompt`: returns once the prompt is on disk and on its way to the agent. A connection that
    /// breaks is tried again, and still one prompt is sent.
    pub async fn prompt(&self, id: SessionId, prompt: &PromptBody) -> Result<(), ClientError> {
        let path = format!("/api/sessions/{id}/structured/prompt");
        self.start(&path, Some(prompt)).await.map(|_answer_without_content| ())
    }

    /// `POST …/structured/cancel`: cancels the active turn; nothing happens without one.
    pub async fn cancel(&self, id: SessionId) -> Result<(), ClientError> {
        self.act(Method::POST, &format!("/api/sessions/{id}/structured/cancel"), NO_BODY).await
    }

    /// `POST …/structured/mode`: returns once the agent accepted it.
    pub async fn set_mode(&self, id: SessionId, mode: &SetMode) -> Result<(), ClientError> {
        self.act(Method::POST, &format!("/api/sessions/{id}/structured/mode"), Some(mode)).await
    }

    /// `POST …/structured/model`: returns once the agent accepted it.
    pub async fn set_model(&self, id: SessionId, model: &SetModel) -> Result<(), ClientError> {
        self.act(Method::POST, &format!("/api/sessions/{id}/structured/model"), Some(model)).await
    }

    /// `POST …/structured/config`: returns once the agent accepted it.
    pub async fn set_config(&self, id: SessionId, config: &SetConfig) -> Result<(), ClientError> {
        self.act(Method::POST, &format!("/api/sessions/{id}/structured/config"), Some(config)).await
    }

    /// `POST …/structured/approvals/{nonce}`: answers an approval. Succeeds too where the nonce is no longer live
    /// (CONTRACT §7.3), so success does not tell whose answer counted.
    pub async fn answer(&self, id: SessionId, nonce: Nonce, decision: Decision) -> Result<(), ClientError> {
        let path = format!("/api/sessions/{id}/structured/approvals/{nonce}");
        self.act(Method::POST, &path, Some(&ApprovalAnswer { decision })).await
    }

    /// `GET …/structured/replay`: one page of the session's log as it changed the projections.
    pub async fn replay(&self, id: SessionId, query: ReplayQuery) -> Result<ReplayPage, ClientError> {
        self.get(&format!("/api/sessions/{id}/structured/replay{}", replay_query(query))).await
    }

    /// `GET …/structured/rows/{row}/hunks`: what a row with a diff changes.
    pub async fn hunks(&self, id: SessionId, row: &RowId) -> Result<RowHunks, ClientError> {
        let row = path_piece(row.as_str());
        self.get(&format!("/api/sessions/{id}/structured/rows/{row}/hunks")).await
    }

    /// `GET /api/agents`.
    pub async fn agents(&self) -> Result<AgentList, ClientError> {
        self.get("/api/agents").await
    }

    /// `GET /api/health`: how the daemon is, and what is wrong.
    pub async fn health(&self) -> Result<Health, ClientError> {
        self.get("/api/health").await
    }

    /// `GET /api/audit`: what was done for the caller's account.
    pub async fn audit(&self, query: AuditQuery) -> Result<AuditPage, ClientError> {
        let pairs = [("before", query.before), ("limit", query.limit)];
        let pairs = pairs.iter().filter_map(|(key, value)| Some(format!("{key}={}", (*value)?)));
        self.get(&format!("/api/audit?{}", pairs.collect::<Vec<_>>().join("&"))).await
    }

    /// `WS /api/structured/{id}`: the live frames of a session in the form that `query` names, over reconnects.
    pub async fn structured(
        &self,
        id: SessionId,
        query: WatchQuery,
    ) -> Result<StructuredStream, ClientError> {
        StructuredStream::open(self.clone(), id, query).await
    }

    /// The transcript and the state as they stand: the first two frames of the socket.
    pub async fn snapshot(&self, id: SessionId) -> Result<TranscriptModel, ClientError> {
        StructuredStream::open(self.clone(), id, WatchQuery::default()).await?.snapshot().await
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.send(Method::GET, path, NO_BODY).await.and_then(|answer| read(&answer))
    }

    async fn act(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<(), ClientError> {
        self.send(method, path, body).await.map(|_answer_without_content| ())
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<Answer, ClientError> {
        self.door.exchange(method, path, body.map(as_json), None).await
    }

    /// Sends a POST that starts something, again where it is unknown whether it arrived. All tries have one
    /// `Idempotency-Key`, so that whatever arrived counts once (CONTRACT §11.5).
    async fn start(&self, path: &str, body: Option<&impl Serialize>) -> Result<Answer, ClientError> {
        let body = body.map(as_json);
        let key = HeaderValue::from_str(&Uuid::new_v4().to_string()).expect("a UUID is visible ASCII");
        let mut lost = None;
        for pause in TRY_AGAIN_AFTER {
            match self.door.exchange(Method::POST, path, body.clone(), Some(&key)).await {
                Err(error @ ClientError::BrokenOff { .. }) => lost = Some(error),
                // Only behind a try that broke off: then the daemon is about to come back.
                Err(ClientError::Unreachable { .. }) if lost.is_some() => {}
                answered => return answered,
            }
            tokio::time::sleep(pause).await;
        }
        self.door.exchange(Method::POST, path, body, Some(&key)).await
    }
}

/// The pauses between the tries of a request whose connection broke. A daemon is back after a restart within them.
const TRY_AGAIN_AFTER: [Duration; 3] =
    [Duration::from_millis(100), Duration::from_millis(500), Duration::from_secs(2)];

fn as_json(body: &impl Serialize) -> Bytes {
    serde_json::to_vec(body).expect("request bodies are plain JSON").into()
}

const NO_BODY: Option<&()> = None;

fn read<T: DeserializeOwned>(answer: &Answer) -> Result<T, ClientError> {
    maestro_protocol::json::from_slice(&answer.body).map_err(|source| ClientError::Unreadable {
        route: answer.route.clone(),
        source: UnreadableAnswer::Json(source),
    })
}

fn replay_query(query: ReplayQuery) -> String {
    let named = [("since", query.since), ("before", query.before), ("limit", query.limit)];
    let given = named.into_iter().filter_map(|(name, value)| value.map(|value| format!("{name}={value}")));
    let deltas = query.deltas.map(|deltas| match deltas {
        Deltas::Plain => "deltas=plain".into(),
        Deltas::Text => "deltas=text".into(),
    });
    let joined = given.chain(deltas).collect::<Vec<_>>().join("&");
    if joined.is_empty() { joined } else { format!("?{joined}") }
}

/// Text as one piece of a path: every byte but letters, digits and `-._~` is percent-encoded.
fn path_piece(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let encode = |byte: u8| if is_plain(byte) { char::from(byte).into() } else { format!("%{byte:02X}") };
    text.bytes().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replay_query_names_only_what_is_given() {
        let check = |since, before, limit, expect: &str| {
            assert_eq!(replay_query(ReplayQuery { since, before, limit, deltas: None }), expect);
        };
        check(None, None, None, "");
        check(Some(0), None, None, "?since=0");
        check(None, Some(7), Some(50), "?before=7&limit=50");
        check(Some(3), None, Some(1), "?since=3&limit=1");
        let text = ReplayQuery { since: Some(3), deltas: Some(Deltas::Text), ..ReplayQuery::default() };
        assert_eq!(replay_query(text), "?since=3&deltas=text");
    }

    #[test]
    fn any_text_is_one_piece_of_a_path() {
        let check = |text: &str, expect: &str| assert_eq!(path_piece(text), expect);
        check("tool:call_1.a-b~", "tool%3Acall_1.a-b~");
        check("../a?b#c%", "..%2Fa%3Fb%23c%25");
        check("\u{e9} \0", "%C3%A9%20%00");
    }
}
