//! What a process has used, as the kernel counts it.

use crate::stats::number;
use anyhow::{Context as _, Result};
use std::{fs, path::Path};
use tokio::net::UnixListener;

/// Processor time of all threads of a process so far, in nanoseconds. Of threads that have ended the kernel keeps only
/// hundredths of seconds, so this counts those that are there: the daemon's threads last.
pub(crate) fn cpu_ns(pid: u32) -> Result<f64> {
    let mut sum = 0.0;
    for task in fs::read_dir(format!("/proc/{pid}/task")).context("the process is gone")? {
        let Ok(text) = fs::read_to_string(task?.path().join("schedstat")) else { continue };
        let spent: u64 = text.split_whitespace().next().and_then(|text| text.parse().ok()).unwrap_or(0);
        sum += number(spent);
    }
    Ok(sum)
}

/// Memory of a process that no file backs, in bytes.
pub(crate) fn memory(pid: u32) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).context("the process is gone")?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).context("no RssAnon")?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(number(kib * 1024))
}

/// All memory of a process, what files back too, in bytes.
pub(crate) fn memory_with_files(pid: u32) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).context("the process is gone")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(number(kib * 1024))
}

/// Listens at `path`. The name is there only once connections are accepted: the socket is made under another one.
pub(crate) fn listen(path: &Path) -> Result<UnixListener> {
    let early = path.with_extension("early");
    let listener = UnixListener::bind(&early)?;
    fs::rename(&early, path)?;
    Ok(listener)
}
