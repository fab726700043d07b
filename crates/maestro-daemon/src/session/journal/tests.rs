use super::{Journal, Urgency};
use crate::{
    clock::{Clock, Entropy as _, Sources, System},
    session::lines,
};
use maestro_log::{Committer, LogDir};
use maestro_projection::Projection;
use maestro_protocol::{
    ApprovalLine, Envelope, OutcomeCause, RowId, SessionId, Timestamp, TranscriptRow, TranscriptRowKind,
};
use serde_json::json;
use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

const DAY_MS: i64 = 24 * 60 * 60 * 1000;
const NOON_MS: i64 = 1_796_126_400_000;

/// A clock that a test sets.
#[derive(Debug)]
struct Hands(AtomicI64);

impl Clock for Hands {
    fn now(&self) -> Timestamp {
        Timestamp::from_millisecond(self.0.load(Ordering::Relaxed))
    }
}

fn chunk(id: &str) -> Vec<u8> {
    let content = json!({"type": "text", "text": "hm"});
    let update = json!({"sessionUpdate": "agent_message_chunk", "messageId": id, "content": content});
    json!({"sessionId": "s", "update": update}).to_string().into_bytes()
}

#[test]
fn a_clock_that_jumps_while_an_approval_waits_changes_neither_order_nor_approval() {
    let place = tempfile::tempdir().expect("a directory");
    let committer = Committer::start().expect("a committer");
    let logs = LogDir::open(place.path(), &committer).expect("a directory for logs");
    let hands = Arc::new(Hands(AtomicI64::new(NOON_MS)));
    let log = logs.create_log(SessionId::from_uuid(System.uuid())).expect("a log");
    let sources = Sources { clock: hands.clone(), entropy: Arc::new(System) };
    let mut journal = Journal::new(log, Projection::new(), 0, sources);

    let approval = RowId::approval(System.uuid());
    let row = TranscriptRow { id: approval.clone(), kind: TranscriptRowKind::Approval, data: json!({}) };
    let asked = Envelope::Approval(ApprovalLine { row, at: hands.now() });
    let mut cursors = vec![journal.append_envelope(&asked).expect("appended")];
    for (message, now) in [("in a year", NOON_MS + 365 * DAY_MS), ("yesterday", NOON_MS - DAY_MS)] {
        hands.0.store(now, Ordering::Relaxed);
        cursors.push(journal.append(&chunk(message), Urgency::Stream).expect("appended"));
        assert_eq!(journal.projection().last_time(), Some(hands.now()), "the log knows of the jump");
        assert_eq!(
            journal.projection().unsettled_approvals(),
            std::slice::from_ref(&approval),
            "the approval waits on"
        );
    }
    let settled = lines::cancelled(approval.clone(), OutcomeCause::Withdrawn, hands.now());
    cursors.push(journal.append_envelope(&settled).expect("appended"));

    // Before the first line, and after each jump, stands a `clock` line.
    assert_eq!(cursors, [2, 4, 6, 7]);
    let projection = journal.projection();
    assert_eq!(projection.unsettled_approvals(), Vec::<RowId>::new());
    let order: Vec<String> = projection.snapshot().rows.iter().map(|row| row.id.to_string()).collect();
    assert_eq!(order, [approval.to_string(), "agent:in a year".into(), "agent:yesterday".into()]);
    let changed = projection.changed_since(6).0;
    assert_eq!(changed.len(), 1, "what changed after a line is told by its cursor: {changed:?}");
}
