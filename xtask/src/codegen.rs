//! Files that come from code. The work is a test of the crate that they come from, so that every full test run proves
//! them current without another build.

use crate::shell;
use anyhow::Result;

/// What to do about a file that differs from the code.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Aim {
    /// Write it.
    Write,
    /// Fail.
    Check,
}

impl Aim {
    pub(crate) fn from_check(check: bool) -> Self {
        if check { Self::Check } else { Self::Write }
    }
}

/// `docs/openapi.json`, from the daemon.
pub(crate) fn run(aim: Aim) -> Result<()> {
    let test = "openapi::tests::the_checked_in_document_is_this_one";
    let mut command = shell::cargo([
        "test",
        "--quiet",
        "--locked",
        "--package",
        "maestro-daemon",
        "--lib",
        "--",
        "--exact",
        test,
    ]);
    match aim {
        Aim::Write => command.env("UPDATE_OPENAPI", "1"),
        Aim::Check => command.env_remove("UPDATE_OPENAPI"),
    };
    shell::run(&mut command)
}
