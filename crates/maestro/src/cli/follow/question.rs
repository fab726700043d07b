//! The questions of a followed turn: at most one is open, as at most one approval is live.

use crate::{
    cli::{CommandError, Context, print_err},
    render::approval,
    terminal::{Paint, TerminalInput, clean_line},
};
use maestro_client::{Client, ClientError, TranscriptModel};
use maestro_protocol::{Decision, Nonce, PendingApproval, ProblemCode, ReducedState, RowId, Session};
use std::io;

/// Asks a person at the terminal, and sends the answers.
pub(super) struct Questions<'a> {
    client: &'a Client,
    session: Session,
    paint: Paint,
    asking: Asking,
    /// `None` without a terminal, or once the person ended the input.
    input: Option<TerminalInput>,
}

enum Asking {
    Nothing,
    /// It waits for a key.
    Open(PendingApproval),
    /// It cannot be answered here, or was, and is not yet settled.
    Waiting(RowId),
}

impl<'a> Questions<'a> {
    pub(super) fn new(
        context: &Context,
        client: &'a Client,
        session: &Session,
    ) -> Result<Self, CommandError> {
        let input =
            TerminalInput::open().map_err(|error| CommandError::internal("opening the terminal", error))?;
        let paint = context.terminal.err_paint;
        Ok(Self { client, session: session.clone(), paint, asking: Asking::Nothing, input })
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.asking, Asking::Open(_))
    }

    /// The next line that is typed as an answer; nothing while no question is open. Cancel safe.
    pub(super) async fn typed(&mut self) -> io::Result<Option<String>> {
        match (&self.asking, &mut self.input) {
            (Asking::Open(_), Some(input)) => input.line().await,
            (Asking::Nothing | Asking::Waiting(_), _) | (Asking::Open(_), None) => {
                std::future::pending().await
            }
        }
    }

    /// Takes back a question that is settled.
    pub(super) fn withdraw_settled(&mut self, state: &ReducedState) -> Result<(), CommandError> {
        let asked = match &self.asking {
            Asking::Nothing => return Ok(()),
            Asking::Open(pending) => &pending.row_id,
            Asking::Waiting(row_id) => row_id,
        };
        if state.pending_approval.as_ref().is_some_and(|pending| pending.row_id == *asked) {
            return Ok(());
        }
        if let Asking::Open(_) = std::mem::replace(&mut self.asking, Asking::Nothing) {
            print_err("\n(this needs no answer any more)\n")?;
        }
        Ok(())
    }

    /// The approval that is live and was not asked yet.
    pub(super) fn unasked(&self, state: &ReducedState) -> Option<PendingApproval> {
        state.pending_approval.clone().filter(|_| matches!(self.asking, Asking::Nothing))
    }

    /// Shows a question; asks for a key where there is a terminal, else says how to answer.
    pub(super) fn ask(
        &mut self,
        model: &TranscriptModel,
        pending: PendingApproval,
    ) -> Result<(), CommandError> {
        let question = approval::question_of(model, &self.session.cwd, &pending, self.paint);
        print_err(&format!("\n{question}"))?;
        match &self.input {
            Some(input) if pending.nonce.is_some() => {
                let forgotten = input.forget_typed();
                forgotten.map_err(|error| CommandError::internal("clearing what was typed", error))?;
                self.asking = Asking::Open(pending);
                self.show_keys()
            }
            Some(_) | None => self.leave_to_others(pending),
        }
    }

    /// Shows what can be typed, if a question is open.
    pub(super) fn show_keys(&self) -> Result<(), CommandError> {
        match &self.asking {
            Asking::Open(pending) => print_err(&approval::keys(pending, self.paint)),
            Asking::Nothing | Asking::Waiting(_) => Ok(()),
        }
    }

    /// Takes what was typed, `None` at the end of the input.
    pub(super) async fn handle_typed(&mut self, typed: Option<String>) -> Result<(), CommandError> {
        let Asking::Open(pending) = &self.asking else { return Ok(()) };
        let pending = pending.clone();
        let Some(typed) = typed else {
            self.input = None;
            print_err("\n")?;
            return self.leave_to_others(pending);
        };
        match (approval::read_answer(&typed, &pending), pending.nonce) {
            (Ok(decision), Some(nonce)) => self.answer(pending.row_id, nonce, decision).await,
            (Ok(_), None) => self.leave_to_others(pending),
            (Err(words), _) => self.ask_again(&words),
        }
    }

    async fn answer(&mut self, row_id: RowId, nonce: Nonce, decision: Decision) -> Result<(), CommandError> {
        match self.client.answer(self.session.id, nonce, decision).await {
            Ok(()) => {
                self.asking = Asking::Waiting(row_id);
                Ok(())
            }
            Err(error) if error.code() == Some(ProblemCode::DecisionNotOffered) => {
                self.ask_again(&error.to_string())
            }
            // Who is away may be back in a moment, and what is then live is asked again.
            Err(
                error @ (ClientError::Unreachable { .. }
                | ClientError::BrokenOff { .. }
                | ClientError::TimedOut { .. }),
            ) => self.ask_again(&format!("{error}; nothing was decided that you know of: answer again")),
            // The session's death comes as an event of its own and ends the following.
            Err(error) if error.code() == Some(ProblemCode::NotStructured) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn ask_again(&self, why: &str) -> Result<(), CommandError> {
        print_err(&format!("{}\n", clean_line(why)))?;
        self.show_keys()
    }

    fn leave_to_others(&mut self, pending: PendingApproval) -> Result<(), CommandError> {
        print_err(&approval::commands(self.session.id, &pending))?;
        self.asking = Asking::Waiting(pending.row_id);
        Ok(())
    }
}
