use crate::{
    door::{Answer, Door, DoorError, Incoming, WebSocket},
    wait::TimedOut,
};
use maestro_protocol::{
    Cursor, Deltas, Frame, ReducedState, RowId, TextFrame, Times, TranscriptDelta, TranscriptRow, WatchQuery,
};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};
use thiserror::Error;

/// Why a watch ended.
#[derive(Debug, Error)]
pub enum WatchError {
    /// The socket broke or was refused.
    #[error(transparent)]
    Door(#[from] DoorError),
    /// The daemon closed the socket.
    #[error("the daemon closed the socket with code {0:?}")]
    Closed(Option<u16>),
    /// A frame is not as the protocol says.
    #[error("{reason} in the frame {frame}")]
    Frame {
        /// What is wrong.
        reason: String,
        /// The frame.
        frame: String,
    },
    /// The condition did not come true; the message shows the last state and rows.
    #[error("{timeout}; seen last: {seen}")]
    TimedOut {
        /// The wait.
        timeout: TimedOut,
        /// State and rows.
        seen: String,
    },
}

/// A session as its socket shows it: rows and state, folded from frames in either form.
#[derive(Debug)]
pub struct Watch {
    socket: WebSocket,
    query: WatchQuery,
    /// The lengths of texts that were lengthened, in UTF-16 units.
    units: BTreeMap<RowId, u64>,
    /// The last line covered.
    pub cursor: Cursor,
    /// The rows in their order.
    pub rows: Vec<TranscriptRow>,
    /// The state at `cursor`.
    pub state: ReducedState,
    /// Row times.
    pub times: Times,
    /// Whether there are rows before the first of these.
    pub older: bool,
    /// How many frames came.
    pub frames: u64,
    /// How many bytes these were.
    pub bytes: u64,
}

impl Watch {
    /// Opens the socket of a session and takes in the first two frames.
    pub async fn open(door: &Door, session: &str) -> Result<Self, WatchError> {
        Self::open_as(door, session, WatchQuery::default()).await
    }

    /// As [`Watch::open`], in this form and with this tail.
    pub async fn open_as(door: &Door, session: &str, query: WatchQuery) -> Result<Self, WatchError> {
        let deltas = if query.deltas == Some(Deltas::Text) { "text" } else { "plain" };
        let tail = query.tail.map(|n| format!("&tail={n}")).unwrap_or_default();
        let socket = door.socket(&format!("/api/structured/{session}?deltas={deltas}{tail}")).await?;
        let mut watch = Self {
            socket,
            query,
            units: BTreeMap::new(),
            cursor: 0,
            rows: Vec::new(),
            state: ReducedState::default(),
            times: Times::new(),
            older: false,
            frames: 0,
            bytes: 0,
        };
        let limit = Duration::from_secs(30);
        watch.take_in(limit).await?;
        watch.take_in(limit).await?;
        Ok(watch)
    }

    /// Takes in frames until `condition` holds of the watch.
    pub async fn until(
        &mut self,
        limit: Duration,
        what: &str,
        condition: impl Fn(&Self) -> bool,
    ) -> Result<(), WatchError> {
        let end = Instant::now() + limit;
        while !condition(self) {
            match self.take_in(end.saturating_duration_since(Instant::now())).await {
                Err(WatchError::Door(DoorError::TimedOut)) => {
                    let timeout = TimedOut { what: what.into(), limit };
                    return Err(WatchError::TimedOut { timeout, seen: self.describe() });
                }
                other => other?,
            }
        }
        Ok(())
    }

    /// Takes in frames until the turn that is open, or the next one, has ended; returns the reason.
    pub async fn turn_end(&mut self, limit: Duration) -> Result<String, WatchError> {
        let before = self.state.turn.last_end.clone();
        self.until(limit, "the end of a turn", |watch| {
            !watch.state.turn.active && watch.state.turn.last_end != before
        })
        .await?;
        Ok(self.state.turn.last_end.as_ref().map(|end| end.reason.clone()).unwrap_or_default())
    }

    /// Takes in frames until the daemon closes the socket; returns the close code.
    pub async fn closed(&mut self, limit: Duration) -> Result<Option<u16>, WatchError> {
        let end = Instant::now() + limit;
        loop {
            match self.take_in(end.saturating_duration_since(Instant::now())).await {
                Err(WatchError::Closed(code)) => return Ok(code),
                other => other?,
            }
        }
    }

    /// The row with this id.
    pub fn row(&self, id: &str) -> Option<&TranscriptRow> {
        self.rows.iter().find(|row| row.id.as_str() == id)
    }

