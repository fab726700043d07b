//! Permission requests: one is live, later ones wait (CONTRACT §7). Pure: nonces come from outside, lines are appended
//! by the actor before the state here changes.

use maestro_acp::{Choice, Overlap, PermissionRequest, RawId, choose, offered};
use maestro_protocol::{Decision, Nonce, PendingApproval, RowId};
use std::collections::VecDeque;

/// Requests that may wait behind the live one. An agent that asks more at once is broken; its further requests are
/// answered `cancelled`.
pub(crate) const WAITING_MAX: usize = 64;

/// The request that a person can answer now.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) request: PermissionRequest,
    pub(crate) nonce: Nonce,
    pub(crate) row_id: RowId,
}

/// What is to be done with a new request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Make it live.
    GoLive,
    /// Settle the live one as superseded, then make this one live.
    Supersede,
    /// Keep it waiting.
    Wait,
    /// Answer `cancelled` at once.
    Refuse,
}

/// What an answer means for the live request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The nonce is not the live one: nothing happens, and that is no error.
    NotLive,
    /// The request has no single option for the decision; nothing is consumed.
    NotOffered,
    /// Answer the agent with this option.
    Select(String),
    /// Answer the agent that the request is cancelled: it offers no way to refuse.
    Cancel,
}

/// Where a withdrawn request stood.
#[derive(Debug)]
pub(crate) enum Withdrawn {
    /// It is the live one; settle it.
    Live,
    /// It waited and is gone now; answer it.
    Waiting(PermissionRequest),
    /// Nobody knows it.
    Unknown,
}

/// The permission requests of one session that have no answer yet.
#[derive(Debug)]
pub(crate) struct Approvals {
    live: Option<Live>,
    waiting: VecDeque<PermissionRequest>,
    overlap: Overlap,
}

impl Approvals {
    pub(crate) fn new(overlap: Overlap) -> Self {
        Self { live: None, waiting: VecDeque::new(), overlap }
    }

    pub(crate) fn admission(&self) -> Admission {
        match (&self.live, self.overlap) {
            (None, _) => Admission::GoLive,
            (Some(_), Overlap::NewestWins) => Admission::Supersede,
            (Some(_), Overlap::Wait) if self.waiting.len() < WAITING_MAX => Admission::Wait,
            (Some(_), Overlap::Wait) => Admission::Refuse,
        }
    }

    pub(crate) fn wait(&mut self, request: PermissionRequest) {
        self.waiting.push_back(request);
    }

    pub(crate) fn go_live(&mut self, live: Live) {
        debug_assert!(self.live.is_none(), "one live approval at a time");
        self.live = Some(live);
    }

    pub(crate) fn live(&self) -> Option<&Live> {
        self.live.as_ref()
    }

    /// Whether the agent waits for an answer to anything.
    pub(crate) fn is_open(&self) -> bool {
        self.live.is_some() || !self.waiting.is_empty()
    }

    /// The request that goes live next, without taking it.
    pub(crate) fn next_waiting(&self) -> Option<&PermissionRequest> {
        if self.live.is_none() { self.waiting.front() } else { None }
    }

    pub(crate) fn take_next_waiting(&mut self) -> Option<PermissionRequest> {
        self.waiting.pop_front()
    }

    pub(crate) fn judge(&self, nonce: Nonce, decision: &Decision) -> Verdict {
        let Some(live) = self.live.as_ref().filter(|live| live.nonce == nonce) else {
            return Verdict::NotLive;
        };
        match choose(&live.request.options, decision) {
            Choice::Select(option_id) => Verdict::Select(option_id),
            Choice::Cancelled => Verdict::Cancel,
            Choice::NotOffered => Verdict::NotOffered,
        }
    }

    /// Takes the live request away, settled.
    pub(crate) fn settle(&mut self) -> Option<Live> {
        self.live.take()
    }

    /// Takes everything that waits away, to be answered `cancelled`.
    pub(crate) fn drain_waiting(&mut self) -> Vec<PermissionRequest> {
        self.waiting.drain(..).collect()
    }

    pub(crate) fn withdraw(&mut self, id: &RawId) -> Withdrawn {
        if self.live.as_ref().is_some_and(|live| live.request.id == *id) {
            return Withdrawn::Live;
        }
        let position = self.waiting.iter().position(|request| request.id == *id);
        match position.and_then(|position| self.waiting.remove(position)) {
            Some(request) => Withdrawn::Waiting(request),
            None => Withdrawn::Unknown,
        }
    }

