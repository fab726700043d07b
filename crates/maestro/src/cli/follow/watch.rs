use maestro_protocol::{LastEnd, Origin, TurnState};

/// Tells when the turn of a prompt has ended, from the states that come after the prompt was sent. Frames may cover
/// many lines, so a turn can begin and end, or the next one begin, between two states.
#[derive(Debug)]
pub(super) struct TurnWatch {
    /// The end that was known before the prompt.
    before: Option<LastEnd>,
    /// The prompt's turn, once it was seen active.
    turn_id: Option<String>,
    /// A turn that the agent began by itself meanwhile.
    agents_turn_id: Option<String>,
}

impl TurnWatch {
    /// `before` is the state that was known before the prompt was sent.
    pub(super) fn new(before: &TurnState) -> Self {
        let agents_turn_id = before.turn_id.clone().filter(|_| before.active);
        Self { before: before.last_end.clone(), turn_id: None, agents_turn_id }
    }

    /// The end of the prompt's turn, if this state is at it or past it.
    pub(super) fn observe(&mut self, turn: &TurnState) -> Option<LastEnd> {
        if turn.active && turn.origin == Some(Origin::Agent) {
            self.agents_turn_id.clone_from(&turn.turn_id);
        }
        if turn.active && turn.origin == Some(Origin::Person) && self.turn_id.is_none() {
            self.turn_id.clone_from(&turn.turn_id);
        }
        let end = turn.last_end.as_ref().filter(|end| self.before.as_ref() != Some(*end))?;
        let still_active = turn.active && self.turn_id.is_some() && turn.turn_id == self.turn_id;
        let ended_by_agent = end.turn_id.is_some() && end.turn_id == self.agents_turn_id;
        (!still_active && !ended_by_agent).then(|| end.clone())
    }
}

/// The exit code of a turn that ended for this reason (see `maestro --help`).
pub(super) fn exit_code(reason: &str) -> u8 {
    match reason {
        "end_turn" => 0,
        "cancelled" => super::CANCELLED,
        "error" => super::FAILED,
        "interrupted" => super::DIED,
        _ => super::STOPPED_SHORT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use maestro_protocol::Timestamp;

    fn end(turn_id: &str) -> LastEnd {
        let at = Timestamp::from_millisecond(0);
        LastEnd { turn_id: Some(turn_id.into()), reason: "end_turn".into(), error: None, at }
    }

    fn idle(last_end: Option<&str>) -> TurnState {
        TurnState { last_end: last_end.map(end), ..TurnState::default() }
    }

    fn active(turn_id: &str, origin: Origin, last_end: Option<&str>) -> TurnState {
        TurnState { active: true, origin: Some(origin), turn_id: Some(turn_id.into()), ..idle(last_end) }
    }

    /// Feeds states after the prompt to a watch that knew `before`, and expects the end at the last of them only.
    #[track_caller]
    fn check(before: &TurnState, states: &[TurnState], expect: Option<&str>) {
        let mut watch = TurnWatch::new(before);
        let (last, earlier) = states.split_last().expect("a state");
        for state in earlier {
            assert_eq!(watch.observe(state), None, "{state:?}");
        }
        assert_eq!(watch.observe(last), expect.map(end));
    }

    #[test]
    fn the_end_of_the_prompts_turn_is_found() {
        use Origin::{Agent, Person};
        let before = idle(Some("1"));
        check(&before, &[idle(Some("1")), active("2", Person, Some("1"))], None);
        check(&before, &[active("2", Person, Some("1")), idle(Some("2"))], Some("2"));
        check(&before, &[idle(Some("2"))], Some("2"));
        check(&idle(None), &[active("1", Person, None), idle(Some("1"))], Some("1"));
        // The next turn began, or began and ended, in the same frame.
        check(&before, &[active("2", Person, Some("1")), active("3", Agent, Some("2"))], Some("2"));
        check(&before, &[active("2", Person, Some("1")), active("3", Person, Some("2"))], Some("2"));
        check(&before, &[active("2", Person, Some("1")), idle(Some("3"))], Some("3"));
        // A turn of the agent's own ended while the prompt was on its way.
        let busy = active("2", Agent, Some("1"));
        check(&busy, &[idle(Some("2")), active("3", Person, Some("2"))], None);
        check(&busy, &[active("3", Person, Some("2")), idle(Some("3"))], Some("3"));
    }

    #[test]
    fn every_reason_has_a_code() {
        let check = |reason: &str, code: u8| assert_eq!(exit_code(reason), code, "{reason}");
        check("end_turn", 0);
        check("refusal", 10);
        check("max_tokens", 10);
        check("max_turn_requests", 10);
        check("quiet", 10);
        check("cancelled", 11);
        check("error", 12);
        check("interrupted", 13);
    }
}
