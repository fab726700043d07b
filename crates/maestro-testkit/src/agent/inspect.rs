use super::recorder::Recorder;
use crate::record::Inspection;
use std::{env, fs};

/// The file descriptors of a process that has opened none itself yet.
#[derive(Debug)]
pub(super) struct Inspected {
    descriptors: Vec<(u32, String)>,
}

impl Inspected {
    pub(super) fn take() -> Self {
        let entries = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
        let named = entries.filter_map(|entry| {
            let number = entry.file_name().to_str()?.parse().ok()?;
            let target = fs::read_link(entry.path()).ok()?.to_string_lossy().into_owned();
            // The directory that is being read has a descriptor, too.
            let own = target.starts_with("/proc/") && target.ends_with("/fd");
            (!own).then_some((number, target))
        });
        let mut descriptors: Vec<_> = named.collect();
        descriptors.sort();
        Self { descriptors }
    }

    pub(super) fn report(&self, recorder: &Recorder) -> Inspection {
        let number = |text: String| text.parse().unwrap_or(0);
        Inspection {
            process: recorder.process(),
            environment: env::vars_os()
                .map(|(key, value)| (key.to_string_lossy().into(), value.to_string_lossy().into()))
                .collect(),
            descriptors: self.descriptors.clone(),
            cwd: env::current_dir().map(|path| path.to_string_lossy().into_owned()).unwrap_or_default(),
            umask: field("/proc/self/status", "Umask:", 0),
            open_files: field("/proc/self/limits", "Max open files", 0),
            pid: std::process::id(),
            parent: number(field("/proc/self/status", "PPid:", 0)),
            group: u32::try_from(rustix::process::getpgrp().as_raw_nonzero().get()).unwrap_or(0),
        }
    }
}

/// The `index`th word after `label` in a file of /proc; empty if there is none.
fn field(path: &str, label: &str, index: usize) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let rest = text.lines().find_map(|line| line.strip_prefix(label)).unwrap_or_default();
    rest.split_whitespace().nth(index).unwrap_or_default().into()
}
