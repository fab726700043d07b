//! Following a turn to its end: prints what comes, asks for approvals, and passes a cancel on.

mod question;
mod watch;

use super::{CommandError, Context, patience::Patience, print, print_err, print_json, say};
use crate::render::{self, stream::RowStream};
use maestro_client::{Applied, Client, LiveFrame, StructuredEvent, StructuredStream, TranscriptModel};
use maestro_protocol::{
    Deltas, EndReason, LastEnd, ProblemCode, PromptBody, RowId, Session, SessionId, Status, TranscriptRow,
    TurnState, WatchQuery,
};
use question::Questions;
use serde::Serialize;
use std::{io, process::ExitCode, time::Duration};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::Instant,
};
use watch::{TurnWatch, exit_code};

const STOPPED_SHORT: u8 = 10;
const CANCELLED: u8 = 11;
const FAILED: u8 = 12;
const DIED: u8 = 13;
const LEFT: u8 = 130;

/// How long the end of a session is waited for after the end of a turn that it took with it: its processes are ended
/// first.
const DEATH_LIMIT: Duration = Duration::from_secs(10);

/// How long a session may be starting: a little longer than the daemon gives a handshake (CONTRACT §3.2).
const START_LIMIT: Duration = Duration::from_secs(75);
const START_POLL: Duration = Duration::from_millis(50);

/// How many rows from before a prompt are read where they are not printed: enough for what still changes, such as a
/// request that waits.
const EARLIER_ROWS: u64 = 64;

/// How often in a row a transcript that does not fit is begun anew: more is a defect and not a loss.
const GAPS_MAX: u32 = 3;

/// What is done with the rows that were there before the prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EarlierRows {
    /// A new session's: printed, since nobody has seen them.
    Print,
    /// An older session's: left out.
    Skip,
}

/// How a followed turn ended.
enum Ending {
    Turn(LastEnd),
    /// The session died, perhaps after it had ended the turn.
    Died(Box<Session>, Option<LastEnd>),
    /// The person left; the turn goes on.
    Left,
}

/// The last line of `--json`.
#[derive(Serialize)]
#[serde(tag = "type", rename = "Result")]
struct ResultLine<'a> {
    session_id: SessionId,
    /// How the turn ended; `null` if it did not.
    turn: Option<&'a LastEnd>,
    exit_code: u8,
}

/// What happens next.
enum Next {
    Event(StructuredEvent),
    Typed(Option<String>),
    Interrupt,
}

/// Ctrl-C, from now on a wish and no longer the end of the program.
pub(super) fn interrupts() -> Result<Signal, CommandError> {
    signal(SignalKind::interrupt()).map_err(|error| CommandError::internal("listening to Ctrl-C", error))
}

/// Waits until a session is no longer `Starting`.
pub(super) async fn until_started(client: &Client, mut session: Session) -> Result<Session, CommandError> {
    let (start, mut patience) = (Instant::now(), Patience::default());
    let deadline = start + START_LIMIT;
    while session.status == Status::Starting {
        if patience.is_over(start.elapsed()) {
            say(&format!("waiting for {} to start…", session.agent))?;
        }
        if Instant::now() >= deadline {
            let error = CommandError::user(format!("session {} is still starting", session.id));
            return Err(error.hint(format!("look again with: maestro show {}", session.id)));
        }
        tokio::time::sleep(START_POLL).await;
        session = client.session(session.id).await?;
    }
    Ok(session)
}

/// What a dead session says about its end.
pub(super) fn why_dead(session: &Session) -> String {
    let status = render::session::status_words(session);
    match &session.activity_detail {
        Some(detail) => format!("session {} is {status}: {}", session.id, render::session::detail(detail)),
        None => format!("session {} is {status}", session.id),
    }
}

/// Tells that a session died, and what is kept of it; the exit code of a turn that it took with it.
pub(super) async fn died(
    context: &Context,
    client: &Client,
    session: &Session,
    turn: Option<&LastEnd>,
) -> Result<ExitCode, CommandError> {
    say(&format!("error: {}", why_dead(session)))?;
    // What is missing, and how to install it, stands in the error.
    let then = if session.end_reason == Some(EndReason::AdapterMissing) { "then " } else { "" };
    say(&format!("hint: {then}bring it back with: maestro restart {}", session.id))?;
    if let Some(words) = render::queue::held(&client.queue(session.id).await?, session.id) {
        say(&format!("hint: {words}"))?;
    }
    result(context, session.id, turn, DIED)
}

