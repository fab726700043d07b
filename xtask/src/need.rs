//! Programs that a command needs, and how to get them.

use crate::{
    layout,
    shell::{self, say},
};
use anyhow::{Result, bail};
use std::{cell::Cell, os::unix::fs::MetadataExt as _, path::PathBuf};

/// A program of the system.
pub(crate) struct Need {
    /// Its name on `PATH`.
    pub(crate) program: &'static str,
    /// The Debian packages that bring it.
    pub(crate) packages: &'static [&'static str],
    /// What it is for.
    pub(crate) what_for: &'static str,
}

pub(crate) const GIT: Need =
    Need { program: "git", packages: &["git"], what_for: "to list the project's files" };
pub(crate) const NODE: Need =
    Need { program: "node", packages: &["nodejs"], what_for: "to run agents written in JavaScript" };
pub(crate) const NPM: Need = Need { program: "npm", packages: &["npm"], what_for: "to install agents" };
pub(crate) const PYTHON: Need = Need {
    program: "python3",
    packages: &["python3"],
    what_for: "to run the scripted model server of the tests",
};

pub(crate) const STRACE: Need = Need {
    program: "strace",
    packages: &["strace"],
    what_for: "to make system calls of a daemon under test fail; without it those tests pass by themselves",
};

impl Need {
    /// The command that installs it.
    pub(crate) fn mend(&self) -> String {
        let sudo = if is_root() { "" } else { "sudo " };
        format!("{sudo}apt-get install -y {}", self.packages.join(" "))
    }
}

/// Installs programs. The list of packages is brought up to date once, before the first installation.
#[derive(Default)]
pub(crate) struct Installer {
    updated: Cell<bool>,
}

impl Installer {
    /// Makes sure that a program is there: found, or installed with apt where this is root.
    ///
    /// # Errors
    /// If it is missing and was not installed; the message ends with the command that does it.
    pub(crate) fn ensure(&self, need: &Need) -> Result<PathBuf> {
        if let Some(path) = layout::find_program(need.program) {
            say(format_args!("{}: {}", need.program, path.display()))?;
            return Ok(path);
        }
        let missing = format!("{} is missing ({}): {}", need.program, need.what_for, need.mend());
        if !is_root() || layout::find_program("apt-get").is_none() {
            bail!(missing);
        }
        say(format_args!("{} is missing ({}): installing it", need.program, need.what_for))?;
        if !self.updated.replace(true) {
            shell::run(&mut shell::command("apt-get", ["update", "-q"]))?;
        }
        let args = ["install", "-y", "-q", "--no-install-recommends"];
        shell::run(
            shell::command("apt-get", args.iter().chain(need.packages))
                .env("DEBIAN_FRONTEND", "noninteractive"),
        )?;
        match layout::find_program(need.program) {
            Some(path) => Ok(path),
            None => bail!(missing),
        }
    }
}

/// A cargo command (`cargo-nextest`, say): on `PATH`, in the cache, or built into the cache.
///
/// # Errors
/// If it can be had in none of these ways; the message ends with the command that installs it.
pub(crate) fn cargo_tool(name: &str) -> Result<PathBuf> {
    let home = layout::cache()?.join("tools");
    let cached = home.join("bin").join(name);
    if let Some(path) = layout::find_program(name).or_else(|| cached.is_file().then(|| cached.clone())) {
        say(format_args!("{name}: {}", path.display()))?;
        return Ok(path);
    }
    say(format_args!("{name} is missing: building it into {}", home.display()))?;
    let target = home.join("build");
    let mut install = shell::cargo(["install", "--locked", "--quiet", name, "--root"]);
    install.arg(&home).env("CARGO_TARGET_DIR", &target);
    if let Err(error) = shell::run(&mut install) {
        bail!("{name} is missing ({error:#}): cargo install --locked {name}");
    }
    std::fs::remove_dir_all(&target)?;
    Ok(cached)
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}
