//! The turn machine: which turn a session is in, and what follows from what happens to it (CONTRACT §8). Pure.
//!
//! At most one prompt is ever open with an agent. A cancelled turn ends for clients at once, yet the agent's answer
//! must still come before the next prompt may go out, because a permission request names no turn.

/// Where the one turn of a session stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// No turn.
    Idle,
    /// Claimed and in the log; the prompt goes out when the log is flushed.
    Committing,
    /// The agent has the prompt.
    Dispatched,
    /// Over for clients; the agent has yet to answer the prompt.
    Cancelling,
    /// The agent works although nobody asked it anything (CONTRACT §8.6).
    Own,
    /// Such work was cancelled; what the agent still says of it is let pass before the next prompt.
    Withdrawing,
    /// The session is dead.
    Dead,
}

/// What happens to a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TurnInput {
    /// A person sends a prompt.
    Prompt,
    /// The lines of the claimed turn are on disk.
    Flushed,
    /// The agent answered the open prompt.
    Answered,
    /// A person cancels.
    Cancel,
    /// The cancel grace is over.
    GraceOver,
    /// The agent begins to work by itself.
    Stirs,
    /// The agent marks the end of its own turn.
    Marked,
    /// The agent has been silent for long in its own turn.
    Quiet,
    /// The hush after a cancel is over.
    HushOver,
    /// The session ends for another reason.
    End,
}

/// What the actor must do, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TurnEffect {
    /// Append the turn's first lines and flush.
    AppendStarted,
    /// Append the start of a turn of the agent's own.
    AppendStartedByAgent,
    /// Append its end as the agent marked it.
    AppendEndedAsMarked,
    /// Append its end as told by silence.
    AppendEndedAsQuiet,
    /// Send the prompt to the agent.
    Dispatch,
    /// Append the turn's end with the agent's answer.
    AppendEndedAsAnswered,
    /// Append the turn's end as cancelled.
    AppendEndedAsCancelled,
    /// Append the turn's end as interrupted.
    AppendEndedAsInterrupted,
    /// Send `session/cancel` and answer every open permission request with `cancelled`.
    SendCancel,
    /// Start the clock of the cancel grace.
    StartGrace,
    /// Start the clock of the hush.
    StartHush,
    /// Stop the clock of the grace and let the prompts that waited for the settle try again.
    Settle,
    /// Let the prompt wait for the settle.
    HoldPrompt,
    /// Refuse the prompt: a turn is active.
    RefusePrompt,
    /// Declare the session dead: the cancel did not settle.
    Die,
}

impl Turn {
    /// The state after `input`, and what the actor must do. Inputs that mean nothing in a state change nothing.
    pub(crate) fn on(self, input: TurnInput) -> (Self, &'static [TurnEffect]) {
        use TurnEffect as E;
        use TurnInput as I;
        match (self, input) {
            (Self::Idle, I::Prompt) => (Self::Committing, &[E::AppendStarted]),
            (Self::Committing | Self::Dispatched | Self::Own, I::Prompt) => (self, &[E::RefusePrompt]),
            (Self::Cancelling | Self::Withdrawing, I::Prompt) => (self, &[E::HoldPrompt]),

            (Self::Committing, I::Flushed) => (Self::Dispatched, &[E::Dispatch]),

            (Self::Dispatched, I::Answered) => (Self::Idle, &[E::AppendEndedAsAnswered]),
            (Self::Cancelling, I::Answered) | (Self::Withdrawing, I::Marked | I::HushOver) => {
                (Self::Idle, &[E::Settle])
            }

            // Nothing was sent yet, so there is nothing to settle.
            (Self::Committing, I::Cancel) => (Self::Idle, &[E::AppendEndedAsCancelled]),
            (Self::Dispatched, I::Cancel) => {
                (Self::Cancelling, &[E::AppendEndedAsCancelled, E::SendCancel, E::StartGrace])
            }

            (Self::Cancelling, I::GraceOver) => (Self::Dead, &[E::Die]),

            (Self::Idle, I::Stirs) => (Self::Own, &[E::AppendStartedByAgent]),
            (Self::Own, I::Marked) => (Self::Idle, &[E::AppendEndedAsMarked]),
            (Self::Own, I::Quiet) => (Self::Idle, &[E::AppendEndedAsQuiet]),
            // No prompt is open, so there is no answer that must come, and nothing to die of.
            (Self::Own, I::Cancel) => {
                (Self::Withdrawing, &[E::AppendEndedAsCancelled, E::SendCancel, E::StartHush])
            }

            (Self::Committing | Self::Dispatched | Self::Own, I::End) => {
                (Self::Dead, &[E::AppendEndedAsInterrupted])
            }
            (Self::Idle | Self::Cancelling | Self::Withdrawing, I::End) => (Self::Dead, &[]),

            (Self::Dead, _)
            | (
                Self::Idle,
                I::Flushed | I::Answered | I::Cancel | I::GraceOver | I::Marked | I::Quiet | I::HushOver,
            )
            | (Self::Committing, I::Answered | I::GraceOver)
            | (Self::Dispatched, I::Flushed | I::GraceOver)
            | (Self::Cancelling, I::Flushed | I::Cancel)
            | (
                Self::Committing | Self::Dispatched | Self::Cancelling,
                I::Stirs | I::Marked | I::Quiet | I::HushOver,
            )
            | (Self::Own, I::Flushed | I::Answered | I::GraceOver | I::Stirs | I::HushOver)
            | (
                Self::Withdrawing,
                I::Flushed | I::Answered | I::Cancel | I::GraceOver | I::Stirs | I::Quiet,
            ) => (self, &[]),
        }
    }

