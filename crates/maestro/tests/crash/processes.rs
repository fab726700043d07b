//! Processes of a story: found, killed, waited for.

use crate::{Failure, person::LIMIT};
use maestro_testkit::{live_processes_where, wait_until_blocking};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;

pub(crate) fn wait_until_gone(processes: impl Fn() -> Vec<u32>) -> Result<(), Failure> {
    let gone = wait_until_blocking(LIMIT, "the end of all processes", || processes().is_empty());
    gone.map_err(|error| {
        let left = processes().into_iter().map(command_line).collect::<Vec<_>>();
        format!("{error}; left are {left:#?}").into()
    })
}

/// Kills the guards of these sessions.
pub(crate) fn kill_guards(ids: &[String]) {
    let marks: Vec<String> = ids.iter().map(|id| format!("MAESTRO_SESSION={id}")).collect();
    let marked = live_processes_where(|entry| marks.iter().any(|mark| entry == mark.as_bytes()));
    for pid in marked.into_iter().filter(|pid| command_line(*pid).split(' ').nth(1) == Some("__guard")) {
        // One that has ended meanwhile is as dead as it should be.
        as_pid(pid).and_then(|pid| kill_process(pid, Signal::KILL).ok());
    }
}

pub(crate) fn as_pid(pid: u32) -> Option<Pid> {
    Pid::from_raw(pid.cast_signed())
}

/// The words of a process's command line.
pub(crate) fn command_line(pid: u32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).trim_end_matches('\0').replace('\0', " ")
}

/// Whether a process is below another.
pub(crate) fn is_below(pid: u32, ancestor: Option<u32>) -> bool {
    let mut current = pid;
    while current > 1 {
        let stat = fs::read_to_string(format!("/proc/{current}/stat")).unwrap_or_default();
        let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
        current = parent.unwrap_or(0);
        if Some(current) == ancestor {
            return true;
        }
    }
    false
}
