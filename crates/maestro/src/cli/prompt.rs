use super::{
    CommandError, CommandResult, Context,
    follow::{self, EarlierRows},
    session_ref::SessionRef,
};
use maestro_protocol::PromptBody;
use std::{io::Read as _, process::ExitCode};

/// The longest prompt that the daemon takes (CONTRACT §11.1), and so the most that is read of the standard input.
const PROMPT_MAX_BYTES: u64 = 16 << 20;

/// Send a prompt to a session, and follow its turn as `run` does
///
/// The exit code tells how the turn ended: see `maestro --help`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The session's id, or the start of it
    id: SessionRef,
    /// The prompt; `-` reads it from the standard input
    #[arg(allow_hyphen_values = true)]
    text: String,
    /// Return once the daemon has the prompt
    #[arg(long)]
    detach: bool,
}

pub(super) async fn cmd_prompt(context: &Context, args: Args) -> CommandResult {
    let prompt = read(args.text)?;
    let client = context.client().await?;
    let session = args.id.resolve(&client).await?;
    if args.detach {
        client.prompt(session.id, &prompt).await?;
        context.tell_session(&client, session.id, "prompted").await?;
        return Ok(ExitCode::SUCCESS);
    }
    let interrupt = follow::interrupts()?;
    follow::turn(context, &client, session, prompt, EarlierRows::Skip, interrupt).await
}

/// The prompt of an argument: itself, or the standard input for `-`.
pub(super) fn read(argument: String) -> Result<PromptBody, CommandError> {
    let text = if argument == "-" { read_stdin()? } else { argument };
    if text.trim().is_empty() {
        return Err(CommandError::user("the prompt is empty"));
    }
    Ok(PromptBody { text: Some(text), content: None })
}

fn read_stdin() -> Result<String, CommandError> {
    let mut text = String::new();
    let n_bytes = std::io::stdin().lock().take(PROMPT_MAX_BYTES + 1).read_to_string(&mut text);
    let n_bytes = n_bytes
        .map_err(|error| CommandError::user("the standard input cannot be read as text").caused_by(error))?;
    if n_bytes as u64 > PROMPT_MAX_BYTES {
        return Err(CommandError::user("the prompt is longer than 16 MiB"));
    }
    Ok(text)
}
