use super::{CommandError, CommandResult, Context};
use maestro_acp::AgentTable;
use maestro_daemon::{Config, ServeError};
use maestro_process::ProcessDefaults;
use rustix::process::umask;
use std::{io, process::ExitCode};
use tracing_subscriber::EnvFilter;

/// Run the daemon in the foreground, until SIGTERM or SIGINT
///
/// Prints `maestro is ready: unix:<socket>` once it accepts connections. Other commands start a daemon by themselves
/// where none runs.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Leave the terminal that started it
    #[arg(long, hide = true)]
    background: bool,
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
        let line = format!("maestro is ready: unix:{}\n", ready.socket.display());
        if let Err(error) = crate::terminal::write_out(&line) {
            tracing::warn!("nobody reads that the daemon is ready: {error}");
        }
    }));
    match served {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => Err(failed(error)),
    }
}

fn config(context: &Context, defaults: ProcessDefaults) -> Result<Config, CommandError> {
    let overrides = context.settings.config_file()?.agents;
    let agents = AgentTable::built_in().with_overrides(overrides);
    let agents = agents.map_err(|error| CommandError::user("config.toml cannot be used").caused_by(error))?;
    let program = std::env::current_exe();
    let program = program.map_err(|error| CommandError::internal("finding maestro's own program", error))?;
    Ok(Config { data_path: context.settings.data_path.clone(), agents, program, defaults })
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
