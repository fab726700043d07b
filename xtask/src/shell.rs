//! Running programs in sight of the person.

use crate::layout;
use anyhow::{Context as _, Result, bail};
use std::{
    ffi::OsStr,
    fmt,
    io::{self, BufRead as _, BufReader, Write as _},
    process::{Command, Stdio},
};

/// Prints one line.
pub(crate) fn say(line: impl fmt::Display) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()?;
    Ok(())
}

/// A program with its arguments, to be run at the root of the repository without a terminal's input.
pub(crate) fn command<S: AsRef<OsStr>>(
    program: impl AsRef<OsStr>,
    args: impl IntoIterator<Item = S>,
) -> Command {
    let mut command = Command::new(program);
    command.args(args).current_dir(layout::root()).stdin(Stdio::null());
    command
}

/// A cargo command.
pub(crate) fn cargo<'a>(args: impl IntoIterator<Item = &'a str>) -> Command {
    command(layout::cargo(), args)
}

/// Runs a program with its output in sight.
///
/// # Errors
/// If it cannot be started or does not succeed.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    if watch(command, |_| ())? {
        return Ok(());
    }
    bail!("`{}` failed", spelt(command))
}

/// Runs a program with its output in sight, shows each line of it to `see`, and tells whether it succeeded.
///
/// # Errors
/// If it cannot be started or its output cannot be read.
pub(crate) fn watch(command: &mut Command, mut see: impl FnMut(&str)) -> Result<bool> {
    let spelt = spelt(command);
    say(format_args!("$ {spelt}"))?;
    let (reader, writer) = io::pipe().context("could not make a pipe")?;
    command.stdout(writer.try_clone().context("could not clone a pipe")?).stderr(writer);
    let mut child = command.spawn().with_context(|| format!("could not start `{spelt}`"))?;
    // The command still holds the writing end, and the reader below waits until nobody does.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    for line in BufReader::new(reader).split(b'\n') {
        let line = line.with_context(|| format!("could not read the output of `{spelt}`"))?;
        let line = String::from_utf8_lossy(&line);
        see(&line);
        say(line)?;
    }
    Ok(child.wait().with_context(|| format!("could not wait for `{spelt}`"))?.success())
}

/// Runs a program quietly and returns what it printed.
///
/// # Errors
/// If it cannot be started or does not succeed; the error holds what it wrote to stderr.
pub(crate) fn read(command: &mut Command) -> Result<String> {
    let spelt = spelt(command);
    let output = command.output().with_context(|| format!("could not start `{spelt}`"))?;
    if !output.status.success() {
        bail!("`{spelt}` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{spelt}` printed something that is not UTF-8"))
}

fn spelt(command: &Command) -> String {
    let program = command.get_program();
    let name = std::path::Path::new(program).file_name().unwrap_or(program);
    std::iter::once(name).chain(command.get_args()).map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}
