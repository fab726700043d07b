use std::time::{SystemTime, UNIX_EPOCH};

const PREFIX: &str = "demo";

/// Makes ids that no other process of the demo agent made: session ids, which prove themselves, and ids of messages
/// and tool calls, which stay unique in a session that several processes served one after the other.
#[derive(Debug)]
pub(super) struct Identity {
    /// Unique to this process.
    stamp: String,
    made: u64,
}

impl Identity {
    pub(super) fn of_this_process() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::new(format!("{:x}{:x}", since.as_nanos(), std::process::id()))
    }

    fn new(stamp: String) -> Self {
        Self { stamp, made: 0 }
    }

    fn next(&mut self) -> String {
        self.made += 1;
        format!("{}-{}", self.stamp, self.made)
    }

    /// An id for a session: `demo-<stamp>-<number>-<check>`.
    pub(super) fn session(&mut self) -> String {
        let body = self.next();
        format!("{PREFIX}-{body}-{:08x}", check_of(&body))
    }

    /// An id for a message or a tool call.
    pub(super) fn part(&mut self, kind: &str) -> String {
        format!("{kind}-{}", self.next())
    }
}

/// Whether the demo agent, in this or another process, gave this session id. It keeps no list: the id ends in a
/// checksum of itself. That tells strangers' ids apart and is no secret.
pub(super) fn is_session(id: &str) -> bool {
    let body = id.strip_prefix(PREFIX).and_then(|rest| rest.strip_prefix('-'));
    let parts = body.and_then(|body| body.rsplit_once('-'));
    parts.is_some_and(|(body, check)| format!("{:08x}", check_of(body)) == check)
}

/// A few letters of a session id, for names of files.
pub(super) fn short(id: &str) -> &str {
    id.rsplit('-').next().unwrap_or(id)
}

/// FNV-1a, 32 bits.
fn check_of(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_id_proves_itself() {
        let mut identity = Identity::new("17f".into());
        let (first, second) = (identity.session(), identity.session());
        assert_ne!(first, second);
        assert_ne!(identity.part("m"), identity.part("m"));
        let check = |id: &str, expect: bool| assert_eq!(is_session(id), expect, "{id}");
        check(&first, true);
        check(&second, true);
        check(&first.replace("17f", "18f"), false);
        check(&first[..first.len() - 1], false);
        check("demo", false);
        check("demo-", false);
        check("", false);
        check("sess-1", false);
    }
}
