//! The commands: one file each, whose `Args` are its help.

mod agent;
mod approve;
mod audit;
mod cancel;
mod connect;
mod deny;
mod doctor;
mod error;
mod follow;
mod kill;
mod ls;
mod patience;
mod prompt;
mod rename;
mod replay;
mod restart;
mod run;
mod serve;
mod session_ref;
mod settle;
mod show;

use crate::{
    config::Settings,
    terminal::{self, Paint, Terminal},
};
use clap::{Parser, Subcommand};
use error::CommandError;
use maestro_client::Client;
use maestro_protocol::{SessionId, Timestamp};
use rustix::fs::Mode;
use serde::Serialize;
use std::{
    path::PathBuf,
    process::ExitCode,
    time::{SystemTime, UNIX_EPOCH},
};

/// What every command does when it ends well.
type CommandResult = Result<ExitCode, CommandError>;

/// Runs coding agents as sessions that you can watch, answer and come back to.
#[derive(Debug, Parser)]
#[command(name = "maestro", version, arg_required_else_help = true, after_help = EXIT_CODES)]
struct Cli {
    #[command(flatten)]
    global: GlobalArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Args)]
struct GlobalArgs {
    /// The data directory of the daemon
    ///
    /// Also DATA_PATH; else `maestro` in the XDG data home, which is ~/.local/share.
    #[arg(long, global = true, value_name = "DIR")]
    data_path: Option<PathBuf>,
    /// Fail where no daemon runs, instead of starting one in the background
    #[arg(long, global = true)]
    no_start: bool,
    /// Print JSON for programs
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Args),
    Run(run::Args),
    Ls(ls::Args),
    Show(show::Args),
    Prompt(prompt::Args),
    Cancel(cancel::Args),
    Approve(approve::Args),
    Deny(deny::Args),
    Kill(kill::Args),
    Restart(restart::Args),
    Rename(rename::Args),
    Replay(replay::Args),
    Agent(agent::Args),
    Audit(audit::Args),
    Doctor(doctor::Args),
}

const EXIT_CODES: &str = "\
Exit codes:
   0  done
   1  refused: the message says why
   2  the command line cannot be read
   3  no daemon answers
  70  a defect of maestro
  75  another daemon has the data directory (serve)
 141  the reader of the output left

Of `run` and `prompt`, for the turn they follow:
   0  the agent ended its turn
  10  it stopped short: a refusal, a limit, or another reason of its own
  11  the turn was cancelled
  12  the agent answered with an error
  13  the session died, or could not start
 130  you left; the turn goes on";

/// What every command works with.
struct Context {
    settings: Settings,
    terminal: Terminal,
    json: bool,
    no_start: bool,
    person_umask: Mode,
}

impl Context {
    /// A client of the running daemon; starts one where none runs.
    async fn client(&self) -> Result<Client, CommandError> {
        connect::client(self).await
    }

    /// Says what was done to a session; for `--json`, prints the session as it is now.
    async fn tell_session(&self, client: &Client, id: SessionId, done: &str) -> Result<(), CommandError> {
        if self.json {
            return print_json(&client.session(id).await?);
        }
        say(&format!("{done} {id}"))
    }

    fn paint(&self) -> Paint {
        self.terminal.out_paint
    }
}

/// Runs the command that the arguments name. `person_umask` is what was in force before the program set its own.
pub(crate) fn run(person_umask: Mode) -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    match dispatch(cli, person_umask) {
        Ok(code) => code,
        Err(error) => error.report(),
    }
}

/// Help and version are usage errors to clap, too.
fn usage(error: &clap::Error) -> ExitCode {
    let wanted = u8::try_from(error.exit_code()).unwrap_or(error::USAGE);
    match error.print() {
        Ok(()) => ExitCode::from(wanted),
        Err(_closed) => ExitCode::from(error::INTERNAL),
    }
}

fn dispatch(cli: Cli, person_umask: Mode) -> CommandResult {
    let settings = Settings::load(cli.global.data_path.as_deref())?;
    let terminal = Terminal::new(settings.colour);
    let GlobalArgs { json, no_start, .. } = cli.global;
    let context = Context { settings, terminal, json, no_start, person_umask };
    match cli.command {
        Command::Serve(args) => serve::cmd_serve(&context, &args),
        command => {
            // One thread: a command waits for one thing at a time, and the umask may be put back around a spawn.
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(|error| CommandError::internal("starting the runtime", error))?;
            runtime.block_on(client_command(&context, command))
        }
    }
}

async fn client_command(context: &Context, command: Command) -> CommandResult {
    match command {
        Command::Serve(args) => serve::cmd_serve(context, &args),
        Command::Run(args) => run::cmd_run(context, args).await,
        Command::Ls(args) => ls::cmd_ls(context, &args).await,
        Command::Show(args) => show::cmd_show(context, &args).await,
        Command::Prompt(args) => prompt::cmd_prompt(context, args).await,
        Command::Cancel(args) => cancel::cmd_cancel(context, &args).await,
        Command::Approve(args) => approve::cmd_approve(context, args).await,
        Command::Deny(args) => deny::cmd_deny(context, args).await,
        Command::Kill(args) => kill::cmd_kill(context, &args).await,
        Command::Restart(args) => restart::cmd_restart(context, &args).await,
        Command::Rename(args) => rename::cmd_rename(context, &args).await,
        Command::Replay(args) => replay::cmd_replay(context, &args).await,
        Command::Agent(args) => agent::cmd_agent(context, &args).await,
        Command::Audit(args) => audit::cmd_audit(context, &args).await,
        Command::Doctor(args) => doctor::cmd_doctor(context, &args).await,
    }
}

/// Writes data.
fn print(text: &str) -> Result<(), CommandError> {
    terminal::write_out(text).map_err(CommandError::output)
}

/// Writes a value as one line of JSON, for `--json`.
fn print_json(value: &impl Serialize) -> Result<(), CommandError> {
    print(&(serde_json::to_string(value).expect("wire types are plain JSON") + "\n"))
}

/// Writes words about what happens.
fn print_err(text: &str) -> Result<(), CommandError> {
    terminal::write_err(text).map_err(CommandError::output)
}

/// Writes a line about what happens.
fn say(words: &str) -> Result<(), CommandError> {
    print_err(&format!("{words}\n"))
}

fn now() -> Timestamp {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millisecond(i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests;