    /// The live request as clients see it, with its nonce.
    pub(crate) fn pending(&self) -> Option<PendingApproval> {
        self.live.as_ref().map(|live| PendingApproval {
            nonce: Some(live.nonce),
            row_id: live.row_id.clone(),
            options: live.request.options.clone(),
            decisions: offered(&live.request.options),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use maestro_acp::{Frame, decode};
    use proptest::prelude::*;
    use uuid::Uuid;

    const OPTIONS: &str = r#"[{"optionId":"once","name":"Yes","kind":"allow_once"},
        {"optionId":"no","name":"No","kind":"reject_once"}]"#;

    fn request(id: u64) -> PermissionRequest {
        let line = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"session/request_permission",
                "params":{{"sessionId":"s","toolCall":{{"toolCallId":"t{id}"}},"options":{OPTIONS}}}}}"#
        );
        match decode(line.replace('\n', " ").as_bytes()) {
            Frame::PermissionRequest(request) => request,
            other => panic!("not a permission request: {other:?}"),
        }
    }

    fn nonce(number: u64) -> Nonce {
        Nonce::from_uuid(Uuid::from_u64_pair(0, number))
    }

    fn live(number: u64) -> Live {
        Live { request: request(number), nonce: nonce(number), row_id: RowId::keyed("approval", number) }
    }

    fn one_live(overlap: Overlap) -> Approvals {
        let mut approvals = Approvals::new(overlap);
        assert_eq!(approvals.admission(), Admission::GoLive);
        approvals.go_live(live(1));
        approvals
    }

    #[test]
    fn a_second_request_waits_or_wins_as_its_agent_wants() {
        assert_eq!(one_live(Overlap::Wait).admission(), Admission::Wait);
        assert_eq!(one_live(Overlap::NewestWins).admission(), Admission::Supersede);
        let mut full = one_live(Overlap::Wait);
        for id in 0..WAITING_MAX {
            full.wait(request(100 + id as u64));
        }
        assert_eq!(full.admission(), Admission::Refuse);
    }

    #[test]
    fn only_the_live_nonce_decides_and_only_what_is_offered() {
        let approvals = one_live(Overlap::Wait);
        let check = |number, decision: &Decision, expect| {
            assert_eq!(approvals.judge(nonce(number), decision), expect);
        };
        check(1, &Decision::AllowOnce, Verdict::Select("once".into()));
        check(1, &Decision::Deny, Verdict::Select("no".into()));
        check(1, &Decision::AllowForSession, Verdict::NotOffered);
        check(1, &Decision::Option("once".into()), Verdict::Select("once".into()));
        check(1, &Decision::Option("other".into()), Verdict::NotOffered);
        check(2, &Decision::AllowForSession, Verdict::NotLive);
    }

    #[test]
    fn a_settled_nonce_is_worth_nothing() {
        let mut approvals = one_live(Overlap::Wait);
        assert!(approvals.settle().is_some());
        assert_eq!(approvals.judge(nonce(1), &Decision::AllowOnce), Verdict::NotLive);
        assert!(approvals.pending().is_none());
    }

    #[test]
    fn the_agent_withdraws_its_own() {
        let mut approvals = one_live(Overlap::Wait);
        approvals.wait(request(2));
        approvals.wait(request(3));
        assert!(
            matches!(approvals.withdraw(&request(2).id), Withdrawn::Waiting(gone) if gone.id == request(2).id)
        );
        assert!(matches!(approvals.withdraw(&request(2).id), Withdrawn::Unknown));
        assert!(matches!(approvals.withdraw(&request(1).id), Withdrawn::Live));
        assert_eq!(approvals.next_waiting(), None, "nothing is next while one is live");
        approvals.settle();
        assert_eq!(approvals.next_waiting().map(|request| &request.id), Some(&request(3).id));
    }

    proptest! {
        /// Whatever comes in whatever order, no request is answered twice and none is lost.
        #[test]
        fn every_request_gets_exactly_one_answer(
            steps in prop::collection::vec((0_u8..4, 1_u64..12), 0..80),
            newest_wins in any::<bool>(),
        ) {
            let overlap = if newest_wins { Overlap::NewestWins } else { Overlap::Wait };
            let (mut approvals, mut asked, mut answered) = (Approvals::new(overlap), 0_usize, Vec::new());
            for (step, number) in steps {
                match step {
                    0 => {
                        asked += 1;
                        let id = 1_000 + asked as u64;
                        match approvals.admission() {
                            Admission::GoLive => approvals.go_live(live(id)),
                            Admission::Supersede => {
                                answered.extend(approvals.settle().map(|live| live.request.id));
                                approvals.go_live(live(id));
                            }
                            Admission::Wait => approvals.wait(request(id)),
                            Admission::Refuse => answered.push(request(id).id),
                        }
                    }
                    1 => answered.extend(approvals.settle().map(|live| live.request.id)),
                    2 => match approvals.withdraw(&request(1_000 + number).id) {
                        Withdrawn::Live => answered.extend(approvals.settle().map(|live| live.request.id)),
                        Withdrawn::Waiting(request) => answered.push(request.id),
                        Withdrawn::Unknown => {}
                    },
                    _ => answered.extend(approvals.drain_waiting().into_iter().map(|request| request.id)),
                }
                if approvals.next_waiting().is_some()
                    && let Some(request) = approvals.take_next_waiting()
                {
                    let number = request.params["toolCall"]["toolCallId"].as_str().unwrap()[1..].parse().unwrap();
                    approvals.go_live(Live { request, nonce: nonce(number), row_id: RowId::plan() });
                }
            }
            answered.extend(approvals.settle().map(|live| live.request.id));
            answered.extend(approvals.drain_waiting().into_iter().map(|request| request.id));
            prop_assert_eq!(answered.len(), asked);
            for (index, id) in answered.iter().enumerate() {
                prop_assert!(!answered[..index].contains(id));
            }
        }
    }
}