    /// Whether clients see an active turn.
    pub(crate) fn is_active(self) -> bool {
        matches!(self, Self::Committing | Self::Dispatched | Self::Own)
    }

    /// Whether a cancelled turn still settles with the agent: prompts wait, and what it asks crossed the cancel.
    pub(crate) fn is_settling(self) -> bool {
        matches!(self, Self::Cancelling | Self::Withdrawing)
    }
}

#[cfg(test)]
mod tests {
    use super::{Turn, TurnEffect, TurnInput};
    use proptest::prelude::*;

    #[track_caller]
    fn check(inputs: &[TurnInput], expect: Turn, effects: &[TurnEffect]) {
        let mut turn = Turn::Idle;
        let mut seen = Vec::new();
        for &input in inputs {
            let (next, now) = turn.on(input);
            turn = next;
            seen.extend_from_slice(now);
        }
        assert_eq!((turn, seen.as_slice()), (expect, effects));
    }

    #[test]
    fn a_turn_is_logged_then_dispatched_then_ended() {
        use TurnEffect::*;
        use TurnInput::*;
        check(&[Prompt, Flushed, Answered], Turn::Idle, &[AppendStarted, Dispatch, AppendEndedAsAnswered]);
    }

    #[test]
    fn a_cancelled_turn_settles_or_the_session_dies() {
        use TurnEffect::*;
        use TurnInput::*;
        let cancelled = [AppendStarted, Dispatch, AppendEndedAsCancelled, SendCancel, StartGrace];
        check(&[Prompt, Flushed, Cancel, Answered], Turn::Idle, &[&cancelled[..], &[Settle]].concat());
        check(&[Prompt, Flushed, Cancel, GraceOver], Turn::Dead, &[&cancelled[..], &[Die]].concat());
        check(&[Prompt, Flushed, Cancel, Cancel], Turn::Cancelling, &cancelled);
    }

    #[test]
    fn a_second_prompt_is_refused_or_waits_for_the_settle() {
        use TurnEffect::*;
        use TurnInput::*;
        check(&[Prompt, Prompt], Turn::Committing, &[AppendStarted, RefusePrompt]);
        check(&[Prompt, Flushed, Prompt], Turn::Dispatched, &[AppendStarted, Dispatch, RefusePrompt]);
        check(
            &[Prompt, Flushed, Cancel, Prompt],
            Turn::Cancelling,
            &[AppendStarted, Dispatch, AppendEndedAsCancelled, SendCancel, StartGrace, HoldPrompt],
        );
    }

    #[test]
    fn a_prompt_cancelled_before_its_flush_is_never_sent() {
        use TurnEffect::*;
        use TurnInput::*;
        check(&[Prompt, Cancel, Flushed], Turn::Idle, &[AppendStarted, AppendEndedAsCancelled]);
    }

