//! What a new person does first, done in an empty home directory: `cargo xtask up`, then a session with the demo agent.

use crate::{
    layout,
    shell::{self, say},
};
use anyhow::{Context as _, Result, ensure};
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

/// How long a daemon that was asked to end may take.
const DAEMON_END_MAX: Duration = Duration::from_secs(20);

pub(super) fn run() -> Result<()> {
    let home = tempfile::tempdir().context("could not make a home directory")?;
    let result = up_and_run(home.path());
    let ended = end_daemon(&home.path().join(".local/share/maestro/run/daemon.json"));
    result.and(ended)
}

fn up_and_run(home: &Path) -> Result<()> {
    let mut last_line = String::new();
    let xtask = env::current_exe().context("could not find this program")?;
    let up = shell::watch(&mut in_home(home, &xtask, &["up"]), |line| line.clone_into(&mut last_line))?;
    ensure!(up, "`cargo xtask up` failed in an empty home directory");
    ensure!(
        last_line.contains("run "),
        "`cargo xtask up` does not end with what to type next: {last_line:?}"
    );
    let maestro = home.join(".local/bin/maestro");
    let mut answered = false;
    let ran = shell::watch(&mut in_home(home, &maestro, &["run", "hello", "--agent", "demo"]), |line| {
        answered |= !line.trim().is_empty();
    })?;
    ensure!(ran && answered, "the first session with the demo agent failed");
    Ok(())
}

/// A command whose person has nothing but Rust: where cargo keeps its things is told, all else is in the new home.
fn in_home(home: &Path, program: &Path, args: &[&str]) -> Command {
    let mut command = shell::command(program, args);
    let old_home = env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    for (name, folder) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
        command.env(name, env::var_os(name).unwrap_or_else(|| old_home.join(folder).into_os_string()));
    }
    for name in ["DATA_PATH", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"] {
        command.env_remove(name);
    }
    command.env("HOME", home).env("CARGO_TARGET_DIR", layout::target());
    command
}

fn end_daemon(record: &Path) -> Result<()> {
    let Ok(text) = fs::read(record) else {
        return Ok(());
    };
    let text: serde_json::Value =
        serde_json::from_slice(&text).with_context(|| format!("{} is not JSON", record.display()))?;
    let pid =
        text.get("pid").and_then(serde_json::Value::as_u64).context("the daemon's record has no pid")?;
    say(format_args!("ending the daemon, process {pid}"))?;
    shell::read(&mut shell::command("kill", [pid.to_string()]))?;
    let limit = Instant::now() + DAEMON_END_MAX;
    while record.exists() {
        ensure!(Instant::now() < limit, "the daemon (process {pid}) did not end in {DAEMON_END_MAX:?}");
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
