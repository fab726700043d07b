use super::{CommandError, CommandResult, Context};
use maestro_acp::AgentTable;
use maestro_daemon::{Config, ServeError};
use maestro_process::ProcessDefaults;
use rustix::process::umask;
use serde::Serialize;
use std::{io, path::Path, process::ExitCode};
use tracing_subscriber::EnvFilter;

/// Run the daemon in the foreground, until SIGTERM or SIGINT
///
/// Prints `maestro is ready: unix:<socket>` once it accepts connections, with --json a `Ready` line. Other commands start
/// a daemon by themselves where none runs.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Leave the terminal that started it
    #[arg(long, hide = true)]
    background: bool,
}

/// The line of `--json`.
#[derive(Serialize)]
#[serde(tag = "type", rename = "Ready")]
struct ReadyLine<'a> {
    socket: &'a Path,
    pid: u32,
    version: &'static str,
}

pub(super) fn cmd_serve(context: &Context, args: &Args) -> CommandResult {
    if args.background {
        rustix::process::setsid().map_err(|error| CommandError::internal("leaving the terminal", error))?;
    }
    log_to_stderr(context);
    // Taken with the person's own umask in force, so that agents get that one back and not the private one.
    umask(context.person_umask);
    let defaults = ProcessDefaults::replace();
    let config = config(context, defaults)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CommandError::internal("starting the runtime", error))?;
    let served = runtime.block_on(maestro_daemon::serve(config, |ready| {
        if let Err(error) = crate::terminal::write_out(&ready_line(context.json, &ready.socket)) {
            tracing::warn!("nobody reads that the daemon is ready: {error}");
        }
    }));
    match served {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => Err(failed(error)),
    }
}

fn ready_line(json: bool, socket: &Path) -> String {
    if !json {
        return format!("maestro is ready: unix:{}\n", socket.display());
    }
    let line = ReadyLine { socket, pid: std::process::id(), version: env!("CARGO_PKG_VERSION") };
    serde_json::to_string(&line).expect("a path of the daemon's own is UTF-8 or was refused before") + "\n"
}

fn config(context: &Context, defaults: ProcessDefaults) -> Result<Config, CommandError> {
    let agents = agent_table(context)?;
    let program = std::env::current_exe();
    let program = program.map_err(|error| CommandError::internal("finding maestro's own program", error))?;
    Ok(Config { data_path: context.settings.data_path.clone(), agents, program, defaults })
}

/// The agents that a daemon of this data directory has.
pub(super) fn agent_table(context: &Context) -> Result<AgentTable, CommandError> {
    let overrides = context.settings.config_file()?.agents;
    let agents = AgentTable::built_in().with_overrides(overrides);
    agents.map_err(|error| CommandError::user("config.toml cannot be used").caused_by(error))
}

fn failed(error: ServeError) -> CommandError {
    if error.is_locked() {
        return CommandError::lock_held(error).hint("`--data-path DIR` names another data directory");
    }
    CommandError::user("the daemon cannot run").caused_by(error)
}

/// Levels per target come from `MAESTRO_LOG`, in the form of tracing's filters.
fn log_to_stderr(context: &Context) {
    let filter = EnvFilter::builder().with_default_directive(tracing::Level::INFO.into());
    let colour = context.terminal.err_paint == crate::terminal::Paint::Coloured;
    tracing_subscriber::fmt()
        .with_env_filter(filter.with_env_var("MAESTRO_LOG").from_env_lossy())
        .with_writer(io::stderr)
        .with_ansi(colour)
        // Told on the standard error too, such a failure would be a panic where that is a file on a full disk.
        .log_internal_errors(false)
        .init();
}
