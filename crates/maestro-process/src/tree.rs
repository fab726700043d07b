//! The end of many processes: told first, killed after a grace, until none is found.

use crate::procfs::{self, Identity, Stat};
use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};
use std::{
    collections::{HashMap, HashSet},
    io,
    time::{Duration, Instant},
};

/// How often a pass looks again for processes that were born while it stopped the others.
const FREEZE_ROUNDS: usize = 64;
/// While processes are asked to end: how soon those are found that were born meanwhile.
const ASK_INTERVAL: Duration = Duration::from_millis(50);
/// While processes are being killed: the first pause before looking again. It doubles up to the next constant,
/// since what stays after a SIGKILL sits in the kernel or belongs to another user.
const KILL_INTERVAL: Duration = Duration::from_millis(5);
const KILL_INTERVAL_MAX: Duration = Duration::from_millis(500);

/// Sends `signal` to exactly this process; `false` if it is gone.
pub(crate) fn send(target: Identity, signal: Signal) -> io::Result<bool> {
    let handle = match pidfd_open(target.pid, PidfdFlags::empty()) {
        Ok(handle) => handle,
        // EINVAL: the pid now is a thread of some process.
        Err(Errno::SRCH | Errno::INVAL) => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    // The handle holds whatever process had the pid a moment ago. If that one has the start time that was
    // seen before, it is the same, and the pid cannot come to mean another while the handle is used.
    match procfs::stat(target.pid) {
        Ok(now) if now.identity == target => {}
        Ok(_) => return Ok(false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    }
    match pidfd_send_signal(&handle, signal) {
        Ok(()) => Ok(true),
        Err(Errno::SRCH) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Everything below `root` in a listing of processes, `root` itself not.
pub(crate) fn descendants(root: Pid, listing: &[Stat]) -> Vec<Identity> {
    let mut children: HashMap<Pid, Vec<Identity>> = HashMap::new();
    for stat in listing {
        if let Some(parent) = stat.parent {
            children.entry(parent).or_default().push(stat.identity);
        }
    }
    let mut found = Vec::new();
    let mut open = vec![root];
    while let Some(parent) = open.pop() {
        // Taken out, so that a listing that contradicts itself cannot lead in a circle.
        for child in children.remove(&parent).unwrap_or_default() {
            open.push(child.pid);
            found.push(child);
        }
    }
    found
}

/// The state of ending a set of processes (CONTRACT §2.5): SIGTERM once each, then, after the grace, SIGSTOP
/// until no new one turns up (a process that forks faster than it is killed is caught this way) and SIGKILL.
pub(crate) struct Ending {
    kill_at: Instant,
    asked: HashSet<Identity>,
    kill_interval: Duration,
}

impl Ending {
    pub(crate) fn new(now: Instant, grace: Duration) -> Self {
        Self { kill_at: now + grace, asked: HashSet::new(), kill_interval: KILL_INTERVAL }
    }

    /// One pass over what `find` finds; returns how many that were. A process that may not be signalled is
    /// passed over: it counts, and the next pass tries again.
    pub(crate) fn pass(
        &mut self,
        now: Instant,
        mut find: impl FnMut() -> io::Result<Vec<Identity>>,
    ) -> io::Result<usize> {
        if now < self.kill_at {
            let found = find()?;
            for target in &found {
                if self.asked.insert(*target) {
                    // A stopped process acts on SIGTERM only once it goes on.
                    deliver(*target, &[Signal::TERM, Signal::CONT])?;
                }
            }
            return Ok(found.len());
        }
        let mut stopped = HashSet::new();
        for _ in 0..FREEZE_ROUNDS {
            let fresh: Vec<_> = find()?.into_iter().filter(|target| stopped.insert(*target)).collect();
            for target in &fresh {
                deliver(*target, &[Signal::STOP])?;
            }
            if fresh.is_empty() {
                break;
            }
        }
        for target in &stopped {
            deliver(*target, &[Signal::KILL])?;
        }
        Ok(stopped.len())
    }

    /// How long to wait for news before the next pass.
    pub(crate) fn pause(&mut self, now: Instant) -> Duration {
        let left = self.kill_at.saturating_duration_since(now);
        if !left.is_zero() {
            return left.min(ASK_INTERVAL);
        }
        let pause = self.kill_interval;
        self.kill_interval = (pause * 2).min(KILL_INTERVAL_MAX);
        pause
    }
}

fn deliver(target: Identity, signals: &[Signal]) -> io::Result<()> {
    for signal in signals {
        match send(target, *signal) {
            Ok(_) => {}
            // Runs as another user now.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `listing` is pairs of pid and parent.
    fn check(root: i32, listing: &[(i32, i32)], expect: &[i32]) {
        let listing: Vec<Stat> = listing
            .iter()
            .map(|(pid, parent)| Stat {
                identity: Identity { pid: Pid::from_raw(*pid).unwrap(), start: 1 },
                parent: Pid::from_raw(*parent),
            })
            .collect();
        let mut found: Vec<i32> = descendants(Pid::from_raw(root).unwrap(), &listing)
            .iter()
            .map(|identity| identity.pid.as_raw_pid())
            .collect();
        found.sort_unstable();
        assert_eq!(found, expect);
    }

    #[test]
    fn descendants_are_all_below_and_nothing_else() {
        check(5, &[(1, 0), (5, 1), (6, 5), (7, 6), (8, 1), (9, 7)], &[6, 7, 9]);
        check(5, &[(9, 7), (7, 6), (6, 5), (5, 1), (1, 0)], &[6, 7, 9]);
        check(5, &[(1, 0), (5, 1), (8, 1)], &[]);
        check(5, &[(7, 6), (8, 5)], &[8]);
        check(5, &[(6, 5), (5, 6)], &[5, 6]);
        check(5, &[], &[]);
    }

    #[test]
    fn the_grace_comes_before_the_kill() {
        let start = Instant::now();
        let mut ending = Ending::new(start, Duration::from_millis(120));
        assert_eq!(ending.pause(start), ASK_INTERVAL);
        assert_eq!(ending.pause(start + Duration::from_millis(100)), Duration::from_millis(20));
        let after = start + Duration::from_millis(120);
        let pauses: Vec<_> = (0..9).map(|_| ending.pause(after).as_millis()).collect();
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 320, 500, 500]);
    }

    #[test]
    fn another_start_time_is_another_process() {
        let me = procfs::stat(rustix::process::getpid()).unwrap().identity;
        let former = Identity { start: me.start - 1, ..me };
        assert!(!send(former, Signal::KILL).unwrap());
        assert!(send(me, Signal::CONT).unwrap());
    }
}