/// The end for a person who left.
pub(super) fn left(context: &Context, id: SessionId) -> Result<ExitCode, CommandError> {
    result(context, id, None, LEFT)
}

/// The exit code of a followed turn; with `--json` the last line, too.
fn result(
    context: &Context,
    session_id: SessionId,
    turn: Option<&LastEnd>,
    exit_code: u8,
) -> Result<ExitCode, CommandError> {
    if context.json {
        print_json(&ResultLine { session_id, turn, exit_code })?;
    }
    Ok(ExitCode::from(exit_code))
}

/// A failure of what had begun to print lines of JSON: the last one tells its exit code.
pub(super) fn closing<T>(
    context: &Context,
    id: SessionId,
    done: Result<T, CommandError>,
) -> Result<T, CommandError> {
    if let Err(error) = &done {
        result(context, id, None, error.exit_code())?;
    }
    done
}

/// Sends a prompt and follows its turn to the end.
pub(super) async fn turn(
    context: &Context,
    client: &Client,
    session: Session,
    prompt: PromptBody,
    interrupt: Signal,
) -> Result<ExitCode, CommandError> {
    let id = session.id;
    let mut follow = Follow::open(context, client, session, EarlierRows::Skip, interrupt).await?;
    let followed = async {
        follow.read_snapshot(EarlierRows::Skip).await?;
        client.prompt(id, &prompt).await?;
        let ending = follow.reach_end().await?;
        follow.hear_of_death(ending).await
    };
    let ending = closing(context, id, followed.await)?;
    follow.tell_ending(&ending).await
}

/// Follows the turn of the prompt that a session was created with to the end. It may have begun already, and even
/// ended.
pub(super) async fn first_turn(
    context: &Context,
    client: &Client,
    session: Session,
    interrupt: Signal,
) -> Result<ExitCode, CommandError> {
    let id = session.id;
    let opened = Follow::open(context, client, session, EarlierRows::Print, interrupt).await;
    // It may have died since it was seen to run.
    let now = client.session(id).await?;
    let mut follow = match opened {
        Err(_dead) if now.status == Status::Dead => return died(context, client, &now, None).await,
        opened => closing(context, id, opened)?,
    };
    let followed = async {
        follow.read_snapshot(EarlierRows::Print).await?;
        follow.watch = TurnWatch::new(&TurnState::default());
        let ending = if let Some(end) = follow.watch.observe(&follow.model.state().turn) {
            Ending::Turn(end)
        } else {
            follow.ask_pending()?;
            follow.reach_end().await?
        };
        follow.hear_of_death(ending).await
    };
    let ending = closing(context, id, followed.await)?;
    follow.tell_ending(&ending).await
}

struct Follow<'a> {
    context: &'a Context,
    client: &'a Client,
    session: Session,
    stream: StructuredStream,
    model: TranscriptModel,
    /// The oldest row that was read before the prompt: what is older is not printed.
    first_row: Option<RowId>,
    /// How often in a row a frame did not fit.
    gaps: u32,
    rows: RowStream,
    watch: TurnWatch,
    questions: Questions<'a>,
    interrupt: Signal,
    cancelled: bool,
}

impl<'a> Follow<'a> {
    async fn open(
        context: &'a Context,
        client: &'a Client,
        session: Session,
        earlier: EarlierRows,
        interrupt: Signal,
    ) -> Result<Self, CommandError> {
        // As JSON whole rows are printed: whoever reads them needs to keep nothing.
        let deltas = if context.json { Deltas::Plain } else { Deltas::Text };
        let tail = (!context.json && earlier == EarlierRows::Skip).then_some(EARLIER_ROWS);
        let mut stream = client.structured(session.id, WatchQuery { deltas: Some(deltas), tail }).await?;
        // After a loss nothing that was missed may be left out.
        stream.set_tail(None);
        let model = TranscriptModel::default();
        let questions = Questions::new(context, client, &session)?;
        Ok(Self {
            rows: RowStream::new(context.terminal.out_paint),
            watch: TurnWatch::new(&model.state().turn),
            cancelled: false,
            first_row: None,
            gaps: 0,
            context,
            client,
            session,
            stream,
            model,
            questions,
            interrupt,
        })
    }

