//! Real processes, started, watched and ended. Every wait has a limit.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod ends;
mod given;
mod starts;
mod strangers;
mod support;
