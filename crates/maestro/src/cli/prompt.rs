use super::{CommandError, CommandResult, Context, follow, print_json, say, session_ref::SessionRef};
use crate::render;
use maestro_protocol::PromptBody;
use std::{io::Read as _, process::ExitCode};

/// The longest prompt that the daemon takes (CONTRACT §11.1), and so the most that is read of the standard input.
const PROMPT_MAX_BYTES: u64 = 16 << 20;

/// Send a prompt to a session, and follow its turn as `run` does
///
/// During a turn a prompt is refused; with --queue it waits for the turn's end. After a cancel, a failed turn or a
/// restart, what waits is held until you go on with --resume. The exit code tells how the turn ended: see `maestro --help`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The session's id, or the start of it
    id: SessionRef,
    /// The prompt; `-` reads it from the standard input
    #[arg(allow_hyphen_values = true, required_unless_present = "resume")]
    text: Option<String>,
    /// Return once the daemon has the prompt
    #[arg(long)]
    detach: bool,
    /// Let it wait behind the active turn and what waits already, and return
    #[arg(long, conflicts_with = "detach")]
    queue: bool,
    /// Send what is held, and return
    #[arg(long, conflicts_with_all = ["text", "detach", "queue"])]
    resume: bool,
}

pub(super) async fn cmd_prompt(context: &Context, args: Args) -> CommandResult {
    let Some(text) = args.text else { return resume(context, &args.id).await };
    let prompt = read(text)?;
    let client = context.client().await?;
    let session = args.id.resolve(&client).await?;
    if args.queue {
        let item = client.queue_message(session.id, &prompt).await?;
        if context.json {
            print_json(&item)?;
        } else {
            let queue = client.queue(session.id).await?;
            say(&render::queue::added(&queue, item.id, session.id))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if args.detach {
        client.prompt(session.id, &prompt).await?;
        context.tell_session(&client, session.id, "prompted").await?;
        return Ok(ExitCode::SUCCESS);
    }
    let interrupt = follow::interrupts()?;
    follow::turn(context, &client, session, prompt, interrupt).await
}

/// Goes on with what is held.
async fn resume(context: &Context, id: &SessionRef) -> CommandResult {
    let client = context.client().await?;
    let session = id.resolve(&client).await?;
    client.resume_queue(session.id).await?;
    context.tell_session(&client, session.id, "resumed").await?;
    Ok(ExitCode::SUCCESS)
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
