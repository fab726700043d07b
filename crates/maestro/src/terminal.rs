//! The person's terminal: what is printed, how it is coloured and cleaned, and what is typed.

mod input;
mod paint;
mod sanitise;

pub(crate) use input::TerminalInput;
pub(crate) use paint::Paint;
pub(crate) use sanitise::{Sanitiser, clean, clean_line, visible};

use std::io::{self, IsTerminal as _, Write as _};

/// How the two streams of the program are coloured: data on the standard output, words about it on the standard error.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terminal {
    /// The standard output's.
    pub(crate) out_paint: Paint,
    /// The standard error's.
    pub(crate) err_paint: Paint,
}

impl Terminal {
    /// Colours a stream if it is a terminal and the person did not ask for none (`NO_COLOR`).
    pub(crate) fn new(colour_wanted: bool) -> Self {
        let paint = |is_terminal| if colour_wanted && is_terminal { Paint::Coloured } else { Paint::Plain };
        Self { out_paint: paint(io::stdout().is_terminal()), err_paint: paint(io::stderr().is_terminal()) }
    }
}

/// Writes data, and flushes, since it may be half a line.
pub(crate) fn write_out(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Writes words about what happens.
pub(crate) fn write_err(text: &str) -> io::Result<()> {
    io::stderr().lock().write_all(text.as_bytes())
}
