//! A data directory and its sessions over several crashes.

use crate::{
    Failure,
    dice::Dice,
    ledger::Ledger,
    person::{LIMIT, Scene, live},
    processes::{as_pid, is_below, kill_guards, wait_until_gone},
    script,
    tally::Tally,
};
use futures_util::future::join_all;
use maestro_protocol::{EndReason, Session, SessionList, Status};
use maestro_testkit::{Door, TestDaemon, live_processes_where, wait_until_blocking};
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use std::{
    fs, io,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};
use tokio::runtime::Runtime;

const AGENT: &str = "scripted";

/// A variable of every process of these tests but guards, whose environment is their marker alone.
const MARK: &str = "CRASH_ROUNDS_OF";

/// More than are recovered at once would take longer and show no more.
const SESSIONS_MAX: usize = 3;

/// At most so many things are seen or acknowledged before a kill.
const BEATS_MAX: u64 = 60;

/// A kill comes after this even if the beats do not.
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) fn mark() -> String {
    format!("{MARK}={}", std::process::id())
}

/// When the daemon is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    /// While people work.
    Work,
    /// While people work, and all guards with it.
    WorkAndGuards,
    /// While sessions are created and restarted.
    Starting,
    /// While it shuts down gracefully.
    Shutdown,
    /// While it recovers what a graceful shutdown left.
    Recovery,
}

const MOMENTS: [Moment; 12] = {
    use Moment as M;
    [
        M::Work,
        M::Work,
        M::Work,
        M::Work,
        M::Work,
        M::WorkAndGuards,
        M::WorkAndGuards,
        M::Starting,
        M::Starting,
        M::Starting,
        M::Shutdown,
        M::Recovery,
    ]
};

/// What the next daemon may make of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Crashed,
    /// Its marker is there.
    Resumed,
    /// A shutdown that was not finished may have ended it before the kill.
    CrashedOrShutDown,
}

pub(crate) struct Story {
    daemon: TestDaemon,
    runtime: Runtime,
    dice: Dice,
    ledgers: Vec<Ledger>,
    fates: Vec<Fate>,
    round: u64,
    moment: Moment,
    /// The guards were killed with the last daemon: what they guarded lives until the next one sweeps.
    guards_killed: bool,
    tally: Tally,
}

