//! The ways into a session's actor.

use crate::session::handle::{Command, StopWish};
use tokio::sync::mpsc;

/// The receiving ends of a handle.
pub(super) struct Lanes {
    pub(super) commands: mpsc::Receiver<Box<Command>>,
    pub(super) urgent: mpsc::Receiver<Box<Command>>,
    pub(super) looks: mpsc::Receiver<Box<Command>>,
    pub(super) stops: mpsc::Receiver<StopWish>,
}

impl Lanes {
    /// Closes the lanes unless something waits in them, and tells whether it did. Whoever comes too late, in between too,
    /// finds its command dropped and asks the registry for a new actor.
    pub(super) fn close_if_empty(&mut self) -> bool {
        if !self.is_empty() {
            return false;
        }
        self.commands.close();
        self.urgent.close();
        self.looks.close();
        self.stops.close();
        true
    }

    fn is_empty(&self) -> bool {
        self.commands.is_empty() && self.urgent.is_empty() && self.looks.is_empty() && self.stops.is_empty()
    }

    /// What waits, people's wishes before sockets' questions.
    pub(super) fn next_command(&mut self) -> Option<Box<Command>> {
        let lanes = [&mut self.urgent, &mut self.commands, &mut self.looks];
        lanes.into_iter().find_map(|lane| lane.try_recv().ok())
    }

    /// A question of a socket that waits.
    pub(super) fn next_look(&mut self) -> Option<Box<Command>> {
        self.looks.try_recv().ok()
    }
}
