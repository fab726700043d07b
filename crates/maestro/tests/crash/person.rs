//! A person at a session: prompts, decides, renames, cancels, and notes in the ledger what was acknowledged and shown.

use crate::{Failure, dice::Dice, ledger::Ledger};
use maestro_protocol::ReducedState;
use maestro_testkit::{Answer, Door, DoorError, Watch, WatchError};
use serde_json::{Value, json};
use std::{cell::Cell, time::Duration};
use tokio::sync::watch;

/// What anything may take on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_mins(1);

/// What people and the killer of the daemon share.
pub(crate) struct Scene {
    pub(crate) door: Door,
    /// Counts what people see and are told, so that the killer can choose its moment by it.
    beats: watch::Sender<u64>,
    /// The daemon is being ended: from here on connections break, and answers may be refusals.
    ending: Cell<bool>,
}

impl Scene {
    pub(crate) fn new(door: Door) -> Self {
        Self { door, beats: watch::Sender::new(0), ending: Cell::new(false) }
    }

    pub(crate) fn beats(&self) -> watch::Receiver<u64> {
        self.beats.subscribe()
    }

    pub(crate) fn end(&self) {
        self.ending.set(true);
    }

    fn beat(&self) {
        self.beats.send_modify(|beats| *beats += 1);
    }
}

/// Why a person stops.
enum Stop {
    /// The daemon is gone, or says that it is going.
    Gone,
    Failed(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Lives at the session until the daemon is gone.
pub(crate) async fn live(scene: &Scene, ledger: &mut Ledger, name: &str, dice: Dice) -> Result<(), Failure> {
    let mut person = Person { scene, ledger, name, dice, said: 0, cancels: false };
    person.cancels = person.dice.one_in(3);
    match person.sit().await {
        Ok(never) => match never {},
        Err(Stop::Gone) if scene.ending.get() => Ok(()),
        Err(Stop::Gone) => Err("the daemon left without being told to".into()),
        Err(Stop::Failed(failure)) => Err(failure),
    }
}

struct Person<'a> {
    scene: &'a Scene,
    ledger: &'a mut Ledger,
    name: &'a str,
    dice: Dice,
    said: u32,
    /// Whether this person cancels turns; then a decision may come to nothing.
    cancels: bool,
}

impl Person<'_> {
    async fn sit(&mut self) -> Result<std::convert::Infallible, Stop> {
        let mut watch = self.scene.watch(&self.ledger.id).await?;
        self.ledger.look_at_snapshot(&watch)?;
        loop {
            if self.dice.one_in(4) {
                self.rename().await?;
            }
            self.prompt().await?;
            let before = watch.state.turn.last_end.clone();
            loop {
                let asked = |state: &ReducedState| state.pending_approval.is_some();
                let over = |state: &ReducedState| !state.turn.active && state.turn.last_end != before;
                self.follow(&mut watch, |state| asked(state) || over(state)).await?;
                if !asked(&watch.state) {
                    break;
                }
                self.answer(&mut watch).await?;
            }
        }
    }

    /// Takes in frames until the state is as wished, and notes what the socket showed, in the end too.
    async fn follow(
        &mut self,
        watch: &mut Watch,
        wished: impl Fn(&ReducedState) -> bool,
    ) -> Result<(), Stop> {
        let scene = self.scene;
        let followed = watch.until(LIMIT, "the next thing to do", |watch| {
            scene.beat();
            wished(&watch.state)
        });
        let followed = followed.await;
        self.ledger.see(watch);
        followed.or_else(|error| self.scene.excuse_watch(error))
    }

    async fn prompt(&mut self) -> Result<(), Stop> {
        self.said += 1;
        let text = format!("{}-{}", self.name, self.said);
        let answer = self.scene.told(self.scene.door.prompt(&self.ledger.id, &text).await, 202)?;
        drop(answer);
        self.ledger.prompts.push(text);
        Ok(())
    }

    async fn rename(&mut self) -> Result<(), Stop> {
        self.said += 1;
        let title = format!("{} named {}", self.name, self.said);
        self.ledger.titles_tried.push(title.clone());
        let path = format!("/api/sessions/{}", self.ledger.id);
        let answer = self.scene.told(self.scene.door.patch(&path, &json!({"title": title})).await, 200)?;
        if answer.json()["title"] != *title {
            return Err(Stop::Failed(format!("renamed to {title}, but {}", answer.text()).into()));
        }
        self.ledger.title = Some(title);
        self.ledger.titles_tried.clear();
        self.ledger.renames += 1;
        Ok(())
    }

    /// Decides the live approval, or cancels the turn, then waits until it is settled.
    async fn answer(&mut self, watch: &mut Watch) -> Result<(), Stop> {
        let Some(pending) = watch.state.pending_approval.clone() else { return Ok(()) };
        if self.cancels && self.dice.one_in(2) {
            drop(self.scene.told(self.scene.door.cancel(&self.ledger.id).await, 202)?);
        } else {
            let decision: Value = (*self.dice.pick(&["AllowOnce", "AllowForSession", "Deny"])).into();
            let nonce = pending.nonce.map(|nonce| nonce.to_string()).unwrap_or_default();
            let answer = self.scene.door.decide(&self.ledger.id, &nonce, decision.clone()).await;
            drop(self.scene.told(answer, 204)?);
            self.ledger.decisions.insert(pending.row_id.clone(), decision);
        }
        let row = pending.row_id;
        self.follow(watch, |state| {
            state.pending_approval.as_ref().is_none_or(|pending| pending.row_id != row)
        })
        .await
    }
}

impl Scene {
    async fn watch(&self, id: &str) -> Result<Watch, Stop> {
        match Watch::open(&self.door, id).await {
            Ok(watch) => Ok(watch),
            Err(error) => self.excuse_watch(error).and(Err(Stop::Gone)),
        }
    }

    /// An answer with this status. Another one, or none, is the end if the daemon is being ended, else a failure.
    fn told(&self, answer: Result<Answer, DoorError>, status: u16) -> Result<Answer, Stop> {
        match answer {
            Ok(answer) if answer.status.as_u16() == status => {
                self.beat();
                Ok(answer)
            }
            Ok(_) if self.ending.get() => Err(Stop::Gone),
            Ok(answer) => {
                Err(Stop::Failed(format!("not {status}, but {} {}", answer.status, answer.text()).into()))
            }
            Err(DoorError::TimedOut) => Err(Stop::Failed(DoorError::TimedOut.into())),
            Err(_) if self.ending.get() => Err(Stop::Gone),
            Err(error) => Err(Stop::Failed(error.into())),
        }
    }

    fn excuse_watch(&self, error: WatchError) -> Result<(), Stop> {
        match error {
            WatchError::Frame { .. } | WatchError::TimedOut { .. } => Err(Stop::Failed(error.into())),
            WatchError::Closed(_) | WatchError::Door(_) if self.ending.get() => Err(Stop::Gone),
            other => Err(Stop::Failed(other.into())),
        }
    }
}
