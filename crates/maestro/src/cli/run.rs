use super::{CommandError, CommandResult, Context, follow, print_json, prompt, say};
use crate::terminal::clean_line;
use maestro_client::Client;
use maestro_protocol::{AgentKey, CreateSession, InvalidId, Session, Status, View};
use serde::Serialize;
use std::{collections::BTreeMap, path::PathBuf, process::ExitCode};
use tokio::signal::unix::Signal;

/// Start a session with a prompt, and follow its turn
///
/// Prints what the agent says and does as it comes, and asks for approvals at the terminal. Ctrl-C cancels the turn; a
/// second one leaves it running. The session stays alive after the turn. Where the agent cannot start, the prompt is
/// kept. The exit code tells how the turn ended: see `maestro --help`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The prompt; `-` reads it from the standard input
    #[arg(allow_hyphen_values = true)]
    prompt: String,
    /// Which agent; `maestro agent ls` lists them
    #[arg(long, value_name = "KEY", value_parser = agent_key)]
    agent: Option<AgentKey>,
    /// The directory it works in; the current one unless given
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// The mode it starts in; the one in which it asks, unless given
    #[arg(long)]
    mode: Option<String>,
    /// The model it uses; the agent's own choice unless given
    #[arg(long)]
    model: Option<String>,
    /// A name for the session
    #[arg(long)]
    title: Option<String>,
    /// Add a variable to the agent's environment; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<(String, String)>,
    /// Return once the daemon has the prompt
    #[arg(long)]
    detach: bool,
}

/// The first line of `--json`, so that a program can answer before the turn ends.
#[derive(Serialize)]
#[serde(tag = "type", rename = "Session")]
struct SessionLine<'a> {
    session: &'a Session,
}

pub(super) async fn cmd_run(context: &Context, args: Args) -> CommandResult {
    let detach = args.detach;
    let wish = wish(args)?;
    let client = context.client().await?;
    let mut interrupt = follow::interrupts()?;
    let session = client.create_session(&wish).await?;
    if !context.json {
        let cwd = clean_line(&session.cwd);
        say(&format!("session {} with {} in {cwd}", session.id, session.agent))?;
    } else if !detach {
        print_json(&SessionLine { session: &session })?;
    }
    let id = session.id;
    let started = start(&client, session, &mut interrupt).await;
    let started = if detach { started? } else { follow::closing(context, id, started)? };
    let Some(session) = started else {
        return follow::left(context, id);
    };
    if session.status == Status::Dead {
        return follow::died(context, &client, &session, None).await;
    }
    if detach {
        context.tell_session(&client, session.id, "prompted").await?;
        return Ok(ExitCode::SUCCESS);
    }
    follow::first_turn(context, &client, session, interrupt).await
}

/// Waits for the agent. Ctrl-C ends the session, which nobody has asked for anything yet: then there is none.
async fn start(
    client: &Client,
    session: Session,
    interrupt: &mut Signal,
) -> Result<Option<Session>, CommandError> {
    let id = session.id;
    tokio::select! {
        biased;
        _ = interrupt.recv() => {
            say("ending the session, which has not started yet")?;
            client.kill(id).await?;
            Ok(None)
        }
        started = follow::until_started(client, session) => started.map(Some),
    }
}

fn wish(args: Args) -> Result<CreateSession, CommandError> {
    let prompt = prompt::read(args.prompt)?;
    let cwd = match args.cwd {
        Some(cwd) => std::path::absolute(cwd),
        None => std::env::current_dir(),
    };
    let cwd =
        cwd.map_err(|error| CommandError::user("the directory to work in cannot be named").caused_by(error))?;
    let cwd = cwd.into_os_string().into_string();
    let cwd = cwd.map_err(|cwd| {
        CommandError::user(format!("the directory `{}` is not UTF-8", cwd.display()))
            .hint("name another with --cwd")
    })?;
    let env: BTreeMap<String, String> = args.env.into_iter().collect();
    Ok(CreateSession {
        view: View::Structured,
        agent: args.agent,
        cwd: Some(cwd),
        env: (!env.is_empty()).then_some(env),
        title: args.title,
        mode: args.mode,
        model: args.model,
        prompt: Some(prompt),
    })
}

fn agent_key(text: &str) -> Result<AgentKey, InvalidId> {
    text.parse()
}

fn variable(text: &str) -> Result<(String, String), &'static str> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.into(), value.into())),
        Some(_) | None => Err("expected NAME=VALUE"),
    }
}
