use crate::record::Entry;
use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
};

/// Where a script's record goes unless told otherwise.
pub(crate) fn path_for(script: &Path) -> PathBuf {
    let mut path = script.as_os_str().to_owned();
    path.push(".record");
    path.into()
}

/// Appends to the record, one write per entry, so that processes and threads share the file.
#[derive(Debug, Clone)]
pub(super) struct Recorder {
    file: Arc<File>,
    path: Arc<Path>,
    process: usize,
}

impl Recorder {
    /// Opens the record and enters this process, whose number is one more than that of the last process before.
    pub(super) fn start(path: &Path) -> io::Result<Self> {
        let mut record = Vec::new();
        let mut file = OpenOptions::new().create(true).append(true).read(true).open(path)?;
        file.lock()?;
        file.read_to_end(&mut record)?;
        let process = 1 + Entry::parse_all(&record)?
            .iter()
            .filter(|entry| matches!(entry, Entry::Started { .. }))
            .count();
        let recorder = Self { file: Arc::new(file), path: path.into(), process };
        recorder.enter(&Entry::Started { process, pid: std::process::id() })?;
        recorder.file.unlock()?;
        Ok(recorder)
    }

    /// Opens the record for a process that a scripted agent left behind.
    pub(super) fn join(path: &Path, process: usize) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).open(path)?;
        Ok(Self { file: Arc::new(file), path: path.into(), process })
    }

    pub(super) fn enter(&self, entry: &Entry) -> io::Result<()> {
        let mut line = serde_json::to_vec(entry)?;
        line.push(b'\n');
        (&*self.file).write_all(&line)
    }

    pub(super) fn process(&self) -> usize {
        self.process
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}
