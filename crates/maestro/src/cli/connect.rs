//! Finding the daemon, and starting one in the background where there is none.

use super::{CommandError, Context, patience::Patience, print_err, say};
use crate::{config::Settings, render::lines_of, terminal::clean};
use maestro_client::{Client, ClientError};
use rustix::process::umask;
use std::{
    fs::{DirBuilder, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    process::{Child, Command, Stdio},
    time::Duration,
};
use tokio::time::Instant;

/// What the daemon writes down as the client of a decision.
const USER_AGENT: &str = concat!("maestro-cli/", env!("CARGO_PKG_VERSION"));

/// How long a new daemon may take until it answers: it reads all sessions' sidecars first.
const READY_LIMIT: Duration = Duration::from_secs(30);
const READY_POLL: Duration = Duration::from_millis(20);

/// A log longer than this starts again with the next daemon.
const LOG_MAX_BYTES: u64 = 8 << 20;

/// How many of the log's last lines are shown where a daemon does not start.
const LOG_TAIL_LINES: usize = 15;

pub(super) async fn client(context: &Context) -> Result<Client, CommandError> {
    match connect(&context.settings).await {
        Ok(client) => Ok(client),
        Err(error @ ClientError::Unreachable { .. }) if context.no_start => Err(error.into()),
        Err(ClientError::Unreachable { .. }) if maestro_process::lineage::self_is_agent() => {
            let message = "no daemon runs, and a program that an agent started may not start one";
            Err(CommandError::unreachable(message).hint("start it outside of any agent: `maestro serve`"))
        }
        Err(ClientError::Unreachable { .. }) => start(context).await,
        Err(error) => Err(error.into()),
    }
}

/// A client of a daemon that runs already.
pub(super) async fn connect(settings: &Settings) -> Result<Client, ClientError> {
    Client::connect(&settings.socket(), USER_AGENT).await
}

/// Starts a daemon and waits until it answers.
async fn start(context: &Context) -> Result<Client, CommandError> {
    let settings = &context.settings;
    let log_path = settings.daemon_log();
    let failed = |error| CommandError::internal("starting a daemon in the background", error);
    let (log, log_start) = open_log(settings).map_err(|error| unusable(settings, error))?;
    let mut daemon = spawn(context, log).map_err(failed)?;

    let started = Instant::now();
    let deadline = started + READY_LIMIT;
    let mut patience = Patience::default();
    loop {
        match connect(settings).await {
            Ok(client) => {
                say(&format!("started a daemon for {}", settings.data_path.display()))?;
                return Ok(client);
            }
            Err(ClientError::Unreachable { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let ended = daemon.try_wait().map_err(failed)?;
        // One that lost the race for the lock leaves the winner to be waited for.
        let lost_race = ended.and_then(|status| status.code()) == Some(75);
        if (ended.is_some() && !lost_race) || Instant::now() >= deadline {
            let what =
                ended.map_or_else(|| "does not answer".to_owned(), |status| format!("ended with {status}"));
            print_err(&log_tail(settings, log_start))?;
            let failed = CommandError::unreachable(format!("the daemon that was started {what}"));
            return Err(failed.hint(format!("its log is {}", log_path.display())));
        }
        if patience.is_over(started.elapsed()) {
            say("waiting for a daemon to start…")?;
        }
        tokio::time::sleep(READY_POLL).await;
    }
}

/// The log, and how long it is before the new daemon writes to it.
fn open_log(settings: &Settings) -> io::Result<(File, u64)> {
    DirBuilder::new().recursive(true).mode(0o700).create(settings.run_dir())?;
    let log = OpenOptions::new().create(true).append(true).mode(0o600).open(settings.daemon_log())?;
    if log.metadata()?.len() > LOG_MAX_BYTES {
        log.set_len(0)?;
    }
    let start = log.metadata()?.len();
    Ok((log, start))
}

/// A data directory of a person's choice that cannot be one is no defect.
fn unusable(settings: &Settings, error: io::Error) -> CommandError {
    let message = format!("the data directory `{}` cannot be used", settings.data_path.display());
    CommandError::user(message).caused_by(error).hint("name another with --data-path DIR")
}

/// Starts the daemon with the person's own umask, which it hands on to agents after setting its own.
fn spawn(context: &Context, log: File) -> io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("serve").arg("--background").arg("--data-path").arg(&context.settings.data_path);
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    let private = umask(context.person_umask);
    let daemon = command.spawn();
    umask(private);
    daemon
}

/// The end of what the daemon wrote to its log since `start`, for a person to read.
fn log_tail(settings: &Settings, start: u64) -> String {
    let text = std::fs::read(settings.daemon_log()).unwrap_or_default();
    let start = usize::try_from(start).unwrap_or(usize::MAX);
    let text = clean(&String::from_utf8_lossy(text.get(start..).unwrap_or_default()));
    let lines: Vec<&str> = text.lines().collect();
    let tail = lines.iter().skip(lines.len().saturating_sub(LOG_TAIL_LINES));
    lines_of(tail.map(|line| format!("  │ {line}")))
}
