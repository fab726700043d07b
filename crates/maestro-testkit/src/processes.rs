use std::{fs, path::Path};

/// The ids of the live processes of this user whose environment holds exactly this variable with this value, as
/// `NAME=value`. It was given at their start, so it finds those that left their parent or session, too.
pub fn live_processes_with(variable: &str) -> Vec<u32> {
    live_processes_where(|entry| entry == variable.as_bytes())
}

/// As [`live_processes_with`], for the processes with a variable, as `NAME=value`, that is as `wanted` says.
pub fn live_processes_where(wanted: impl Fn(&[u8]) -> bool) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| holds(*pid, &wanted) && !is_gone(*pid)).collect()
}

/// Whether no process has this id, or only a zombie.
pub fn is_gone(pid: u32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return true };
    // The state stands after the name, which is in parentheses and may hold anything.
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    matches!(state, None | Some('Z' | 'X'))
}

fn holds(pid: u32, wanted: impl Fn(&[u8]) -> bool) -> bool {
    // Another user's process is unreadable and therefore none of ours.
    let environment = fs::read(Path::new("/proc").join(pid.to_string()).join("environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait_until_blocking;
    use std::{process::Command, time::Duration};

    #[test]
    fn a_process_is_found_by_its_environment_until_it_is_gone() {
        let variable = format!("MAESTRO_TESTKIT_MARKER={}", std::process::id());
        let (name, value) = variable.split_once('=').unwrap();
        let mut child = Command::new("sleep").arg("60").env(name, value).spawn().unwrap();
        let pid = child.id();
        let limit = Duration::from_secs(10);
        wait_until_blocking(limit, "the marked process", || live_processes_with(&variable) == [pid]).unwrap();
        assert!(
            live_processes_with(&variable[..variable.len() - 1]).is_empty(),
            "a part of a value is no match"
        );
        assert!(!is_gone(pid));
        child.kill().unwrap();
        wait_until_blocking(limit, "a zombie", || is_gone(pid)).unwrap();
        assert!(live_processes_with(&variable).is_empty());
        child.wait().unwrap();
        assert!(is_gone(pid));
    }
}
