use super::Finding;
use crate::config::Settings;
use rustix::{
    fs::{Access, access, statvfs},
    process::geteuid,
};
use std::{fs, io, os::unix::fs::MetadataExt as _, path::Path};

const SUBJECT: &str = "data directory";

/// Less free space than this ends in refused prompts soon: a busy session writes megabytes.
const FREE_BYTES_MIN: u64 = 100 << 20;
/// Less than this is worth knowing.
const FREE_BYTES_LOW: u64 = 1 << 30;

pub(super) fn look(settings: &Settings) -> Vec<Finding> {
    let path = &settings.data_path;
    match fs::symlink_metadata(path).and_then(|_| fs::metadata(path)) {
        Ok(metadata) => vec![rights(path, &metadata), space(path)],
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            vec![Finding::note(
                SUBJECT,
                format!("{} is not there yet; the first daemon makes it", path.display()),
            )]
        }
        Err(error) => vec![elsewhere(Finding::wrong(SUBJECT, format!("{}: {error}", path.display())))],
    }
}

fn elsewhere(finding: Finding) -> Finding {
    finding.mend("name another with --data-path DIR or DATA_PATH")
}

fn rights(path: &Path, metadata: &fs::Metadata) -> Finding {
    let shown = path.display();
    let mode = metadata.mode() & 0o7777;
    if !metadata.is_dir() {
        elsewhere(Finding::wrong(SUBJECT, format!("{shown} is not a directory")))
    } else if metadata.uid() != geteuid().as_raw() {
        elsewhere(Finding::wrong(SUBJECT, format!("{shown} belongs to user {}, not to you", metadata.uid())))
    } else if mode & 0o022 != 0 {
        Finding::wrong(SUBJECT, format!("others may write to {shown} (mode {mode:04o})"))
            .mend(format!("chmod go-w '{shown}'"))
    } else if access(path, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK).is_err() {
        Finding::wrong(SUBJECT, format!("you may not write to {shown} (mode {mode:04o})"))
            .mend(format!("chmod u+rwx '{shown}'"))
    } else {
        Finding::ok(SUBJECT, format!("{shown} (mode {mode:04o})"))
    }
}

fn space(path: &Path) -> Finding {
    match statvfs(path) {
        Ok(disk) => space_of(disk.f_bavail.saturating_mul(disk.f_frsize)),
        Err(error) => Finding::wrong("free space", format!("it cannot be asked for: {error}")),
    }
}

fn space_of(free_bytes: u64) -> Finding {
    let free = format!("{} MiB", free_bytes >> 20);
    match free_bytes {
        0..FREE_BYTES_MIN => Finding::wrong("free space", free).mend("make room on that disk"),
        FREE_BYTES_MIN..FREE_BYTES_LOW => Finding::note("free space", free).mend("make room on that disk"),
        _ => Finding::ok("free space", free),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::Level;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn what_is_wrong_with_a_data_directory_is_found() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("data");
        let check = |level: Level, found: &str, mend: &str| {
            let settings = Settings { data_path: path.clone(), colour: false };
            let findings = look(&settings);
            let fits = |finding: &Finding| {
                let mends = finding.mend.as_deref().unwrap_or_default();
                finding.level == level && finding.found.contains(found) && mends.contains(mend)
            };
            assert!(findings.iter().any(fits), "{findings:#?}");
        };
        check(Level::Note, "is not there yet", "");
        fs::write(&path, "").expect("written");
        check(Level::Wrong, "is not a directory", "--data-path");
        fs::remove_file(&path).expect("removed");
        fs::create_dir(&path).expect("made");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("set");
        check(Level::Ok, "(mode 0700)", "");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o770)).expect("set");
        check(Level::Wrong, "others may write", "chmod go-w");
    }

    #[test]
    fn space_is_told_before_it_runs_out() {
        let check = |free_bytes, level| assert_eq!(space_of(free_bytes).level, level);
        check(0, Level::Wrong);
        check(FREE_BYTES_MIN, Level::Note);
        check(FREE_BYTES_LOW, Level::Ok);
    }
}
