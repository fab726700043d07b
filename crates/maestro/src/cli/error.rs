use crate::{config::SettingsError, render::lines_of, terminal::clean_line};
use maestro_client::ClientError;
use maestro_protocol::{Problem, ProblemCode};
use std::{
    error::Error,
    io::{self, Write as _},
    process::ExitCode,
};

pub(super) const USER: u8 = 1;
pub(super) const USAGE: u8 = 2;
const UNREACHABLE: u8 = 3;
pub(super) const INTERNAL: u8 = 70;
const LOCK_HELD: u8 = 75;
/// What a shell shows for a program that SIGPIPE ended.
const CLOSED_PIPE: u8 = 141;

/// Whose move it is after a failure; decides the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The person asked for something that cannot be.
    User,
    /// No daemon answers.
    Unreachable,
    /// A defect.
    Internal,
    /// Another daemon has the data directory.
    LockHeld,
    /// The reader of the output left. Nothing is said: nobody reads it.
    ClosedPipe,
}

/// Why a command failed, and what a person can do about it.
#[derive(Debug)]
pub(super) struct CommandError {
    kind: Kind,
    message: String,
    source: Option<Box<dyn Error>>,
    hints: Vec<String>,
}

impl CommandError {
    pub(super) fn user(message: impl Into<String>) -> Self {
        Self { kind: Kind::User, message: message.into(), source: None, hints: Vec::new() }
    }

    pub(super) fn unreachable(message: impl Into<String>) -> Self {
        Self { kind: Kind::Unreachable, ..Self::user(message) }
    }

    /// A step of our own failed.
    pub(super) fn internal(step: &str, source: impl Error + 'static) -> Self {
        Self { kind: Kind::Internal, ..Self::user(format!("{step} failed")) }.caused_by(source)
    }

    pub(super) fn lock_held(source: impl Error + 'static) -> Self {
        Self { kind: Kind::LockHeld, ..Self::user("another daemon has the data directory") }.caused_by(source)
    }

    /// Writing to a stream of our own failed.
    pub(super) fn output(source: io::Error) -> Self {
        if source.kind() == io::ErrorKind::BrokenPipe {
            return Self { kind: Kind::ClosedPipe, ..Self::user("the output was closed") };
        }
        Self::user("the output cannot be written").caused_by(source)
    }

