use maestro_protocol::{Problem, ProblemCode};
use std::{io, path::PathBuf};

/// Why a call to the daemon gave no answer that can be used.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nothing listens at the socket.
    #[error("no daemon answers at `{}`", socket.display())]
    Unreachable {
        /// The socket that was tried.
        socket: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The socket, or the process behind it, is another user's. Nothing was sent.
    #[error("the socket `{}` belongs to user {uid} and not to you", socket.display())]
    ForeignSocket {
        /// The socket.
        socket: PathBuf,
        /// Whose it is.
        uid: u32,
    },
    /// The daemon refused, and says why.
    #[error("{}", .0.detail)]
    Problem(Box<Problem>),
    /// The connection ended inside a request.
    #[error("the daemon broke off `{route}`")]
    BrokenOff {
        /// The request, as `METHOD /path`.
        route: String,
        /// Where it broke.
        #[source]
        source: hyper::Error,
    },
    /// The daemon took too long.
    #[error("the daemon did not answer `{route}` within {limit_s} seconds")]
    TimedOut {
        /// The request, as `METHOD /path`.
        route: String,
        /// How long was waited, in seconds.
        limit_s: u64,
    },
    /// The daemon's answer is none that this version knows.
    #[error("the daemon's answer to `{route}` cannot be read")]
    Unreadable {
        /// The request, as `METHOD /path`.
        route: String,
        /// What is wrong with it.
        #[source]
        source: UnreadableAnswer,
    },
}

impl ClientError {
    /// The daemon's reason, if it was the daemon that refused.
    pub fn code(&self) -> Option<ProblemCode> {
        match self {
            Self::Problem(problem) => Some(problem.code),
            Self::Unreachable { .. }
            | Self::ForeignSocket { .. }
            | Self::BrokenOff { .. }
            | Self::TimedOut { .. }
            | Self::Unreadable { .. } => None,
        }
    }
}

/// What is wrong with an answer.
#[derive(Debug, thiserror::Error)]
pub enum UnreadableAnswer {
    /// It is not the JSON that belongs to the route.
    #[error("it is not the JSON that belongs here")]
    Json(#[source] serde_json::Error),
    /// It is longer than any answer of the daemon.
    #[error("it is longer than {max_bytes} bytes")]
    TooLong {
        /// The limit.
        max_bytes: usize,
    },
    /// It refuses without a problem document.
    #[error("it has the status {status} and no problem document")]
    NoProblem {
        /// The HTTP status.
        status: u16,
    },
    /// It does not switch to the WebSocket protocol as asked.
    #[error("it does not accept the WebSocket")]
    NoWebSocket,
    /// A socket message is not text.
    #[error("a socket message is not text")]
    NotText,
    /// A delta does not fit what was sent before.
    #[error("a delta does not fit what was sent before")]
    Gap(#[source] crate::Gap),
}
