//! Creations under way that have an `Idempotency-Key`, so that two tries at once make one session (CONTRACT §11.5).

use maestro_protocol::{RequestMark, Session};
use std::collections::{BTreeMap, VecDeque};
use tokio::sync::oneshot;

/// What a creation's key is worth.
#[derive(Debug)]
pub(super) enum Claimed {
    /// No session was made with it: make one.
    Yours,
    /// This one was, by the same request.
    Done(Box<Session>),
    /// One was, or is being made, by a request with another body.
    OtherBody,
}

/// Keys whose session is being made. Each has a connection that waits for it, which bounds them.
#[derive(Debug, Default)]
pub(super) struct Claims(BTreeMap<(String, String), Claim>);

#[derive(Debug)]
struct Claim {
    body: String,
    waiting: VecDeque<oneshot::Sender<Claimed>>,
}

impl Claims {
    /// Gives the key to the first who asks; who asks later with the same request waits for what comes of it.
    pub(super) fn claim(&mut self, account: &str, request: RequestMark, reply: oneshot::Sender<Claimed>) {
        let RequestMark { key, body } = request;
        match self.0.get_mut(&(account.to_owned(), key.clone())) {
            None => {
                let claim = Claim { body, waiting: VecDeque::new() };
                self.0.insert((account.to_owned(), key), claim);
                tell(reply, Claimed::Yours);
            }
            Some(claim) if claim.body == body => claim.waiting.push_back(reply),
            Some(_) => tell(reply, Claimed::OtherBody),
        }
    }

    /// The session is there.
    pub(super) fn settle(&mut self, session: &Session, request: &RequestMark) {
        let claim = self.0.remove(&(session.owner.clone(), request.key.clone()));
        for reply in claim.into_iter().flat_map(|claim| claim.waiting) {
            tell(reply, Claimed::Done(Box::new(session.clone())));
        }
    }

    /// Nothing came of it: the next who waits may try.
    pub(super) fn release(&mut self, account: &str, key: &str) {
        let place = (account.to_owned(), key.to_owned());
        let Some(claim) = self.0.get_mut(&place) else { return };
        while let Some(next) = claim.waiting.pop_front() {
            if next.send(Claimed::Yours).is_ok() {
                return;
            }
        }
        self.0.remove(&place);
    }
}

/// Answers. That nobody listens any more is no failure: the client left.
fn tell(reply: oneshot::Sender<Claimed>, claimed: Claimed) {
    if reply.send(claimed).is_err() {
        tracing::trace!("A client left before its answer came");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use maestro_protocol::{AgentKey, SessionId, Status, Timestamp, View};

    fn mark(body: &str) -> RequestMark {
        RequestMark { key: "k".into(), body: body.into() }
    }

    fn session() -> Session {
        let at = Timestamp::from_millisecond(0);
        Session {
            id: SessionId::from_uuid(uuid::Uuid::nil()),
            owner: "a".into(),
            view: View::Structured,
            agent: "demo".parse::<AgentKey>().expect("a key"),
            title: String::new(),
            cwd: "/".into(),
            status: Status::Starting,
            activity: None,
            activity_detail: None,
            end_reason: None,
            acp_session_id: None,
            created_at: at,
            updated_at: at,
            usage: None,
        }
    }

    /// Asks for the key and tells the answer so far: `yours`, `done`, `other`, or nothing.
    fn claim(claims: &mut Claims, account: &str, body: &str) -> oneshot::Receiver<Claimed> {
        let (reply, answer) = oneshot::channel();
        claims.claim(account, mark(body), reply);
        answer
    }

    #[track_caller]
    fn check(answer: &mut oneshot::Receiver<Claimed>, expect: Option<&str>) {
        let told = answer.try_recv().ok().map(|claimed| match claimed {
            Claimed::Yours => "yours",
            Claimed::Done(_) => "done",
            Claimed::OtherBody => "other",
        });
        assert_eq!(told, expect);
    }

    #[test]
    fn tries_at_once_wait_for_the_first() {
        let mut claims = Claims::default();
        check(&mut claim(&mut claims, "a", "1"), Some("yours"));
        check(&mut claim(&mut claims, "b", "1"), Some("yours"));
        check(&mut claim(&mut claims, "a", "2"), Some("other"));
        let mut second = claim(&mut claims, "a", "1");
        check(&mut second, None);
        claims.settle(&session(), &mark("1"));
        check(&mut second, Some("done"));
        check(&mut claim(&mut claims, "a", "1"), Some("yours"));
    }

    #[test]
    fn a_try_that_fails_gives_the_key_to_the_next_who_still_waits() {
        let mut claims = Claims::default();
        check(&mut claim(&mut claims, "a", "1"), Some("yours"));
        drop(claim(&mut claims, "a", "1"));
        let mut third = claim(&mut claims, "a", "1");
        claims.release("a", "k");
        check(&mut third, Some("yours"));
        claims.release("a", "k");
        check(&mut claim(&mut claims, "a", "2"), Some("yours"));
    }
}
