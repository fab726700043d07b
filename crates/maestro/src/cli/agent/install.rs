use crate::{
    cli::{CommandError, CommandResult, Context, connect, print_json, say, serve},
    terminal::clean_line,
};
use maestro_acp::{AgentEntry, Program};
use maestro_daemon::package_version;
use maestro_process::resolve_program;
use maestro_protocol::AgentKey;
use rustix::process::{geteuid, umask};
use serde::Serialize;
use std::{
    env, io,
    os::fd::AsFd as _,
    path::{Path, PathBuf},
    process::{Command, ExitCode, ExitStatus, Stdio},
};

/// Install an agent, and say how to sign in
///
/// Runs the agent's install command in your sight, then looks for its program. The built-in agents go to ~/.local, which
/// needs no rights; they are npm packages, which need Node.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Which agent; `maestro agent ls` lists them
    agent: AgentKey,
    /// Run the command although the agent is there, which brings its newest version
    #[arg(long)]
    update: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Installed<'a> {
    agent: &'a AgentKey,
    /// The command that ran; `null` if the agent was there.
    command: Option<&'a str>,
    program: PathBuf,
    version: Option<String>,
    sign_in: Option<&'a str>,
}

pub(super) async fn cmd_install(context: &Context, args: &Args) -> CommandResult {
    let table = serve::agent_table(context)?;
    let Some(entry) = table.get(&args.agent) else {
        let error = CommandError::user(format!("no agent is called `{}`", args.agent));
        return Err(error.hint("`maestro agent ls` lists the agents"));
    };
    let Program::Path(program) = &entry.program else {
        say(&format!("{} is built in: there is nothing to install", entry.name))?;
        return Ok(ExitCode::SUCCESS);
    };
    let path = env::var_os("PATH");
    let here = resolve_program(program, path.as_deref());
    let command = match &here {
        Some(_) if !args.update => None,
        Some(_) | None => Some(install_command(entry, program)?),
    };
    if let Some(command) = command {
        run(context, command)?;
    }
    let Some(found) = resolve_program(program, path.as_deref()) else {
        return Err(not_on_path(program));
    };
    tell(context, entry, command, found)?;
    if !context.json {
        compare_with_daemon(context, entry).await?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The command of an agent, if it can be run here.
fn install_command<'a>(entry: &'a AgentEntry, program: &str) -> Result<&'a str, CommandError> {
    if program.contains('/') {
        let error = CommandError::user(format!("config.toml says that {} is `{program}`", entry.key));
        return Err(error.hint("put it there, or correct `program`; no command can know that place"));
    }
    let Some(command) = entry.install.as_deref() else {
        let error = CommandError::user(format!("no command is known that installs {}", entry.key));
        return Err(error.hint(format!("install `{program}` yourself, or set `install` in config.toml")));
    };
    let tool = command.split_whitespace().next().unwrap_or_default();
    if matches!(tool, "npm" | "npx") && resolve_program(tool, env::var_os("PATH").as_deref()).is_none() {
        let error = CommandError::user(format!("{tool} is missing, which `{command}` needs"));
        return Err(error
            .hint("get Node 22 or later, which brings it: https://nodejs.org/en/download")
            .hint("or the one of your system, such as: sudo apt-get install nodejs npm"));
    }
    Ok(command)
}

/// Runs a command of a shell with the person's umask. What it says goes to the standard error: the standard output is for
/// the result.
fn run(context: &Context, command: &str) -> Result<(), CommandError> {
    if geteuid().is_root() {
        say("you are root: what this installs belongs to root")?;
    }
    say(&format!("$ {}", clean_line(command)))?;
    let failed = |error| CommandError::internal("running the install command", error);
    let ended = in_shell(context, command).map_err(failed)?;
    if ended.success() {
        return Ok(());
    }
    let error = CommandError::user(format!("the install command failed: {ended}"));
    Err(error.hint("its own words above say why; you can run it yourself, too"))
}

fn in_shell(context: &Context, command: &str) -> io::Result<ExitStatus> {
    let words = Stdio::from(io::stderr().as_fd().try_clone_to_owned()?);
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(command).stdout(words);
    let private = umask(context.person_umask);
    let child = shell.spawn();
    umask(private);
    child?.wait()
}

fn not_on_path(program: &str) -> CommandError {
    let usual = env::var_os("HOME").map(|home| Path::new(&home).join(".local/bin"));
    match usual.filter(|directory| directory.join(program).exists()) {
        Some(directory) => {
            let directory = directory.display();
            CommandError::user(format!("`{program}` is in {directory}, which is not on your PATH"))
                .hint(format!("add it in your shell's profile: export PATH=\"{directory}:$PATH\""))
                .hint("then open a new shell and restart the daemon, if one runs: `maestro doctor` says how")
        }
        None => CommandError::user(format!("the command ended well, but `{program}` is not on your PATH"))
            .hint("its own words above may say where it is; add that directory to PATH"),
    }
}

fn tell(
    context: &Context,
    entry: &AgentEntry,
    command: Option<&str>,
    program: PathBuf,
) -> Result<(), CommandError> {
    let version = package_version(&program);
    let sign_in = entry.sign_in.as_deref();
    if context.json {
        return print_json(&Installed { agent: &entry.key, command, program, version, sign_in });
    }
    let there = if command.is_some() { "is installed" } else { "is installed already" };
    let version = version.map(|version| format!(" {}", clean_line(&version))).unwrap_or_default();
    say(&format!("{}{} {there}: {}", entry.name, version, program.display()))?;
    if let Some(sign_in) = sign_in {
        say(&format!("sign in, unless you have: {}", clean_line(sign_in)))?;
    }
    say(&format!("then: maestro run --agent {} \"…\"", entry.key))
}

/// A daemon that was started elsewhere may have another PATH.
async fn compare_with_daemon(context: &Context, entry: &AgentEntry) -> Result<(), CommandError> {
    let Ok(client) = connect::connect(&context.settings).await else { return Ok(()) };
    let agents = client.agents().await?.agents;
    let sees = agents.iter().any(|agent| agent.key == entry.key && agent.program.is_some());
    if sees { Ok(()) } else { say("the daemon that runs does not see it: `maestro doctor` says why") }
}
