use super::Finding;
use crate::config::Settings;
use maestro_process::{GUARD_ARG, SESSION_VARIABLE};
use std::{collections::BTreeSet, fs};

const SUBJECT: &str = "processes";

/// More generations than any honest process has.
const GENERATIONS: usize = 256;

/// Looks for processes of this directory's sessions that no guard watches any more.
pub(super) fn look(settings: &Settings) -> Finding {
    let sessions = sessions(settings);
    let left: Vec<u32> = processes()
        .into_iter()
        .filter(|pid| session_of(*pid).is_some_and(|id| sessions.contains(&id)))
        .filter(|pid| !is_guarded(*pid))
        .collect();
    if left.is_empty() {
        return Finding::ok(SUBJECT, "no session has left any behind");
    }
    let pids = left.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
    Finding::wrong(SUBJECT, format!("sessions that ended left {} behind: {pids}", left.len()))
        .mend(format!("restart the daemon, which ends them; or look at them (`ps {pids}`) and: kill {pids}"))
}

/// The ids of the sessions in the data directory.
fn sessions(settings: &Settings) -> BTreeSet<String> {
    let entries = fs::read_dir(settings.data_path.join("sessions")).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter_map(|name| name.strip_suffix(".json").map(str::to_owned)).collect()
}

fn processes() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The session whose marker a process of this user was started with.
fn session_of(pid: u32) -> Option<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let prefix = format!("{SESSION_VARIABLE}=");
    let value =
        environment.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(prefix.as_bytes()))?;
    String::from_utf8(value.to_vec()).ok()
}

/// Whether a process is a guard or stands below one. What ended meanwhile is nobody's business.
fn is_guarded(pid: u32) -> bool {
    let mut at = pid;
    for _ in 0..GENERATIONS {
        let Ok(cmdline) = fs::read(format!("/proc/{at}/cmdline")) else { return true };
        if cmdline.split(|byte| *byte == 0).nth(1) == Some(GUARD_ARG.as_bytes()) {
            return true;
        }
        match parent(at) {
            Some(parent) if parent > 1 => at = parent,
            Some(_) => return false,
            None => return true,
        }
    }
    true
}

fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it is in parentheses and may hold anything.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}
