//! The program that the tests of this crate start: the guard, a stand-in for the daemon, and agents that
//! behave well or badly. Every process of it ends itself after a while, so that a failed test leaves none.

mod raw;
mod stand_in;

use maestro_process::{GUARD_ARG, guard_main, lineage};
use rustix::process::{Resource, getpgrp, getpid, getrlimit, setsid, umask};
use std::{
    env,
    error::Error,
    ffi::OsString,
    fs,
    io::{self, Read as _, Write as _},
    os::unix::net::UnixStream,
    path::Path,
    process::{Child, Command, ExitCode, Stdio},
    thread,
    time::Duration,
};

/// Seconds.
const LIFE: u32 = 60;

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> ExitCode {
    let args: Vec<OsString> = env::args_os().skip(1).collect();
    if args.first().is_some_and(|first| first == GUARD_ARG) {
        return guard_main(args.into_iter().skip(1));
    }
    raw::end_after(LIFE);
    let args: Vec<&str> = args.iter().filter_map(|arg| arg.to_str()).collect();
    match &args[..] {
        ["exit", code] => code.parse::<u8>().map_or(ExitCode::FAILURE, ExitCode::from),
        args => match run(args) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                drop(writeln!(io::stderr(), "test child {args:?}: {error}"));
                ExitCode::FAILURE
            }
        },
    }
}

fn run(args: &[&str]) -> Outcome {
    match *args {
        ["idle", folder] => stay(folder, "idle"),
        ["stubborn", folder] => {
            raw::ignore_requests_to_end();
            stay(folder, "stubborn")
        }
        ["own-session", folder] => {
            setsid()?;
            raw::ignore_requests_to_end();
            stay(folder, "own-session")
        }
        // Ends at once; what it started is an orphan.
        ["orphan", folder, mode] => Ok(start(&[mode, folder]).map(drop)?),
        ["brief", folder] => register(folder, "brief"),
        ["tree", folder] => {
            plant(folder)?;
            stay(folder, "root")
        }
        ["tree-exit", folder, leaves] => {
            plant(folder)?;
            wait_for_members(folder, leaves.parse()?)
        }
        ["bomb", folder, depth] => bomb(folder, depth.parse()?),
        ["echo"] => io::copy(&mut io::stdin().lock(), &mut io::stdout().lock()).map(drop).map_err(Into::into),
        ["report"] => report(),
        ["lineage-below", file] => below(file),
        ["lineage", file] => {
            fs::write(format!("{file}.new"), lineage::self_is_agent().to_string())?;
            Ok(fs::rename(format!("{file}.new"), file)?)
        }
        ["connect", path] => {
            let mut socket = UnixStream::connect(path)?;
            Ok(socket.read_to_end(&mut Vec::new()).map(drop)?)
        }
        ["daemon", ref rest @ ..] => stand_in::run(rest),
        _ => Err("unknown mode".into()),
    }
}

fn start(args: &[&str]) -> Result<Child, io::Error> {
    Command::new(env::current_exe()?).args(args).spawn()
}

/// Makes this process known to the test: a file `<role> <pid> <start time>` in its folder.
fn register(folder: &str, role: &str) -> Outcome {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let start =
        stat.rsplit(')').next().and_then(|rest| rest.split_ascii_whitespace().nth(19)).ok_or("no start")?;
    let file = Path::new(folder).join(format!("{role} {} {start}", getpid()));
    Ok(fs::write(file, "")?)
}

fn stay(folder: &str, role: &str) -> Outcome {
    register(folder, role)?;
    loop {
        thread::park();
    }
}

/// What agents leave behind: a process in a session of its own, orphans, one that ignores SIGTERM, all of them
/// with the agent's standard output open.
fn plant(folder: &str) -> Outcome {
    start(&["own-session", folder])?;
    start(&["stubborn", folder])?;
    start(&["orphan", folder, "own-session"])?.wait()?;
    start(&["orphan", folder, "idle"])?.wait()?;
    Ok(())
}

fn wait_for_members(folder: &str, count: usize) -> Outcome {
    while fs::read_dir(folder)?.count() < count {
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// A tree of processes that ignore SIGTERM and never stop starting more. The alarm, and the depth, bound it.
fn bomb(folder: &str, depth: u32) -> Outcome {
    raw::ignore_requests_to_end();
    if depth > 0 {
        for _ in 0..2 {
            start(&["bomb", folder, &(depth - 1).to_string()])?;
        }
    }
    register(folder, "bomb")?;
    loop {
        start(&["exit", "0"])?.wait()?;
    }
}

/// Says what this process was given.
fn report() -> Outcome {
    let mut out = io::stdout().lock();
    for (name, value) in env::vars() {
        writeln!(out, "env {name}={value}")?;
    }
    for entry in fs::read_dir("/proc/self/fd")? {
        let entry = entry?;
        // The listing has itself a descriptor open, on /proc.
        if !fs::read_link(entry.path()).is_ok_and(|target| target.starts_with("/proc")) {
            writeln!(out, "fd {}", entry.file_name().to_string_lossy())?;
        }
    }
    writeln!(out, "umask {:03o}", umask(rustix::fs::Mode::empty()).bits())?;
    let files = getrlimit(Resource::Nofile);
    writeln!(out, "files {:?} {:?}", files.current, files.maximum)?;
    writeln!(out, "own group {}", getpgrp() == getpid())?;
    writeln!(out, "own session {}", session()? == getpid().as_raw_nonzero().get())?;
    writeln!(out, "cwd {}", env::current_dir()?.display())?;
    Ok(())
}

/// The id of this process's session; 0 where the session's leader lives outside the PID namespace, which is no
/// `Pid` (so not `rustix::process::getsid`).
fn session() -> Result<i32, Box<dyn std::error::Error>> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let after_name = stat.rsplit_once(')').ok_or("no name in /proc/self/stat")?.1;
    Ok(after_name.split_whitespace().nth(3).ok_or("no session in /proc/self/stat")?.parse()?)
}

/// Starts the question for the lineage where nothing but a guard can answer it: environment cleared, session
/// and parent left.
fn below(file: &str) -> Outcome {
    let script = r#"setsid "$0" lineage "$1" & exit 0"#;
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", script]).arg(env::current_exe()?).arg(file).env_clear().env("PATH", "/usr/bin:/bin");
    shell.stdin(Stdio::null()).status()?;
    loop {
        thread::park();
    }
}
