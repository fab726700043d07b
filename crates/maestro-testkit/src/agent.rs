//! The program `maestro-scripted-agent`.

mod descendant;
mod inbox;
mod inspect;
mod player;
mod recorder;
mod template;

use crate::script::Script;
use inbox::Inbox;
use inspect::Inspected;
use player::{Ended, Player};
use recorder::Recorder;
pub(crate) use recorder::path_for as record_path;
use std::{
    env,
    ffi::OsString,
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};
use template::Variables;

/// A step waited in vain for [`player::LIMIT`].
const EXIT_IN_VAIN: u8 = 97;
/// The script cannot be played as it stands.
const EXIT_BAD_SCRIPT: u8 = 98;

/// The `main` of the scripted agent: plays the script file of its first argument, or of `MAESTRO_SCRIPT`, on stdin
/// and stdout, and records what it received to `<script>.record`, or to `MAESTRO_RECORD`. After the last step it
/// goes on as an agent that knows no method, and ends with status 0 when stdin closes.
pub fn main() -> ExitCode {
    let inspected = Inspected::take();
    let mut args = env::args_os().skip(1);
    let first = args.next();
    if first.as_deref() == Some(descendant::ARG.as_ref()) {
        return ExitCode::from(descendant::main(args));
    }
    match play(first, inspected) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            // With stderr gone too, the exit status alone has to tell.
            writeln!(io::stderr(), "maestro-scripted-agent: {error}").ok();
            ExitCode::from(EXIT_BAD_SCRIPT)
        }
    }
}

fn play(argument: Option<OsString>, inspected: Inspected) -> io::Result<u8> {
    let path = argument
        .or_else(|| env::var_os("MAESTRO_SCRIPT"))
        .map(PathBuf::from)
        .ok_or_else(|| io::Error::other("name a script file, as the first argument or in MAESTRO_SCRIPT"))?;
    let script = Script::read_from(&path)?;
    let record = env::var_os("MAESTRO_RECORD").map_or_else(|| recorder::path_for(&path), PathBuf::from);
    let recorder = Recorder::start(&record)?;
    let inbox = Inbox::reading(io::stdin(), recorder.clone())?;
    let variables = Variables::new(recorder.process());
    let mut player = Player::new(inbox, recorder, variables, inspected);
    match player.play(script.steps_of(player.process())) {
        Ok(()) | Err(Ended::InputClosed) => Ok(0),
        Err(Ended::Exit(code)) => Ok(code),
        // The reader went away first: what a well-meant agent would die of, too.
        Err(Ended::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(0),
        Err(Ended::Output(error)) => Err(error),
        Err(Ended::InVain(what)) => {
            writeln!(io::stderr(), "maestro-scripted-agent: waited in vain for {what}")?;
            Ok(EXIT_IN_VAIN)
        }
    }
}
