use crate::procfs;
use maestro_protocol::SessionId;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use uuid::Uuid;

/// The variable that tells every process of an agent which session it belongs to.
pub const SESSION_VARIABLE: &str = "MAESTRO_SESSION";
/// The variable that tells every process of an agent which spawn it came from: a random token.
pub const SPAWN_VARIABLE: &str = "MAESTRO_SPAWN";

/// What marks the processes of one agent in their environment (CONTRACT §2.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marker {
    /// The session.
    pub session: SessionId,
    /// Random, new for every spawn.
    pub token: Uuid,
}

impl Marker {
    /// The two variables.
    pub(crate) fn variables(&self) -> [(OsString, OsString); 2] {
        [
            (SESSION_VARIABLE.into(), self.session.to_string().into()),
            (SPAWN_VARIABLE.into(), self.token.to_string().into()),
        ]
    }

    /// The marker in an environment as `/proc/<pid>/environ` has it. Of a name that is there twice the first
    /// counts, as for `getenv`.
    pub(crate) fn find(environ: &[u8]) -> Option<Self> {
        Some(Self {
            session: procfs::variable(environ, SESSION_VARIABLE)?.parse().ok()?,
            token: procfs::variable(environ, SPAWN_VARIABLE)?.parse().ok()?,
        })
    }
}

/// What a later daemon needs to find the processes of this spawn, should daemon and guard both be killed
/// (CONTRACT §2.3). A process is this spawn's only if boot, start time and token all fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnRecord {
    /// The kernel's id of the boot in which the spawn happened.
    pub boot_id: Uuid,
    /// The guard's pid.
    pub guard_pid: u32,
    /// When the guard started, in clock ticks since that boot; none of its processes is older.
    pub guard_start_ticks: u64,
    /// The marker that guard, agent and what they start carry in their environment.
    #[serde(flatten)]
    pub marker: Marker,
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: &str = "0e4c1f6e-3f0a-4f6e-9d55-0d3f4bb1a001";
    const TOKEN: &str = "0e4c1f6e-3f0a-4f6e-9d55-0d3f4bb1a002";

    fn check(environ: &str, expect: bool) {
        let environ = environ.replace('S', SESSION).replace('T', TOKEN).replace('|', "\0");
        let environ = environ.replace("session=", "MAESTRO_SESSION=").replace("spawn=", "MAESTRO_SPAWN=");
        let marker = Marker { session: SESSION.parse().unwrap(), token: TOKEN.parse().unwrap() };
        assert_eq!(Marker::find(environ.as_bytes()), expect.then_some(marker), "{environ:?}");
    }

    #[test]
    fn a_marker_is_both_variables_whole() {
        check("a=b|session=S|spawn=T|", true);
        check("spawn=T|session=S", true);
        check("spawn=T|session=S|spawn=x|", true);
        check("spawn=x|session=S|spawn=T|", false);
        check("session=S|", false);
        check("spawn=T|", false);
        check("xsession=S|spawn=T|", false);
        check("a=session=S|spawn=T|", false);
        check("", false);
    }

    #[test]
    fn a_record_reads_back() {
        let text = format!(
            r#"{{"boot_id":"{TOKEN}","guard_pid":7,"guard_start_ticks":99,"session":"{SESSION}","token":"{TOKEN}"}}"#
        );
        let record: SpawnRecord = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&record).unwrap(), text);
    }
}
