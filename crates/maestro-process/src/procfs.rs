//! What `/proc` says about processes.

use rustix::process::Pid;
use std::{fs, io, path::PathBuf, thread, time::Duration};
use uuid::Uuid;

/// How often, and how far apart, a process is looked at that is becoming another program. On a machine with nothing to
/// spare that takes milliseconds.
const BETWEEN_PROGRAMS_TRIES: usize = 50;
/// The same once it has arguments: then it has an environment, too, unless it was started without one.
const BARE_TRIES: usize = 3;
const BETWEEN_PROGRAMS_PAUSE: Duration = Duration::from_millis(1);

/// The flag of a kernel thread in field 9 of `/proc/<pid>/stat` (`include/linux/sched.h`).
const PF_KTHREAD: u32 = 0x0020_0000;

/// One process for as long as the machine runs: a pid may come back, but not with the same start time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    pub(crate) pid: Pid,
    /// Clock ticks since boot.
    pub(crate) start: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) identity: Identity,
    /// Absent for a process whose parent is outside of what this process sees.
    pub(crate) parent: Option<Pid>,
}

/// Reads the fields behind the name, which may itself hold spaces and parentheses.
fn parse_stat(text: &[u8]) -> Option<Stat> {
    let close = text.iter().rposition(|byte| *byte == b')')?;
    let open = text.iter().position(|byte| *byte == b'(')?;
    let pid = std::str::from_utf8(&text[..open]).ok()?.trim().parse().ok()?;
    let mut rest = std::str::from_utf8(&text[close + 1..]).ok()?.split_ascii_whitespace();
    // The state is field 3, the parent 4, the start time 22.
    let parent: i32 = rest.nth(1)?.parse().ok()?;
    let start = rest.nth(17)?.parse().ok()?;
    Some(Stat { identity: Identity { pid: Pid::from_raw(pid)?, start }, parent: Pid::from_raw(parent) })
}

fn file(pid: Pid, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/{name}"))
}

/// `NotFound` for a process that is gone (or hidden from this user).
pub(crate) fn stat(pid: Pid) -> io::Result<Stat> {
    match fs::read(file(pid, "stat")) {
        Ok(text) => parse_stat(&text)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "unreadable /proc stat line")),
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Err(io::ErrorKind::NotFound.into()),
        Err(error) => Err(error),
    }
}

/// The environment with which a process was started. A process that is just becoming another program (`execve(2)`) has
/// none for a moment, also right after it was spawned: the kernel lets the parent go on before it has set the new one up.
/// That moment is waited out, so that no process seems to have shed what it carries.
pub(crate) fn environ(pid: Pid) -> io::Result<Vec<u8>> {
    let (mut without_arguments, mut with_arguments) = (BETWEEN_PROGRAMS_TRIES, BARE_TRIES);
    loop {
        let environ = fs::read(file(pid, "environ"))?;
        if !environ.is_empty() || !fs::read(file(pid, "stat")).is_ok_and(|text| is_program(&text)) {
            return Ok(environ);
        }
        // The arguments are set up just before the environment.
        let has_arguments = command_line(pid).is_ok_and(|line| !line.is_empty());
        let tries = if has_arguments { &mut with_arguments } else { &mut without_arguments };
        if *tries == 0 {
            return Ok(environ);
        }
        *tries -= 1;
        thread::sleep(BETWEEN_PROGRAMS_PAUSE);
    }
}

/// Whether a stat line is that of a process that runs, or will run, a program.
fn is_program(text: &[u8]) -> bool {
    let fields = || {
        let close = text.iter().rposition(|byte| *byte == b')')?;
        let mut rest = std::str::from_utf8(&text[close + 1..]).ok()?.split_ascii_whitespace();
        // The state is field 3, the flags are field 9.
        let (state, flags) = (rest.next()?, rest.nth(5)?.parse::<u32>().ok()?);
        Some(!matches!(state, "Z" | "X") && flags & PF_KTHREAD == 0)
    };
    fields().unwrap_or(false)
}

/// The arguments, NUL-terminated each.
pub(crate) fn command_line(pid: Pid) -> io::Result<Vec<u8>> {
    fs::read(file(pid, "cmdline"))
}

/// Every process this user sees. Not a snapshot: processes come, go and change parents while it is made.
pub(crate) fn processes() -> io::Result<Vec<Stat>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw) else {
            continue;
        };
        match stat(pid) {
            Ok(stat) => found.push(stat),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// The id of this boot.
pub(crate) fn boot_id() -> io::Result<Uuid> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    text.trim().parse().map_err(io::Error::other)
}

/// The value of a variable in an environment of NUL-terminated `name=value` entries.
pub(crate) fn variable<'a>(environ: &'a [u8], name: &str) -> Option<&'a str> {
    let value = environ
        .split(|byte| *byte == 0)
        .find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
    std::str::from_utf8(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn check(head: &str, expect: Option<(i32, i32, u64)>) {
        let text = format!("{head} 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 8899 100 200");
        let found = parse_stat(text.as_bytes())
            .map(|stat| (stat.identity.pid.as_raw_pid(), Pid::as_raw(stat.parent), stat.identity.start));
        assert_eq!(found, expect, "{text}");
    }

    #[test]
    fn stat_lines_are_read_behind_the_name() {
        check("12 (sh) S 3", Some((12, 3, 8899)));
        check("12 (a) Z 99 (b)) R 3", Some((12, 3, 8899)));
        check("12 () Z 1", Some((12, 1, 8899)));
        check("1 (init) S 0", Some((1, 0, 8899)));
        check("12 sh S 3", None);
        check("x (sh) S 3", None);
        assert_eq!(parse_stat(b"12 (sh) S 3 1 1 0"), None);
        assert_eq!(parse_stat(b""), None);
    }

    #[test]
    fn a_process_has_its_environment_from_its_first_moment() {
        for _ in 0..300 {
            let mut child = Command::new("/bin/sleep").arg("9").env_clear().env("MARK", "x").spawn().unwrap();
            let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
            assert_eq!(environ(pid).unwrap(), b"MARK=x\0");
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    #[test]
    fn what_runs_no_program_is_not_waited_for() {
        let check = |line: &str, expect: bool| assert_eq!(is_program(line.as_bytes()), expect, "{line}");
        check("12 (sh) S 3 1 1 0 -1 4194560 1 2", true);
        check("12 (a) Z 9 (b)) R 3 1 1 0 -1 0 1 2", true);
        check("12 (sh) Z 3 1 1 0 -1 4194560 1 2", false);
        check("2 (kthreadd) S 0 0 0 0 -1 2129984 0 0", false);
        check("12 (sh) S 3", false);
        check("", false);
    }

    #[test]
    fn this_process_is_seen() {
        let me = rustix::process::getpid();
        let mine = stat(me).unwrap();
        assert_eq!((mine.identity.pid, mine.parent), (me, rustix::process::getppid()));
        assert!(processes().unwrap().contains(&mine));
        assert_eq!(boot_id().unwrap(), boot_id().unwrap());
        assert_eq!(stat(Pid::from_raw(i32::MAX).unwrap()).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
