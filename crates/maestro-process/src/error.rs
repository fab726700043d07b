use crate::wire::{Failure, Step};
use std::{io, path::PathBuf};

/// Why no agent can be started at all.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The executable that would be the guard cannot be opened.
    #[error("cannot open the executable {} for the guards of agents", program.display())]
    Executable {
        /// Its path.
        program: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// This process cannot be watched by guards.
    #[error("cannot get a handle of this process for the guards of agents (Linux 5.9 or newer is needed)")]
    Handle(#[source] io::Error),
    /// The kernel's boot id cannot be read.
    #[error("cannot read this boot's id under /proc (is /proc mounted?)")]
    Boot(#[source] io::Error),
    /// The thread that spawns cannot be started.
    #[error("cannot start the thread that spawns agents")]
    Thread(#[source] io::Error),
}

/// Why an agent did not start. Nothing of it is left running.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// A program must be named by an absolute path, see [`crate::resolve_program`].
    #[error("the agent's program {} is not an absolute path", program.display())]
    NotAbsolute {
        /// The program.
        program: PathBuf,
    },
    /// A variable's name is empty or has `=`, or name or value hold a NUL.
    #[error(
        "{name:?} cannot be an environment variable: a name needs a letter and no `=`, neither part a NUL byte"
    )]
    Variable {
        /// The name.
        name: String,
    },
    /// No pipe, socket or handle for the agent could be made.
    #[error("cannot make the pipes to the agent {} (too many open files?)", program.display())]
    Pipes {
        /// The agent's program.
        program: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The guard did not start.
    #[error("cannot start the guard of the agent {}", program.display())]
    Guard {
        /// The agent's program.
        program: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The guard started but could not read what to start.
    #[error("the guard of the agent {} did not get its order", program.display())]
    Order {
        /// The agent's program.
        program: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The person's own limits could not be put back.
    #[error("cannot restore the limit of open files for the agent {}", program.display())]
    Limits {
        /// The agent's program.
        program: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The working directory is missing or closed to this user.
    #[error("cannot enter the working directory {}", cwd.display())]
    Directory {
        /// The directory.
        cwd: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The program is missing, not executable, or not a program.
    #[error("cannot run the agent's program {}", program.display())]
    Program {
        /// The program.
        program: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The program is there, but not what its first line (or its ELF header) wants to be run by.
    #[error("cannot run the agent's program {}: the interpreter it names is missing", program.display())]
    Interpreter {
        /// The program.
        program: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The guard ended without a word.
    #[error("the guard of the agent {} was killed before the agent started", program.display())]
    GuardLost {
        /// The agent's program.
        program: PathBuf,
    },
    /// The guard said nothing in time; it was killed.
    #[error("the agent {} did not start within {seconds} seconds (a file system that hangs?)", program.display())]
    Late {
        /// The agent's program.
        program: PathBuf,
        /// The limit.
        seconds: u64,
    },
    /// The thread that spawns is gone.
    #[error("the thread that spawns agents has ended; restart the daemon")]
    Stopped,
}

impl SpawnError {
    pub(crate) fn from_guard(failure: Failure, program: PathBuf, cwd: PathBuf) -> Self {
        let source = io::Error::from_raw_os_error(failure.errno);
        match failure.step {
            Step::Order => Self::Order { program, source },
            Step::Limits => Self::Limits { program, source },
            Step::Directory => Self::Directory { cwd, source },
            Step::Program => Self::Program { program, source },
            Step::Interpreter => Self::Interpreter { program, source },
        }
    }
}
