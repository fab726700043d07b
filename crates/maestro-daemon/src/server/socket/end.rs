//! Why a socket ends, and how the client is told.

use crate::session::{Pulse, SessionError};
use maestro_protocol::EndReason;
use std::time::Duration;
use tokio::{sync::watch, time::timeout};
use tokio_tungstenite::tungstenite::{
    self,
    error::CapacityError,
    protocol::{CloseFrame, frame::coding::CloseCode},
};

/// The session is dead; there is nothing more to wait for.
const DEAD: u16 = 4410;

/// How long the owner of a session that dropped a question may take to say why it ends.
const LAST_WORD: Duration = Duration::from_secs(2);

/// Why a socket ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The session is dead.
    Dead,
    /// The daemon shuts down: come again.
    Shutdown,
    /// The client left or is gone.
    Left,
    /// The client gave no sign of life.
    Silent,
    /// The client did not read a frame in time.
    TooSlow,
    /// The client sent a message over the limit.
    TooLong,
    /// The client broke the protocol.
    Broken,
    /// The client sent text that is not UTF-8.
    NotUtf8,
    /// The daemon failed.
    Defect,
}

impl End {
    pub(super) fn of_session(reason: EndReason) -> Self {
        if reason == EndReason::DaemonShutdown { Self::Shutdown } else { Self::Dead }
    }

    /// The session's owner is gone and will announce nothing more.
    pub(super) fn of_owner(last: &Pulse) -> Self {
        last.ended.map_or(Self::Shutdown, Self::of_session)
    }

    /// The session's owner dropped a question: it is ending, or broke off, and announces why before it is gone.
    pub(super) async fn of_gone(pulse: &mut watch::Receiver<Pulse>) -> Self {
        // An error means that it is gone, or takes longer than anybody waits for it.
        drop(timeout(LAST_WORD, pulse.wait_for(|pulse| pulse.ended.is_some())).await);
        Self::of_owner(&pulse.borrow())
    }

    pub(super) fn of_error(error: &SessionError) -> Self {
        match error {
            SessionError::NotStructured => Self::Dead,
            SessionError::Gone => Self::Shutdown,
            _ => Self::Defect,
        }
    }

    pub(super) fn of_read(error: &tungstenite::Error) -> Self {
        match error {
            tungstenite::Error::Capacity(CapacityError::MessageTooLong { .. }) => Self::TooLong,
            tungstenite::Error::Capacity(_) | tungstenite::Error::Protocol(_) => Self::Broken,
            tungstenite::Error::Utf8(_) => Self::NotUtf8,
            _ => Self::Left,
        }
    }

    /// What the client is told; `None` when nobody listens.
    pub(super) fn frame(self) -> Option<CloseFrame> {
        let (code, reason) = match self {
            Self::Dead => (CloseCode::Library(DEAD), "the session is dead"),
            Self::Shutdown => (CloseCode::Restart, "the daemon shuts down: connect again"),
            Self::TooLong => (CloseCode::Size, "a message was longer than 64 KiB"),
            Self::Broken => (CloseCode::Protocol, "a frame broke the protocol"),
            Self::NotUtf8 => (CloseCode::Invalid, "a text was not UTF-8"),
            Self::Defect => (CloseCode::Error, "the daemon failed at this socket"),
            Self::Left | Self::Silent | Self::TooSlow => return None,
        };
        Some(CloseFrame { code, reason: reason.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::End;
    use crate::session::Pulse;
    use maestro_protocol::EndReason;
    use tokio::sync::watch;

    #[test]
    fn a_shutdown_and_a_death_have_codes_of_their_own() {
        let check = |reason: EndReason, code: u16| {
            let frame = End::of_session(reason).frame().expect("the client is told");
            assert_eq!(u16::from(frame.code), code, "{reason:?}");
        };
        check(EndReason::DaemonShutdown, 1012);
        check(EndReason::Exited, 4410);
        check(EndReason::Killed, 4410);
        check(EndReason::LogFailed, 4410);
    }

    #[test]
    fn an_owner_that_is_gone_tells_the_last_that_is_known() {
        let check = |ended: Option<EndReason>, expect: End| {
            assert_eq!(End::of_owner(&Pulse { ended, ..Pulse::default() }), expect);
        };
        check(Some(EndReason::Exited), End::Dead);
        check(None, End::Shutdown);
    }

    #[tokio::test]
    async fn an_owner_that_breaks_off_tells_it_after_its_questions_are_dropped() {
        let (sender, mut pulse) = watch::channel(Pulse::default());
        let told = tokio::spawn(async move { End::of_gone(&mut pulse).await });
        tokio::task::yield_now().await;
        sender.send_modify(|pulse| pulse.ended = Some(EndReason::DaemonCrash));
        assert_eq!(told.await.expect("an end"), End::Dead);
        let (sender, mut pulse) = watch::channel(Pulse::default());
        drop(sender);
        assert_eq!(End::of_gone(&mut pulse).await, End::Shutdown);
    }
}