    /// Reads what was there before the prompt.
    async fn read_snapshot(&mut self, earlier: EarlierRows) -> Result<(), CommandError> {
        loop {
            match self.stream.next().await? {
                StructuredEvent::Frame(frame) => {
                    if self.apply(*frame)? == Some(Applied::State) {
                        break;
                    }
                }
                StructuredEvent::Reconnecting => {}
                StructuredEvent::Dead => return Err(CommandError::user(why_dead(&self.facts().await?))),
            }
        }
        self.watch = TurnWatch::new(&self.model.state().turn);
        self.first_row = self.model.rows().first().map(|row| row.id.clone());
        for row in self.model.rows() {
            match earlier {
                EarlierRows::Skip => self.rows.skip(row),
                EarlierRows::Print if self.context.json => {}
                EarlierRows::Print => print(&self.rows.row(row))?,
            }
        }
        Ok(())
    }

    async fn reach_end(&mut self) -> Result<Ending, CommandError> {
        loop {
            let ending = match self.next().await? {
                Next::Event(StructuredEvent::Frame(frame)) => self.handle_frame(*frame)?.map(Ending::Turn),
                Next::Event(StructuredEvent::Reconnecting) => {
                    self.say("the connection to the daemon is lost; trying again")?;
                    None
                }
                Next::Event(StructuredEvent::Dead) => Some(Ending::Died(Box::new(self.facts().await?), None)),
                Next::Typed(typed) => {
                    self.questions.handle_typed(typed).await?;
                    None
                }
                Next::Interrupt => self.handle_interrupt().await?,
            };
            if let Some(ending) = ending {
                return Ok(ending);
            }
        }
    }

    /// A turn that was interrupted is the first word of its session's death: waits for the rest, which says why.
    async fn hear_of_death(&mut self, ending: Ending) -> Result<Ending, CommandError> {
        let Ending::Turn(end) = ending else { return Ok(ending) };
        if exit_code(&end.reason) != DIED {
            return Ok(Ending::Turn(end));
        }
        let deadline = Instant::now() + DEATH_LIMIT;
        while let Ok(Ok(event)) = tokio::time::timeout_at(deadline, self.stream.next()).await {
            match event {
                StructuredEvent::Frame(frame) => {
                    self.handle_frame(*frame)?;
                }
                StructuredEvent::Reconnecting => break,
                StructuredEvent::Dead => return Ok(Ending::Died(Box::new(self.facts().await?), Some(end))),
            }
        }
        Ok(Ending::Turn(end))
    }

    /// The person's wish comes before the agent's news, and its news before what is typed: a question that is settled
    /// meanwhile must not be answered.
    async fn next(&mut self) -> Result<Next, CommandError> {
        let failed = |error: io::Error| CommandError::internal("reading the terminal", error);
        tokio::select! {
            biased;
            _ = self.interrupt.recv() => Ok(Next::Interrupt),
            event = self.stream.next() => Ok(Next::Event(event?)),
            typed = self.questions.typed() => typed.map(Next::Typed).map_err(failed),
        }
    }

    /// Takes a frame and prints it, if it is to be printed as JSON. One that does not fit is `None`: a snapshot comes
    /// next.
    fn apply(&mut self, frame: LiveFrame) -> Result<Option<Applied>, CommandError> {
        if self.context.json {
            print_json(&frame)?;
        }
        match self.model.apply(frame) {
            Ok(applied) => {
                self.gaps = if matches!(applied, Applied::Update(_)) { 0 } else { self.gaps };
                Ok(Some(applied))
            }
            Err(gap) if self.gaps >= GAPS_MAX => Err(CommandError::internal("reading the transcript", gap)),
            Err(_gap) => {
                self.gaps += 1;
                self.stream.resync();
                Ok(None)
            }
        }
    }

