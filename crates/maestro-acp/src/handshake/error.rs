use crate::{HANDSHAKE_TIMEOUT, ReaderEnd, RpcError, SendError, handshake::KEPT_BYTES_MAX};
use std::fmt;

/// A step of the handshake, displayed as the request that the agent is asked to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// What either side is.
    Initialize,
    /// A fresh session.
    New,
    /// A session that the agent made before.
    Load,
    /// A wished mode, model or option.
    Settings,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Initialize => "initialize",
            Self::New => "session/new",
            Self::Load => "session/load",
            Self::Settings => "the wished settings",
        })
    }
}

/// Why no session could be opened with an agent. Where a person must sign in first, [`Self::needs_sign_in`] tells.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// Too slow.
    #[error(
        "the agent did not answer {phase} within the {} s of the handshake; run it in a terminal to see what it waits \
         for",
        HANDSHAKE_TIMEOUT.as_secs()
    )]
    TimedOut {
        /// What was not answered in time.
        phase: Phase,
    },
    /// Gone.
    #[error("the agent ended before it had answered {phase}; what it wrote to stderr tells more")]
    Ended {
        /// What was not answered.
        phase: Phase,
        /// How its output ended.
        source: ReaderEnd,
    },
    /// Unwilling.
    #[error("the agent answered {phase} with {error}")]
    Rejected {
        /// What was refused.
        phase: Phase,
        /// The error as the agent sent it.
        error: RpcError,
    },
    /// A protocol that is not spoken here.
    #[error(
        "the agent answered initialize with protocol version {version}, but maestro speaks 1; install another version of the agent"
    )]
    WrongVersion {
        /// The version as the agent wrote it.
        version: String,
    },
    /// No `loadSession` among its capabilities.
    #[error(
        "the agent does not advertise loadSession, so session/load cannot be asked of it; start a new session"
    )]
    CannotLoad,
    /// A session without a name.
    #[error("the agent's answer to session/new has no sessionId; install another version of the agent")]
    NoSessionId,
    /// More than is kept.
    #[error("the agent sent more than {} MiB before it had answered {phase}", KEPT_BYTES_MAX / 1024 / 1024)]
    Flooded {
        /// What was not answered.
        phase: Phase,
    },
    /// It does not listen.
    #[error("nothing could be sent to the agent during {phase}")]
    Unsent {
        /// What was going on.
        phase: Phase,
        /// Why.
        source: SendError,
    },
}

impl HandshakeError {
    /// Whether the agent wants a person to sign in first.
    pub fn needs_sign_in(&self) -> bool {
        matches!(self, Self::Rejected { error, .. } if error.needs_sign_in())
    }
}
