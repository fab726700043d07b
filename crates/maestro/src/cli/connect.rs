//! Finding the daemon, and starting one in the background where there is none.

use super::{CommandError, Context, print_err, say};
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

async fn connect(settings: &Settings) -> Result<Client, ClientError> {
    Client::connect(&settings.socket(), USER_AGENT).await
}

/// Starts a daemon and waits until it answers.
async fn start(context: &Context) -> Result<Client, CommandError> {
    let settings = &context.settings;
    let log_path = settings.daemon_log();
    let failed = |error| CommandError::internal("starting a daemon in the background", error);
    let log = open_log(settings).map_err(failed)?;
    let mut daemon = spawn(context, log).map_err(failed)?;
    say(&format!("started a daemon for {}", settings.data_path.display()))?;

    let deadline = Instant::now() + READY_LIMIT;
    loop {
        match connect(settings).await {
            Ok(client) => return Ok(client),
            Err(ClientError::Unreachable { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let ended = daemon.try_wait().map_err(failed)?;
        // One that lost the race for the lock leaves the winner to be waited for.
        let lost_race = ended.and_then(|status| status.code()) == Some(75);
        if (ended.is_some() && !lost_race) || Instant::now() >= deadline {
            let what =
                ended.map_or_else(|| "does not answer".to_owned(), |status| format!("ended with {status}"));
            print_err(&log_tail(settings))?;
            let failed = CommandError::unreachable(format!("the daemon that was started {what}"));
            return Err(failed.hint(format!("its log is {}", log_path.display())));
        }
        tokio::time::sleep(READY_POLL).await;
    }
}

fn open_log(settings: &Settings) -> io::Result<File> {
    DirBuilder::new().recursive(true).mode(0o700).create(settings.run_dir())?;
    let log = OpenOptions::new().create(true).append(true).mode(0o600).open(settings.daemon_log())?;
    if log.metadata()?.len() > LOG_MAX_BYTES {
        log.set_len(0)?;
    }
    Ok(log)
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

/// The end of the daemon's log, for a person to read.
fn log_tail(settings: &Settings) -> String {
    let text = std::fs::read(settings.daemon_log()).unwrap_or_default();
    let text = clean(&String::from_utf8_lossy(&text));
    let lines: Vec<&str> = text.lines().collect();
    let tail = lines.iter().skip(lines.len().saturating_sub(LOG_TAIL_LINES));
    lines_of(tail.map(|line| format!("  │ {line}")))
}