    fn handle_frame(&mut self, frame: LiveFrame) -> Result<Option<LastEnd>, CommandError> {
        let Some(applied) = self.apply(frame)? else { return Ok(None) };
        let has_state = applied != Applied::Snapshot;
        if has_state {
            self.questions.withdraw_settled(self.model.state())?;
        }
        if !self.context.json {
            let changed: Vec<&TranscriptRow> = match &applied {
                Applied::Snapshot => rows_from(&self.model, self.first_row.as_ref()).iter().collect(),
                Applied::State => Vec::new(),
                Applied::Update(ids) => ids.iter().filter_map(|id| self.model.row(id)).collect(),
            };
            let text: String = changed.into_iter().map(|row| self.rows.row(row)).collect();
            self.print_rows(&text)?;
        }
        if !has_state {
            // Its state comes with the next frame.
            return Ok(None);
        }
        self.ask_pending()?;
        Ok(self.watch.observe(&self.model.state().turn))
    }

    fn ask_pending(&mut self) -> Result<(), CommandError> {
        if let Some(pending) = self.questions.unasked(self.model.state()) {
            print(&self.rows.end_line())?;
            self.questions.ask(&self.model, pending)?;
        }
        Ok(())
    }

    /// Prints rows, around a question that is open.
    fn print_rows(&mut self, text: &str) -> Result<(), CommandError> {
        if text.is_empty() || !self.questions.is_open() {
            return print(text);
        }
        print_err("\n")?;
        print(text)?;
        print(&self.rows.end_line())?;
        self.questions.show_keys()
    }

    /// The first Ctrl-C cancels the turn, the second leaves.
    async fn handle_interrupt(&mut self) -> Result<Option<Ending>, CommandError> {
        if self.cancelled {
            return Ok(Some(Ending::Left));
        }
        self.cancelled = true;
        self.say("cancelling the turn; Ctrl-C again leaves without waiting")?;
        tokio::select! {
            biased;
            _ = self.interrupt.recv() => Ok(Some(Ending::Left)),
            cancelled = self.client.cancel(self.session.id) => match cancelled {
                Err(error) if error.code() != Some(ProblemCode::NotStructured) => Err(error.into()),
                Ok(()) | Err(_) => Ok(None),
            },
        }
    }

    async fn facts(&self) -> Result<Session, CommandError> {
        Ok(self.client.session(self.session.id).await?)
    }

    async fn tell_ending(&mut self, ending: &Ending) -> Result<ExitCode, CommandError> {
        let id = self.session.id;
        let end = self.rows.end_line();
        print(&end)?;
        let end = match ending {
            Ending::Died(session, turn) => {
                return died(self.context, self.client, session, turn.as_ref()).await;
            }
            Ending::Left => {
                self.say(&format!("left; the session goes on. See it with: maestro show {id}"))?;
                return left(self.context, id);
            }
            Ending::Turn(end) => end,
        };
        let exit_code = exit_code(&end.reason);
        if self.context.json {
            return result(self.context, id, Some(end), exit_code);
        }
        let paint = self.context.terminal.err_paint;
        let mut text = "\n".to_owned();
        if exit_code != 0 {
            text += &render::usage::turn_end(end, paint);
        }
        text += &render::usage::line(self.model.state(), paint).unwrap_or_default();
        let stays = if exit_code == DIED {
            format!("the session was interrupted: maestro show {id} says what became of it")
        } else {
            format!("the session stays: maestro prompt {id} \"…\" goes on, maestro show {id} shows it")
        };
        text += &(paint.dim(&stays) + "\n");
        print_err(&text)?;
        if self.model.state().queue.as_ref().is_some_and(|queue| !queue.items.is_empty())
            && let Some(words) = render::queue::held(&self.client.queue(id).await?, id)
        {
            say(&words)?;
        }
        Ok(ExitCode::from(exit_code))
    }

    /// Says something on a line of its own.
    fn say(&mut self, words: &str) -> Result<(), CommandError> {
        let end = self.rows.end_line();
        print(&end)?;
        if self.questions.is_open() {
            print_err("\n")?;
        }
        say(words)
    }
}

/// The rows from this one on; all if it is not there.
fn rows_from<'a>(model: &'a TranscriptModel, first: Option<&RowId>) -> &'a [TranscriptRow] {
    let rows = model.rows();
    let place = first.and_then(|id| rows.iter().position(|row| row.id == *id));
    &rows[place.unwrap_or(0)..]
}
