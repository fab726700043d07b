use crate::{
    guard::GUARD_ARG,
    marker::{Marker, SpawnRecord},
    procfs::{self, Identity, Stat},
    tree::Ending,
};
use maestro_protocol::SessionId;
use rustix::process::{Pid, getpid};
use std::{
    collections::HashMap,
    io, thread,
    time::{Duration, Instant},
};
use uuid::Uuid;

/// Between SIGTERM and SIGKILL. Nobody talks to what is swept any more, so it is short.
const GRACE: Duration = Duration::from_millis(500);
/// How long a guard that still lives may take to end its tree itself, before it is ended like the rest.
const GUARD_PATIENCE: Duration = Duration::from_secs(5);
/// A sweep never takes longer: what cannot be ended by then sits in the kernel or belongs to another user.
const LIMIT: Duration = Duration::from_secs(15);
/// Listings in a row without a find before a sweep believes them: one alone can miss a process that was born
/// behind it while its parent died before it.
const EMPTY_LISTINGS: u32 = 2;

/// A process that a sweep found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SweptProcess {
    /// The session in its marker.
    pub session: SessionId,
    /// Its pid.
    pub pid: u32,
}

/// What a sweep did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SweepReport {
    /// Found and gone now.
    pub ended: Vec<SweptProcess>,
    /// Found, and still there at the end of the sweep's time.
    pub left: Vec<SweptProcess>,
    /// What kept the sweep from its work, if anything did.
    pub trouble: Option<String>,
}

/// Ends what the spawns of these records have left running (CONTRACT §2.3). For the start of a daemon that
/// holds the data directory's lock, and for a guard that was killed. Blocks for at most 15 seconds, and only
/// if it finds something.
///
/// A process belongs to a record only if the record is of this boot, the process is no older than the record's
/// guard, and its environment carries the record's marker, session and token; and it is compared once more
/// after a handle on it was taken. A pid from a record is never signalled for being that pid. A process that
/// has cleared its environment, and whose guard was killed, is not found.
pub fn sweep(records: &[SpawnRecord]) -> SweepReport {
    let mut sweep = match Sweep::new(records) {
        Ok(sweep) => sweep,
        Err(error) => {
            return SweepReport {
                trouble: Some(format!("cannot read this boot's id under /proc: {error}")),
                ..SweepReport::default()
            };
        }
    };
    sweep.run();
    sweep.report()
}

struct Sweep {
    /// By token; of this boot only.
    records: HashMap<Uuid, SpawnRecord>,
    begin: Instant,
    seen: HashMap<Identity, SweptProcess>,
    present: Vec<Identity>,
    trouble: Option<String>,
}

impl Sweep {
    fn new(records: &[SpawnRecord]) -> io::Result<Self> {
        let boot_id = procfs::boot_id()?;
        let records = records.iter().filter(|record| record.boot_id == boot_id);
        Ok(Self {
            records: records.map(|record| (record.marker.token, record.clone())).collect(),
            begin: Instant::now(),
            seen: HashMap::new(),
            present: Vec::new(),
            trouble: None,
        })
    }

    fn run(&mut self) {
        if self.records.is_empty() {
            return;
        }
        let mut ending = Ending::new(self.begin, GRACE);
        let mut empty = 0;
        while empty < EMPTY_LISTINGS {
            let waiting_for_guard = match self.look() {
                Ok(waiting) => waiting,
                Err(error) => {
                    self.trouble = Some(format!("cannot list processes: {error}"));
                    return;
                }
            };
            if self.present.is_empty() {
                empty += 1;
                continue;
            }
            if self.begin.elapsed() > LIMIT {
                return;
            }
            empty = 0;
            let now = Instant::now();
            if waiting_for_guard {
                ending = Ending::new(now, GRACE);
            } else if let Err(error) = ending.pass(now, || self.look().map(|_| self.present.clone())) {
                self.trouble = Some(format!("cannot end all processes: {error}"));
            }
            thread::sleep(ending.pause(Instant::now()));
        }
    }

    /// Lists what belongs to a record into `present`. True while a guard among it is given time.
    fn look(&mut self) -> io::Result<bool> {
        let mut patient = false;
        self.present.clear();
        for process in procfs::processes()? {
            if let Some((record, is_guard)) = self.claim(process) {
                let swept = SweptProcess {
                    session: record.marker.session,
                    pid: process.identity.pid.as_raw_pid().unsigned_abs(),
                };
                self.seen.insert(process.identity, swept);
                self.present.push(process.identity);
                patient |= is_guard && self.begin.elapsed() < GUARD_PATIENCE;
            }
        }
        Ok(patient)
    }

    /// The record a process belongs to, and whether it is the record's guard.
    fn claim(&self, process: Stat) -> Option<(&SpawnRecord, bool)> {
        let Identity { pid, start } = process.identity;
        // Unreadable: another user's, or gone meanwhile.
        let marker = Marker::find(&procfs::environ(pid).ok()?)?;
        let record = self.records.get(&marker.token)?;
        if record.marker != marker || start < record.guard_start_ticks || pid == getpid() {
            return None;
        }
        let is_guard = pid.as_raw_pid().unsigned_abs() == record.guard_pid
            && start == record.guard_start_ticks
            && is_guard(pid);
        Some((record, is_guard))
    }

    fn report(self) -> SweepReport {
        let (left, ended): (Vec<_>, Vec<_>) =
            self.seen.into_iter().partition(|(identity, _)| self.present.contains(identity));
        let sorted = |found: Vec<(Identity, SweptProcess)>| {
            let mut found: Vec<_> = found.into_iter().map(|(_, process)| process).collect();
            found.sort_by_key(|process| process.pid);
            found
        };
        SweepReport { ended: sorted(ended), left: sorted(left), trouble: self.trouble }
    }
}

/// Whether this process runs as a guard.
fn is_guard(pid: Pid) -> bool {
    procfs::command_line(pid).is_ok_and(|line| is_guard_line(&line))
}

/// Whether these are a guard's arguments, NUL-terminated each.
pub(crate) fn is_guard_line(line: &[u8]) -> bool {
    line.split(|byte| *byte == 0).nth(1) == Some(GUARD_ARG.as_bytes())
}
