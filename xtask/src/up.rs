//! `cargo xtask up`: from a clone to a running daemon.

use crate::{
    layout,
    need::{self, Installer},
    shell::{self, say},
};
use anyhow::{Context as _, Result};
use std::{
    fs,
    path::{Path, PathBuf},
};

pub(crate) fn run() -> Result<()> {
    say("== what is needed")?;
    Installer::default().ensure(&need::GIT)?;
    for need in [&need::NODE, &need::NPM] {
        match layout::find_program(need.program) {
            Some(path) => say(format_args!("{}: {}", need.program, path.display()))?,
            None => say(format_args!(
                "{} is missing ({}): {}. The demo agent works without it.",
                need.program,
                need.what_for,
                need.mend()
            ))?,
        }
    }
    say("== build")?;
    shell::run(&mut shell::cargo(["build", "--release", "--locked", "--package", "maestro"]))?;
    let built = layout::target().join("release/maestro");
    say("== install")?;
    let (program, changed) = install(&built)?;
    say("== start")?;
    // Any command of a person starts the daemon where none runs, and says so.
    shell::run(&mut shell::command(&program, ["ls"]))?;
    if changed {
        say(
            "A daemon that ran before goes on with the build it was started from; end it to have it replaced.",
        )?;
    }
    say("== agents")?;
    shell::run(&mut shell::command(&program, ["agent", "ls"]))?;
    say(format_args!("\nmaestro is running. Next, type:\n  {} run \"hello\" --agent demo", called(&program)))
}

/// Puts the binary into the person's `~/.local/bin` and tells whether it replaced another build.
fn install(built: &Path) -> Result<(PathBuf, bool)> {
    let folder = layout::home()?.join(".local/bin");
    let program = folder.join("maestro");
    let new = fs::read(built).with_context(|| format!("could not read {}", built.display()))?;
    let old = fs::read(&program).ok();
    if old.as_ref() == Some(&new) {
        say(format_args!("{} is this build already", program.display()))?;
        return Ok((program, false));
    }
    say(format_args!("{}", program.display()))?;
    fs::create_dir_all(&folder).with_context(|| format!("could not make {}", folder.display()))?;
    // Written beside it and renamed, since a program that runs cannot be written to.
    let fresh = tempfile::Builder::new()
        .prefix(".maestro-")
        .tempfile_in(&folder)
        .with_context(|| format!("could not write into {}", folder.display()))?;
    fs::copy(built, fresh.path()).with_context(|| format!("could not copy to {}", fresh.path().display()))?;
    fresh.persist(&program).with_context(|| format!("could not replace {}", program.display()))?;
    Ok((program, old.is_some()))
}

/// How to call the program: by name where the shell finds it, else by its path.
fn called(program: &Path) -> String {
    match layout::find_program("maestro") {
        Some(found) if found == program => "maestro".to_owned(),
        _ => program.display().to_string(),
    }
}