    pub(super) fn caused_by(mut self, source: impl Error + 'static) -> Self {
        self.source = Some(Box::new(source));
        self
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Tells the person on the standard error and gives the exit code.
    pub(super) fn report(&self) -> ExitCode {
        let code = ExitCode::from(self.exit_code());
        if self.kind == Kind::ClosedPipe {
            return code;
        }
        match io::stderr().lock().write_all(self.text().as_bytes()) {
            // Without a standard error the exit code is all that is left to say.
            Ok(()) | Err(_) => code,
        }
    }

    pub(super) fn exit_code(&self) -> u8 {
        match self.kind {
            Kind::User => USER,
            Kind::Unreachable => UNREACHABLE,
            Kind::Internal => INTERNAL,
            Kind::LockHeld => LOCK_HELD,
            Kind::ClosedPipe => CLOSED_PIPE,
        }
    }

    /// What happened and why, on one line.
    pub(super) fn sentence(&self) -> String {
        let mut words = self.message.clone();
        let mut cause: Option<&dyn Error> = self.source.as_deref();
        while let Some(error) = cause {
            words = format!("{words}: {error}");
            cause = error.source();
        }
        words
    }

    /// `error:`, its causes, and a `hint:` for each thing to do.
    fn text(&self) -> String {
        let mut lines = vec![format!("error: {}", clean_line(&self.message))];
        let mut cause: Option<&dyn Error> = self.source.as_deref();
        while let Some(error) = cause {
            lines.push(format!("  because: {}", clean_line(&error.to_string())));
            cause = error.source();
        }
        lines.extend(self.hints.iter().map(|hint| format!("hint: {}", clean_line(hint))));
        lines_of(lines)
    }
}

impl From<SettingsError> for CommandError {
    fn from(error: SettingsError) -> Self {
        let message = error.to_string();
        let failed = match error {
            SettingsError::NoDataPath => return Self::user(message).hint("name one with --data-path DIR"),
            SettingsError::Relative { source, .. } | SettingsError::Unreadable { source, .. } => {
                Self::user(message).caused_by(source)
            }
            SettingsError::Malformed { source, .. } => Self::user(message).caused_by(*source),
        };
        failed.hint("mend it, or name another data directory with --data-path DIR")
    }
}

impl From<ClientError> for CommandError {
    fn from(error: ClientError) -> Self {
        let message = error.to_string();
        match error {
            ClientError::Unreachable { source, .. } => Self::unreachable(message)
                .caused_by(source)
                .hint("start one with `maestro serve`, or leave --no-start away"),
            ClientError::ForeignSocket { .. } => {
                Self::user(message).hint("use a data directory of your own: --data-path DIR")
            }
            ClientError::Problem(problem) => refused(&problem),
            ClientError::BrokenOff { source, .. } => Self::unreachable(message)
                .caused_by(source)
                .hint("it may have been stopped: see `maestro ls`"),
            ClientError::TimedOut { .. } => {
                Self::unreachable(message).hint("it may still do what was asked: see `maestro ls`")
            }
            ClientError::Unreadable { source, .. } => Self { kind: Kind::Internal, ..Self::user(message) }
                .caused_by(source)
                .hint("daemon and command may be of different versions: restart the daemon"),
        }
    }
}

/// The daemon's own words, and the command that helps.
fn refused(problem: &Problem) -> CommandError {
    let refused = CommandError::user(problem.detail.clone());
    match problem.code {
        ProblemCode::TurnInFlight => refused.hint(
            "let the prompt wait with `maestro prompt <id> --queue`, or end the turn with `maestro cancel <id>`",
        ),
        ProblemCode::Starting | ProblemCode::Busy => refused.hint("try again in a moment"),
        ProblemCode::UnknownAgent => refused.hint("`maestro agent ls` lists the agents"),
        ProblemCode::NotFound => refused.hint("`maestro ls` lists your sessions"),
        ProblemCode::DecisionNotOffered => refused.hint(
            "`maestro show <id>` lists the options; take one with `maestro approve <id> --option <option>`",
        ),
        ProblemCode::AgentPeer => refused.hint("a person must do this, outside of any agent"),
        ProblemCode::LogUnwritable => {
            refused.hint("make room on the disk of the data directory; the session then goes on by itself")
        }
        ProblemCode::LogFailed => {
            refused.hint("check the disk of the data directory, then `maestro restart <id>`")
        }
        ProblemCode::Internal => CommandError { kind: Kind::Internal, ..refused }
            .hint(format!("the daemon's log has more under the request {}", problem.request_id)),
        // The daemon's words say what to do.
        ProblemCode::NotStructured
        | ProblemCode::InvalidRequest
        | ProblemCode::InvalidCwd
        | ProblemCode::UnknownPeer
        | ProblemCode::MethodNotAllowed
        | ProblemCode::AlreadyRunning
        | ProblemCode::CwdMissing
        | ProblemCode::QueueFull
        | ProblemCode::IdempotencyKeyReused
        | ProblemCode::CannotResume
        | ProblemCode::BodyTooLarge
        | ProblemCode::UnsupportedMediaType
        | ProblemCode::NotOffered
        | ProblemCode::AgentRefused
        | ProblemCode::AgentSilent => refused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(code: ProblemCode) -> ClientError {
        ClientError::Problem(Box::new(Problem {
            status: 400,
            title: "Bad Request".into(),
            code,
            detail: "what\nhappened\u{1b}[2J".into(),
            field: None,
            request_id: "r-1".into(),
        }))
    }

    #[test]
    fn an_error_says_what_happened_and_what_to_do() {
        let check = |error: CommandError, code: u8, text: &str| {
            assert_eq!((error.exit_code(), error.text().as_str()), (code, text));
        };
        check(CommandError::user("no"), 1, "error: no\n");
        check(
            problem(ProblemCode::UnknownAgent).into(),
            1,
            "error: what happened\nhint: `maestro agent ls` lists the agents\n",
        );
        check(
            problem(ProblemCode::Internal).into(),
            70,
            "error: what happened\nhint: the daemon's log has more under the request r-1\n",
        );
        let source = io::Error::other("refused");
        check(
            ClientError::Unreachable { socket: "/s".into(), source }.into(),
            3,
            "error: no daemon answers at `/s`\n  because: refused\n\
             hint: start one with `maestro serve`, or leave --no-start away\n",
        );
        check(
            CommandError::lock_held(io::Error::other("held by 12")),
            75,
            "error: another daemon has the data directory\n  because: held by 12\n",
        );
        assert_eq!(CommandError::output(io::ErrorKind::BrokenPipe.into()).exit_code(), 141);
    }
}