    #[test]
    fn a_turn_of_the_agents_own_ends_by_its_mark_by_silence_or_by_a_cancel() {
        use TurnEffect::*;
        use TurnInput::*;
        check(&[Stirs, Stirs, Marked], Turn::Idle, &[AppendStartedByAgent, AppendEndedAsMarked]);
        check(&[Stirs, Quiet, Quiet], Turn::Idle, &[AppendStartedByAgent, AppendEndedAsQuiet]);
        check(&[Stirs, Prompt], Turn::Own, &[AppendStartedByAgent, RefusePrompt]);
        let cancelled = [AppendStartedByAgent, AppendEndedAsCancelled, SendCancel, StartHush];
        check(&[Stirs, Cancel, Stirs, Cancel], Turn::Withdrawing, &cancelled);
        check(&[Stirs, Cancel, Prompt], Turn::Withdrawing, &[&cancelled[..], &[HoldPrompt]].concat());
        check(&[Stirs, Cancel, HushOver], Turn::Idle, &[&cancelled[..], &[Settle]].concat());
        check(&[Stirs, Cancel, Marked, HushOver], Turn::Idle, &[&cancelled[..], &[Settle]].concat());
        check(&[Stirs, Cancel, GraceOver], Turn::Withdrawing, &cancelled);
    }

    #[test]
    fn what_comes_in_a_persons_turn_opens_no_other() {
        use TurnEffect::*;
        use TurnInput::*;
        check(&[Prompt, Stirs, Flushed, Stirs, Marked, Quiet], Turn::Dispatched, &[AppendStarted, Dispatch]);
    }

    fn any_input() -> impl Strategy<Value = TurnInput> {
        use TurnInput::*;
        prop::sample::select(vec![
            Prompt, Flushed, Answered, Cancel, GraceOver, Stirs, Marked, Quiet, HushOver, End,
        ])
    }

    proptest! {
        /// Whatever happens in whatever order: never two turns and never two prompts open with the agent, none while a
        /// turn of its own is open, every started turn ends exactly once, nothing is dispatched before it was appended,
        /// only a prompt without its answer is a death, and nothing follows a death.
        #[test]
        fn the_invariants_hold(inputs in prop::collection::vec(any_input(), 0..64)) {
            let (mut turn, mut open_with_agent, mut open_for_clients, mut appended, mut dead) =
                (Turn::Idle, 0_u32, 0_u32, false, false);
            for input in inputs {
                if input == TurnInput::Answered && matches!(turn, Turn::Dispatched | Turn::Cancelling) {
                    open_with_agent -= 1;
                }
                let (next, effects) = turn.on(input);
                for effect in effects {
                    prop_assert!(!dead);
                    match effect {
                        TurnEffect::AppendStarted => {
                            appended = true;
                            open_for_clients += 1;
                        }
                        TurnEffect::AppendStartedByAgent => {
                            prop_assert_eq!(open_with_agent, 0);
                            open_for_clients += 1;
                        }
                        TurnEffect::Dispatch => {
                            prop_assert!(std::mem::take(&mut appended) && turn != Turn::Own);
                            open_with_agent += 1;
                        }
                        TurnEffect::AppendEndedAsMarked | TurnEffect::AppendEndedAsQuiet => {
                            prop_assert!(turn == Turn::Own && open_for_clients == 1);
                            open_for_clients -= 1;
                        }
                        TurnEffect::AppendEndedAsAnswered
                        | TurnEffect::AppendEndedAsCancelled
                        | TurnEffect::AppendEndedAsInterrupted => {
                            appended = false;
                            prop_assert!(open_for_clients == 1);
                            open_for_clients -= 1;
                        }
                        TurnEffect::Die => {
                            prop_assert_eq!(open_with_agent, 1);
                            dead = true;
                        }
                        TurnEffect::SendCancel
                        | TurnEffect::StartGrace
                        | TurnEffect::StartHush
                        | TurnEffect::Settle
                        | TurnEffect::HoldPrompt
                        | TurnEffect::RefusePrompt => {}
                    }
                }
                turn = next;
                prop_assert!(open_with_agent <= 1 && open_for_clients <= 1);
                prop_assert_eq!(turn.is_active(), open_for_clients == 1);
            }
        }
    }
}