impl Story {
    pub(crate) fn begin(mut dice: Dice) -> Result<Self, Failure> {
        let daemon = TestDaemon::builder(env!("CARGO_BIN_EXE_maestro"))
            .scripted(AGENT, script::agent(&mut dice))
            .agent_field(AGENT, "cancel_grace_ms", 5000)
            .agent_field(AGENT, "env_names", vec![MARK])
            .env(MARK, &std::process::id().to_string())
            .prepare()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self {
            daemon,
            runtime,
            dice,
            ledgers: Vec::new(),
            fates: Vec::new(),
            round: 0,
            moment: Moment::Work,
            guards_killed: false,
            tally: Tally::default(),
        })
    }

    pub(crate) fn tell(&mut self, rounds: u64) -> Result<(), Failure> {
        for round in 0..rounds {
            self.round = round;
            self.moment = if round == 0 { Moment::Work } else { *self.dice.pick(&MOMENTS) };
            self.come_back()?;
            match self.moment {
                Moment::Work | Moment::WorkAndGuards => self.work_and_kill()?,
                Moment::Starting => self.start_and_kill()?,
                Moment::Shutdown => self.shut_down_and_kill()?,
                Moment::Recovery => self.recover_and_kill()?,
            }
            self.look_at_rest()?;
            while self.dice.one_in(4) {
                self.start_daemon_and_kill()?;
                self.look_at_rest()?;
            }
            self.tally.rounds += 1;
        }
        self.moment = Moment::Work;
        self.come_back()?;
        let left = wait_until_blocking(LIMIT, "the end of the daemon", || self.daemon.kill().is_ok());
        left?;
        self.wait_for_the_end_of_all()?;
        Ok(())
    }

    pub(crate) fn tally(&self) -> Tally {
        let count = |what: fn(&Ledger) -> usize| -> u64 {
            self.ledgers.iter().map(what).map(|count| u64::try_from(count).unwrap_or(u64::MAX)).sum()
        };
        Tally {
            sessions: count(|_| 1),
            prompts: count(|ledger| ledger.prompts.len()),
            decisions: count(|ledger| ledger.decisions.len()),
            renames: count(|ledger| ledger.renames),
            lines: self.ledgers.iter().map(|ledger| ledger.compared).sum(),
            torn: count(Ledger::torn),
            ..self.tally
        }
    }

    /// For the message of a failure.
    pub(crate) fn describe(&self) -> String {
        format!(
            "in round {} ({:?}, {} kills so far); the last daemon printed:\n{}",
            self.round,
            self.moment,
            self.tally.kills,
            self.daemon.last_log()
        )
    }

    fn door(&self) -> Door {
        self.daemon.door()
    }

    fn sessions(&self) -> PathBuf {
        self.daemon.data().join("sessions")
    }

    // === The next daemon ===

    /// Starts the next daemon, holds it to what the one before left, and, but for rounds that do that themselves,
    /// brings all sessions back.
    fn come_back(&mut self) -> Result<(), Failure> {
        if self.dice.one_in(2) && !self.guards_killed {
            self.wait_for_the_end_of_all()?;
        }
        self.guards_killed = false;
        let unfinished = self.unfinished()?;
        self.daemon.start()?;
        self.wait_for_the_end_of_all_before()?;
        let log = self.daemon.last_log();
        if log.contains("cannot be read") || log.contains("panicked") {
            return Err("the start is not clean".into());
        }
        // Its own unfinished ones have other names.
        let left: Vec<_> = self.unfinished()?.into_iter().filter(|name| unfinished.contains(name)).collect();
        if !left.is_empty() {
            return Err(format!("{left:?} of the daemon before are left").into());
        }
        let list: SessionList = self.runtime.block_on(self.door().get("/api/sessions"))?.expect(200).read();
        self.hold_list(&list.sessions)?;
        if self.moment == Moment::Starting {
            return Ok(());
        }
        self.bring_back_all()
    }

    /// The files that were being written.
    fn unfinished(&self) -> io::Result<Vec<String>> {
        let ends = |name: &String| name.rsplit_once('.').is_some_and(|(_, end)| end == "tmp");
        Ok(names_in(&self.sessions())?.into_iter().filter(ends).collect())
    }

    fn hold_list(&mut self, sessions: &[Session]) -> Result<(), Failure> {
        for (ledger, fate) in self.ledgers.iter().zip(&self.fates) {
            let session = sessions.iter().find(|session| session.id.to_string() == ledger.id);
            let session = session.ok_or_else(|| format!("session {} is lost", ledger.id))?;
            let fits = match (fate, session.status) {
                (Fate::Resumed, status) => status != Status::Dead,
                (_, Status::Starting | Status::Running) => false,
                (Fate::Crashed, Status::Dead) => session.end_reason == Some(EndReason::DaemonCrash),
                (Fate::CrashedOrShutDown, Status::Dead) => {
                    matches!(session.end_reason, Some(EndReason::DaemonCrash | EndReason::DaemonShutdown))
                }
            };
            if !fits {
                return Err(format!("should be {fate:?}: {session:#?}").into());
            }
        }
        // A creation that was not answered may have come to a session.
        for session in sessions {
            let id = session.id.to_string();
            if !self.ledgers.iter().any(|ledger| ledger.id == id) {
                self.ledgers.push(Ledger::of(id));
            }
        }
        Ok(())
    }

    fn bring_back_all(&mut self) -> Result<(), Failure> {
        let door = self.door();
        let (sessions, work) = (self.sessions(), self.daemon.work());
        let create = self.ledgers.is_empty() || (self.ledgers.len() < SESSIONS_MAX && self.dice.one_in(3));
        let ledgers = &mut self.ledgers;
        self.runtime.block_on(async {
            if create {
                let session = door.create_session(AGENT, &work, json!({})).await?;
                ledgers.push(Ledger::of(session.id.to_string()));
            }
            for ledger in ledgers.iter() {
                if door.session(&ledger.id).await?.status == Status::Dead {
                    let path = format!("/api/sessions/{}/restart", ledger.id);
                    door.post(&path, &json!({})).await?.expect(202);
                }
            }
            for ledger in ledgers.iter_mut() {
                let session = door.running(&ledger.id, LIMIT).await?;
                if !ledger.is_closed(&sessions) {
                    return Err(
                        format!("the log of {} is open where its daemon was killed", ledger.id).into()
                    );
                }
                let known = |title: &String| *title == session.title;
                if ledger.title.is_some() && !ledger.title.iter().chain(&ledger.titles_tried).any(known) {
                    return Err(format!("{:?} was acknowledged: {session:#?}", ledger.title).into());
                }
                ledger.look_at_replay(&door).await?;
            }
            Ok(())
        })
    }

    // === The ways to its end ===

    fn work_and_kill(&mut self) -> Result<(), Failure> {
        let guards = self.moment == Moment::WorkAndGuards;
        self.guards_killed = guards;
        let guards_first = self.dice.one_in(2);
        let ids = self.ids();
        self.live_until(|daemon| {
            if guards && guards_first {
                kill_guards(&ids);
            }
            daemon.kill()?;
            if guards && !guards_first {
                kill_guards(&ids);
            }
            Ok(())
        })
    }

    fn shut_down_and_kill(&mut self) -> Result<(), Failure> {
        let moment = self.dice.moment(150);
        self.live_until(|daemon| {
            if let Some(pid) = daemon.pid().and_then(as_pid) {
                kill_process(pid, Signal::TERM)?;
            }
            thread::sleep(moment);
            daemon.kill()
        })
    }

    fn recover_and_kill(&mut self) -> Result<(), Failure> {
        self.live_until(|daemon| daemon.stop().map(drop))?;
        self.tally.kills -= 1;
        self.look_at_rest()?;
        self.start_daemon_and_kill()
    }

    /// People work until a number of things were seen, then comes `end`.
    fn live_until(&mut self, end: impl FnOnce(&mut TestDaemon) -> io::Result<()>) -> Result<(), Failure> {
        let scene = Scene::new(self.daemon.door());
        let target = self.dice.number(0..BEATS_MAX);
        let moment = self.dice.moment(3);
        let (round, dice, daemon) = (self.round, &mut self.dice, &mut self.daemon);
        let persons = self.ledgers.iter_mut().enumerate().map(|(number, ledger)| {
            let (scene, dice) = (&scene, dice.fork());
            async move { live(scene, ledger, &format!("p{round}.{number}"), dice).await }
        });
        let persons: Vec<_> = persons.collect();
        let mut beats = scene.beats();
        let ender = async {
            // Without the beats in time the end comes all the same: it may come at any moment.
            drop(tokio::time::timeout(PATIENCE, beats.wait_for(|beats| *beats >= target)).await);
            tokio::time::sleep(moment).await;
            scene.end();
            end(daemon)
        };
        let (ended, lived) = self.runtime.block_on(async { tokio::join!(ender, join_all(persons)) });
        ended?;
        lived.into_iter().collect::<Result<(), Failure>>()?;
        self.tally.kills += 1;
        Ok(())
    }

    /// Creates and restarts sessions, and kills the daemon somewhere in between.
    fn start_and_kill(&mut self) -> Result<(), Failure> {
        let (door, work) = (self.door(), self.daemon.work());
        let moment = self.dice.moment(150);
        let create = self.ledgers.len() < SESSIONS_MAX;
        let ids = self.ids();
        let daemon = &mut self.daemon;
        let body = json!({"view": "Structured", "agent": AGENT, "cwd": work});
        let (killed, created) = self.runtime.block_on(async {
            let ender = async {
                tokio::time::sleep(moment).await;
                daemon.kill()
            };
            let creation = async { if create { door.post("/api/sessions", &body).await.ok() } else { None } };
            let restarts = ids.iter().map(|id| {
                let (door, path) = (&door, format!("/api/sessions/{id}/restart"));
                async move { door.post(&path, &json!({})).await }
            });
            let (killed, created, _) = tokio::join!(ender, creation, join_all(restarts));
            (killed, created)
        });
        killed?;
        self.tally.kills += 1;
        if let Some(answer) = created {
            self.ledgers.push(Ledger::of(answer.expect(201).read::<Session>().id.to_string()));
        }
        Ok(())
    }

    /// Starts a daemon and kills it before, or soon after, it is ready.
    fn start_daemon_and_kill(&mut self) -> Result<(), Failure> {
        self.daemon.launch()?;
        thread::sleep(self.dice.moment(250));
        self.tally.kills_before_ready += u64::from(!self.daemon.last_log().contains("maestro is ready"));
        self.daemon.kill()?;
        self.tally.kills += 1;
        Ok(())
    }

    // === What is left ===

    /// Holds the files of a daemon that was killed to what is known.
    fn look_at_rest(&mut self) -> Result<(), Failure> {
        let sessions = self.sessions();
        let names = names_in(&sessions)?;
        for id in names.iter().filter_map(|name| name.strip_suffix(".json")) {
            let sidecar = fs::read(sessions.join(format!("{id}.json")))?;
            serde_json::from_slice::<Value>(&sidecar)
                .map_err(|error| format!("the sidecar of {id}: {error}"))?;
        }
        let before = std::mem::take(&mut self.fates);
        for (number, ledger) in self.ledgers.iter_mut().enumerate() {
            if !names.contains(&format!("{}.json", ledger.id)) {
                return Err(format!("the sidecar of {} is lost", ledger.id).into());
            }
            // A kill seldom cuts a line in the middle, so it is done by hand now and then.
            if self.dice.one_in(5) {
                ledger.tear_log(&sessions)?;
            }
            ledger.look_at_log(&sessions)?;
            let marked = names.contains(&format!("{}.recover", ledger.id));
            let shutting_down = self.moment == Moment::Shutdown;
            let fate = match (marked, before.get(number)) {
                (true, _) => Fate::Resumed,
                (false, Some(Fate::CrashedOrShutDown)) => Fate::CrashedOrShutDown,
                (false, _) if shutting_down => Fate::CrashedOrShutDown,
                (false, _) => Fate::Crashed,
            };
            self.fates.push(fate);
        }
        Ok(())
    }

    fn ids(&self) -> Vec<String> {
        self.ledgers.iter().map(|ledger| ledger.id.clone()).collect()
    }

    /// Waits until nothing runs in this story's place, guards included.
    fn wait_for_the_end_of_all(&self) -> Result<(), Failure> {
        wait_until_gone(|| self.processes())
    }

    /// The same, while the next daemon runs already.
    fn wait_for_the_end_of_all_before(&self) -> Result<(), Failure> {
        let now = self.daemon.pid();
        wait_until_gone(|| {
            let resumed = |pid: &u32| self.fates.contains(&Fate::Resumed) && is_below(*pid, now);
            self.processes().into_iter().filter(|pid| Some(*pid) != now && !resumed(pid)).collect()
        })
    }

    /// The processes of this story: by the home that daemon and agents have, and by the session that guards have.
    fn processes(&self) -> Vec<u32> {
        let home = format!("HOME={}", self.daemon.place().join("home").display());
        let sessions: Vec<String> = names_in(&self.sessions())
            .unwrap_or_default()
            .iter()
            .filter_map(|name| Some(format!("MAESTRO_SESSION={}", name.strip_suffix(".json")?)))
            .collect();
        live_processes_where(|entry| {
            entry == home.as_bytes() || sessions.iter().any(|session| entry == session.as_bytes())
        })
    }
}

fn names_in(directory: &Path) -> io::Result<Vec<String>> {
    match fs::read_dir(directory) {
        // A daemon that was killed before it made its directories.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        entries => entries?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect(),
    }
}
