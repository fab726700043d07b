//! What a socket's client may see of a frame (CONTRACT §7.2).

use bytes::Bytes;
use maestro_protocol::json;
use serde_json::Value;

/// What a client may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sight {
    /// Everything.
    Full,
    /// Everything but the nonce that answers an approval.
    NoNonce,
}

impl Sight {
    /// The frame as the client may see it. Without restrictions the shared bytes go out as they are.
    pub(super) fn show(self, frame: Bytes) -> Bytes {
        match self {
            Self::Full => frame,
            Self::NoNonce => without_nonce(&frame),
        }
    }
}

/// A frame that cannot be read is not shown at all: what it holds is unknown.
fn without_nonce(frame: &[u8]) -> Bytes {
    let mut value: Value = json::from_slice(frame).unwrap_or_default();
    if let Some(nonce) = value.pointer_mut("/state/pending_approval/nonce") {
        *nonce = Value::Null;
    }
    serde_json::to_vec(&value).map(Bytes::from).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::Sight;
    use bytes::Bytes;
    use serde_json::{Value, json};

    #[track_caller]
    fn check(frame: &Value, expect: &Value) {
        let shared = Bytes::from(frame.to_string());
        assert_eq!(Sight::Full.show(shared.clone()), shared);
        let shown: Value = serde_json::from_slice(&Sight::NoNonce.show(shared)).expect("a frame");
        assert_eq!(shown, *expect);
    }

    #[test]
    fn only_the_live_nonce_is_blanked() {
        let state = |nonce: Value| json!({"turn": {"active": true}, "pending_approval": {"nonce": nonce, "row_id": "approval:1"}});
        let rows =
            json!([{"id": "tool:1", "kind": "ToolCall", "data": {"nonce": "the agent's own", "n": 1.5}}]);
        check(
            &json!({"type": "ReducedState", "state": state("secret".into())}),
            &json!({"type": "ReducedState", "state": state(Value::Null)}),
        );
        check(
            &json!({"type": "ProjectionUpdate", "cursor": 7, "transcript": rows, "state": state("secret".into())}),
            &json!({"type": "ProjectionUpdate", "cursor": 7, "transcript": rows, "state": state(Value::Null)}),
        );
        let calm = json!({"type": "ReducedState", "state": {"pending_approval": null}});
        check(&calm, &calm);
        let snapshot = json!({"type": "TranscriptSnapshot", "cursor": 3, "rows": rows, "times": {}});
        check(&snapshot, &snapshot);
    }

    #[test]
    fn what_cannot_be_read_is_not_shown() {
        assert_eq!(Sight::NoNonce.show(Bytes::from_static(b"{\"nonce\": \"secret\"")), "null");
    }
}
