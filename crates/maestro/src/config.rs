//! Settings: flags, then the environment, then `config.toml`, then defaults. The one reader of all of them.

use maestro_acp::AgentOverride;
use maestro_protocol::AgentKey;
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    ffi::OsString,
    io,
    path::{Path, PathBuf},
};

/// What a person set, or what holds where nothing was set.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Settings {
    /// The data directory, absolute.
    pub(crate) data_path: PathBuf,
    /// Whether output may be coloured.
    pub(crate) colour: bool,
}

/// `config.toml`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConfigFile {
    /// `[agents.<key>]`: changes to the agent table.
    #[serde(default)]
    pub(crate) agents: BTreeMap<AgentKey, AgentOverride>,
}

/// Why the settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SettingsError {
    #[error("no data directory: none of --data-path, DATA_PATH, XDG_DATA_HOME and HOME is set")]
    NoDataPath,
    #[error("the data directory `{}` cannot be made absolute", path.display())]
    Relative { path: PathBuf, source: io::Error },
    #[error("`{}` cannot be read", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("`{}` is not a configuration that this version knows", path.display())]
    Malformed { path: PathBuf, source: Box<toml::de::Error> },
}

impl Settings {
    /// The settings of this process, given the data directory of the command line.
    pub(crate) fn load(data_path_flag: Option<&Path>) -> Result<Self, SettingsError> {
        Self::from_environment(data_path_flag, |name| std::env::var_os(name))
    }

    fn from_environment(
        data_path_flag: Option<&Path>,
        environment: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, SettingsError> {
        // An empty variable counts as unset, as the XDG specification and NO_COLOR say.
        let set = |name: &str| environment(name).filter(|value| !value.is_empty());
        let below = |name: &str, rest: &str| set(name).map(|dir| PathBuf::from(dir).join(rest));
        let found = data_path_flag
            .map(Path::to_path_buf)
            .or_else(|| set("DATA_PATH").map(PathBuf::from))
            .or_else(|| below("XDG_DATA_HOME", "maestro"))
            .or_else(|| below("HOME", ".local/share/maestro"))
            .ok_or(SettingsError::NoDataPath)?;
        let data_path =
            std::path::absolute(&found).map_err(|source| SettingsError::Relative { path: found, source })?;
        Ok(Self { data_path, colour: set("NO_COLOR").is_none() })
    }

    /// Reads `config.toml`; a missing one is an empty one.
    pub(crate) fn config_file(&self) -> Result<ConfigFile, SettingsError> {
        let path = self.data_path.join("config.toml");
        match std::fs::read_to_string(&path) {
            Ok(text) => toml::from_str(&text)
                .map_err(|source| SettingsError::Malformed { path, source: Box::new(source) }),
            Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(ConfigFile::default()),
            Err(source) => Err(SettingsError::Unreadable { path, source }),
        }
    }

    /// The directory of a running daemon's own files.
    pub(crate) fn run_dir(&self) -> PathBuf {
        self.data_path.join("run")
    }

    /// Where the daemon listens: what `run/daemon.json` says, where a socket whose path would be too
    /// long was moved elsewhere, else `run/daemon.sock`.
    pub(crate) fn socket(&self) -> PathBuf {
        #[derive(Deserialize)]
        struct Announcement {
            socket: PathBuf,
        }
        let announced = std::fs::read(self.run_dir().join("daemon.json"))
            .ok()
            .and_then(|text| serde_json::from_slice::<Announcement>(&text).ok());
        announced.map_or_else(|| self.run_dir().join("daemon.sock"), |announcement| announcement.socket)
    }

    /// What a daemon in the background writes.
    pub(crate) fn daemon_log(&self) -> PathBuf {
        self.run_dir().join("daemon.log")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(flag: Option<&str>, environment: &[(&str, &str)], expect: Option<(&str, bool)>) {
        let variable = |name: &str| {
            environment.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
        };
        let settings = Settings::from_environment(flag.map(Path::new), variable).ok();
        let expect = expect.map(|(path, colour)| Settings { data_path: path.into(), colour });
        assert_eq!(settings, expect);
    }

    #[test]
    fn the_data_directory_is_found_in_order() {
        let all = [("DATA_PATH", "/d"), ("XDG_DATA_HOME", "/x"), ("HOME", "/h")];
        check(Some("/f"), &all, Some(("/f", true)));
        check(None, &all, Some(("/d", true)));
        check(None, &all[1..], Some(("/x/maestro", true)));
        check(None, &all[2..], Some(("/h/.local/share/maestro", true)));
        check(None, &[("DATA_PATH", ""), ("HOME", "/h")], Some(("/h/.local/share/maestro", true)));
        check(None, &[], None);
    }

    #[test]
    fn no_color_counts_unless_empty() {
        check(Some("/f"), &[("NO_COLOR", "1")], Some(("/f", false)));
        check(Some("/f"), &[("NO_COLOR", "")], Some(("/f", true)));
    }

    #[test]
    fn the_configuration_is_optional_and_strict() {
        let dir = tempfile::tempdir().expect("a directory");
        let settings = Settings { data_path: dir.path().into(), colour: true };
        assert_eq!(settings.config_file().expect("no file"), ConfigFile::default());
        let write = |text: &str| std::fs::write(dir.path().join("config.toml"), text).expect("written");
        write("[agents.demo]\ncancel_grace_ms = 700\n");
        assert_eq!(settings.config_file().expect("read").agents.len(), 1);
        write("colour = true\n");
        assert!(matches!(settings.config_file(), Err(SettingsError::Malformed { .. })));
        write("[agents\n");
        assert!(matches!(settings.config_file(), Err(SettingsError::Malformed { .. })));
    }

    #[test]
    fn the_daemon_says_where_it_listens() {
        let dir = tempfile::tempdir().expect("a directory");
        let settings = Settings { data_path: dir.path().into(), colour: true };
        assert_eq!(settings.socket(), dir.path().join("run/daemon.sock"));
        std::fs::create_dir(settings.run_dir()).expect("made");
        let announced = r#"{"pid": 1, "socket": "/elsewhere/daemon.sock"}"#;
        std::fs::write(dir.path().join("run/daemon.json"), announced).expect("written");
        assert_eq!(settings.socket(), Path::new("/elsewhere/daemon.sock"));
        std::fs::write(dir.path().join("run/daemon.json"), "{").expect("written");
        assert_eq!(settings.socket(), dir.path().join("run/daemon.sock"));
    }
}
