use anstyle::{AnsiColor, Style};

/// Colours words, or leaves them plain. Colour only repeats what the words say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paint {
    Plain,
    Coloured,
}

impl Paint {
    pub(crate) fn dim(self, text: &str) -> String {
        self.with(Style::new().dimmed(), text)
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.with(Style::new().bold(), text)
    }

    pub(crate) fn red(self, text: &str) -> String {
        self.with(AnsiColor::Red.on_default(), text)
    }

    pub(crate) fn green(self, text: &str) -> String {
        self.with(AnsiColor::Green.on_default(), text)
    }

    pub(crate) fn yellow(self, text: &str) -> String {
        self.with(AnsiColor::Yellow.on_default(), text)
    }

    pub(crate) fn cyan(self, text: &str) -> String {
        self.with(AnsiColor::Cyan.on_default(), text)
    }

    /// Line by line, so that a pager or a cut line never leaves a colour switched on.
    fn with(self, style: Style, text: &str) -> String {
        if self == Self::Plain || text.is_empty() {
            return text.to_owned();
        }
        let painted = text.split('\n').map(|line| match line {
            "" => String::new(),
            line => format!("{style}{line}{style:#}"),
        });
        painted.collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_ends_with_its_line() {
        assert_eq!(Paint::Plain.red("a\nb"), "a\nb");
        assert_eq!(Paint::Coloured.red("a\n\nb"), "\u{1b}[31ma\u{1b}[0m\n\n\u{1b}[31mb\u{1b}[0m");
        assert_eq!(Paint::Coloured.bold(""), "");
    }
}