    /// The texts of all rows whose id begins with `prefix` and a colon, one after the other.
    pub fn text(&self, prefix: &str) -> String {
        let rows = self.rows.iter().filter(|row| row.id.as_str().split(':').next() == Some(prefix));
        rows.filter_map(|row| row.data["content"]["text"].as_str()).collect()
    }

    /// The nonce of the live approval.
    pub fn nonce(&self) -> Option<String> {
        self.state.pending_approval.as_ref()?.nonce.map(|nonce| nonce.to_string())
    }

    fn describe(&self) -> String {
        format!("cursor {}, {:?}, rows {:#?}", self.cursor, self.state, self.rows)
    }

    async fn take_in(&mut self, limit: Duration) -> Result<(), WatchError> {
        let data = match self.socket.next(limit).await? {
            Incoming::Data(data) => data,
            Incoming::Closed(code) => return Err(WatchError::Closed(code)),
        };
        let broken =
            |reason: String| WatchError::Frame { reason, frame: String::from_utf8_lossy(&data).into_owned() };
        self.frames += 1;
        self.bytes += data.len() as u64;
        let unreadable = |error: serde_json::Error| error.to_string();
        let applied = if self.query.deltas == Some(Deltas::Text) {
            let frame = maestro_protocol::json::from_slice(&data).map_err(unreadable);
            frame.and_then(|frame| self.apply_text(frame))
        } else {
            let frame = maestro_protocol::json::from_slice(&data).map_err(unreadable);
            frame.and_then(|frame| self.apply(frame))
        };
        applied.map_err(broken)
    }

    fn apply(&mut self, frame: Frame) -> Result<(), String> {
        match frame {
            Frame::TranscriptSnapshot { cursor, rows, times, older } => {
                (self.cursor, self.rows, self.times, self.older) = (cursor, rows, times, older);
            }
            Frame::ReducedState { state } => self.state = state,
            Frame::ProjectionUpdate { cursor, transcript, state, times } => {
                self.update(cursor, transcript, times)?;
                self.state = state;
            }
        }
        Ok(())
    }

    fn apply_text(&mut self, frame: TextFrame) -> Result<(), String> {
        match frame {
            TextFrame::TranscriptSnapshot { cursor, rows, times, older } => {
                self.apply(Frame::TranscriptSnapshot { cursor, rows, times, older })
            }
            TextFrame::ReducedState { state } => self.apply(Frame::ReducedState { state }),
            TextFrame::ProjectionUpdate { cursor, transcript, state, times } => {
                state.apply(&mut self.state);
                self.update(cursor, transcript, times)
            }
        }
    }

    fn update(
        &mut self,
        cursor: Cursor,
        transcript: Vec<TranscriptDelta>,
        times: Times,
    ) -> Result<(), String> {
        if cursor < self.cursor {
            return Err(format!("the cursor went back from {}", self.cursor));
        }
        transcript.into_iter().try_for_each(|delta| self.apply_delta(delta))?;
        self.cursor = cursor;
        self.times.extend(times.into_iter().filter(|(id, _)| self.rows.iter().any(|row| row.id == *id)));
        Ok(())
    }

    fn apply_delta(&mut self, delta: TranscriptDelta) -> Result<(), String> {
        match delta {
            TranscriptDelta::Append { row } => match self.position(&row.id) {
                Some(_) => return Err(format!("{} is appended twice", row.id)),
                None => self.rows.push(row),
            },
            TranscriptDelta::Patch { row } => match self.position(&row.id) {
                Some(at) => {
                    self.units.remove(&row.id);
                    self.rows[at] = row;
                }
                None => self.unless_older(&format!("{} is patched but unknown", row.id))?,
            },
            TranscriptDelta::Remove { id } => self.rows.retain(|row| row.id != id),
            TranscriptDelta::AppendText { id, .. } if self.query.deltas != Some(Deltas::Text) => {
                return Err(format!("{id} is lengthened, which the plain form never does"));
            }
            TranscriptDelta::AppendText { id, offset, text } => match self.position(&id) {
                Some(at) => {
                    let units = lengthen(&mut self.rows[at], self.units.get(&id).copied(), offset, &text)?;
                    self.units.insert(id, units);
                }
                None => self.unless_older(&format!("{id} is lengthened but unknown"))?,
            },
        }
        Ok(())
    }

    /// What would be wrong of a row that is not older than the tail.
    fn unless_older(&self, wrong: &str) -> Result<(), String> {
        if self.older { Ok(()) } else { Err(wrong.to_owned()) }
    }

