use rustix::{
    fs::Mode,
    process::{Resource, Rlimit, getrlimit, setrlimit, umask},
};
use serde::{Deserialize, Serialize};

/// What the person had set for processes before the daemon changed it for itself. Every agent gets it back
/// (CONTRACT §2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessDefaults {
    umask: u32,
    /// Absent: no limit.
    soft_files: Option<u64>,
}

impl ProcessDefaults {
    /// Sets the daemon's own values (umask 077, as many descriptors as its hard limit allows) and returns
    /// those that were there before. For the first lines of `main`, once: later it would take the daemon's own
    /// for the person's.
    pub fn replace() -> Self {
        let umask = umask(Mode::RWXG | Mode::RWXO).bits();
        let files = getrlimit(Resource::Nofile);
        // Raising the soft limit up to the hard one is always allowed; where something else forbids it the
        // daemon lives with the lower limit.
        if setrlimit(Resource::Nofile, Rlimit { current: files.maximum, maximum: files.maximum }).is_err() {
            return Self { umask, soft_files: files.current };
        }
        Self { umask, soft_files: files.current }
    }

    /// Puts the person's values into force again, for this process and what it starts.
    pub(crate) fn restore(self) -> rustix::io::Result<()> {
        umask(Mode::from_bits_truncate(self.umask));
        let files = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: self.soft_files, maximum: files.maximum })
    }
}
