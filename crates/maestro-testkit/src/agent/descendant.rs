use super::{player, recorder::Recorder};
use crate::{
    record::{Descendant, Entry, Record},
    script::Descent,
    wait_until_blocking,
};
use std::{
    env,
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

/// The hidden first argument of a process that a scripted agent leaves behind.
pub(super) const ARG: &str = "__descendant";
/// After this long a process left behind ends by itself.
const LIFE: Duration = Duration::from_mins(2);
const START_LIMIT: Duration = Duration::from_secs(10);

/// Starts the process and returns when it is as it was wished.
pub(super) fn start(descent: Descent, recorder: &Recorder) -> io::Result<()> {
    let record = Record::at(recorder.path());
    let before = record.descendants().len();
    let mut child = command(descent, recorder.path(), recorder.process())?.spawn()?;
    if descent.double_fork {
        child.wait()?;
    }
    wait_until_blocking(START_LIMIT, "a process left behind", || record.descendants().len() > before)
        .map_err(io::Error::other)
}

fn command(descent: Descent, record: &Path, process: usize) -> io::Result<Command> {
    let mut command = Command::new(env::current_exe()?);
    command.arg(ARG).arg(serde_json::to_string(&descent)?).arg(record).arg(process.to_string());
    command.stdin(Stdio::null()).stderr(Stdio::null());
    if !descent.hold_stdout {
        command.stdout(Stdio::null());
    }
    Ok(command)
}

/// The `main` of a process left behind.
pub(super) fn main(args: impl Iterator<Item = OsString>) -> u8 {
    u8::from(be(args).is_err())
}

fn be(mut args: impl Iterator<Item = OsString>) -> io::Result<()> {
    let mut next = || args.next().ok_or_else(|| io::Error::other("an argument is missing"));
    let descent: Descent = serde_json::from_str(&next()?.to_string_lossy())?;
    let record = PathBuf::from(next()?);
    let process = next()?.to_string_lossy().parse().map_err(io::Error::other)?;
    if descent.setsid {
        rustix::process::setsid()?;
    }
    if descent.double_fork {
        let last = Descent { double_fork: false, setsid: false, ..descent };
        // Not waited for: it is to lose its parent.
        return command(last, &record, process)?.spawn().map(drop);
    }
    if descent.ignore_signals {
        player::ignore_signals()?;
    }
    let recorder = Recorder::join(&record, process)?;
    recorder.enter(&Entry::Descended(Descendant { process, pid: std::process::id() }))?;
    thread::sleep(LIFE);
    Ok(())
}