    fn position(&self, id: &RowId) -> Option<usize> {
        self.rows.iter().position(|row| row.id == *id)
    }
}

/// Adds to a row's text, which is `units` long, if that was counted; gives its new length.
fn lengthen(row: &mut TranscriptRow, units: Option<u64>, offset: u64, more: &str) -> Result<u64, String> {
    let Some(serde_json::Value::String(text)) = row.data.pointer_mut("/content/text") else {
        return Err(format!("{} is lengthened but has no text", row.id));
    };
    let count = |text: &str| text.encode_utf16().count() as u64;
    let units = units.unwrap_or_else(|| count(text));
    if units != offset {
        return Err(format!("{} is lengthened at {offset} but is {units} long", row.id));
    }
    text.push_str(more);
    Ok(units + count(more))
}

impl WatchError {
    /// The answer with which the daemon refused the socket.
    pub fn refusal(&self) -> Option<&Answer> {
        match self {
            Self::Door(DoorError::Refused(answer)) => Some(answer),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::SinkExt as _;
    use serde_json::{Value, json};
    use tokio_tungstenite::tungstenite::Message;

    const LIMIT: Duration = Duration::from_secs(10);

    fn row(id: &str, text: &str) -> Value {
        json!({"id": id, "kind": "AgentText", "data": {"content": {"type": "text", "text": text}}})
    }

    fn state(active: bool) -> Value {
        let end = (!active).then(
            || json!({"turn_id": null, "reason": "end_turn", "error": null, "at": "2030-01-01T00:00:00Z"}),
        );
        let mut state = serde_json::to_value(ReducedState::default()).unwrap();
        state["turn"]["active"] = active.into();
        state["turn"]["last_end"] = end.into();
        state
    }

    fn update(cursor: u64, deltas: &Value, active: bool) -> Value {
        json!({"type": "ProjectionUpdate", "cursor": cursor, "transcript": deltas, "state": state(active), "times": {}})
    }

    /// A watch of a session whose first row is `agent:1`, at cursor 5, and then of `frames`.
    async fn watch<R>(frames: Vec<Value>, visit: impl AsyncFnOnce(Watch) -> R) -> R {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let listener = tokio::net::UnixListener::bind(&path).unwrap();
        let serving = async {
            let mut socket =
                tokio_tungstenite::accept_async(listener.accept().await.unwrap().0).await.unwrap();
            let snapshot = json!({"type": "TranscriptSnapshot", "cursor": 5, "rows": [row("agent:1", "a")], "times": {}});
            let first = [snapshot, json!({"type": "ReducedState", "state": state(true)})];
            for frame in first.into_iter().chain(frames) {
                socket.send(Message::text(frame.to_string())).await.unwrap();
            }
            socket
        };
        let door = Door::new(path);
        let (socket, watch) = tokio::join!(serving, Watch::open(&door, "x"));
        let result = visit(watch.unwrap()).await;
        drop(socket);
        result
    }

    #[tokio::test]
    async fn frames_are_folded() {
        let deltas = json!([
            {"type": "Patch", "row": row("agent:1", "ab")}, {"type": "Append", "row": row("agent:7", "c")}
        ]);
        watch(vec![update(7, &deltas, false)], async |mut watch| {
            assert_eq!((watch.cursor, watch.text("agent")), (5, "a".into()));
            assert_eq!(watch.turn_end(LIMIT).await.unwrap(), "end_turn");
            assert_eq!(
                (watch.cursor, watch.text("agent"), watch.text("age")),
                (7, "abc".into(), String::new())
            );
            assert_eq!(watch.row("agent:7").unwrap().data["content"]["text"], "c");
            let error = watch.until(Duration::from_millis(20), "more", |_| false).await.unwrap_err();
            assert!(error.to_string().contains("in vain for more; seen last: cursor 7"), "{error}");
        })
        .await;
    }

    #[tokio::test]
    async fn frames_against_the_protocol_are_errors() {
        for (deltas, cursor, expect) in [
            (json!([{"type": "Append", "row": row("agent:1", "x")}]), 6, "agent:1 is appended twice"),
            (json!([{"type": "Patch", "row": row("agent:2", "x")}]), 6, "agent:2 is patched but unknown"),
            (
                json!([{"type": "AppendText", "id": "agent:1", "offset": 1, "text": "x"}]),
                6,
                "agent:1 is lengthened",
            ),
            (json!([]), 4, "the cursor went back from 5"),
        ] {
            watch(vec![update(cursor, &deltas, true)], async |mut watch| {
                let error = watch.until(LIMIT, "an error", |_| false).await.unwrap_err().to_string();
                assert!(error.starts_with(expect), "{error}");
            })
            .await;
        }
    }
}
