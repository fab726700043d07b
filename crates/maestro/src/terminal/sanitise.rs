//! The one gate between words that others wrote and the person's terminal. Pure.

use std::fmt::Write as _;
use vte::{Parser, Perform};

/// Cleans text that comes in pieces: whole escape sequences go, and with them every control character but newline and
/// tab, and every character that has no shape or turns the direction of writing. The pieces may be cut anywhere
/// between two characters: what is kept does not depend on where.
pub(crate) struct Sanitiser {
    parser: Parser,
}

impl Sanitiser {
    pub(crate) fn new() -> Self {
        Self { parser: Parser::new() }
    }

    /// Cleans the next piece.
    pub(crate) fn push(&mut self, piece: &str) -> String {
        let mut kept = Kept(String::with_capacity(piece.len()));
        for line in piece.split_inclusive('\n') {
            let text = line.strip_suffix('\n');
            self.parser.advance(&mut kept, text.unwrap_or(line).as_bytes());
            if text.is_some() {
                // A newline ends any sequence, so that one without an end cannot swallow what follows.
                self.parser = Parser::new();
                kept.0.push('\n');
            }
        }
        kept.0
    }
}

/// Cleans a whole text.
pub(crate) fn clean(text: &str) -> String {
    Sanitiser::new().push(text)
}

/// Cleans a text for a place that has one line: every run of white space becomes one space.
pub(crate) fn clean_line(text: &str) -> String {
    clean(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Shows a text whole: what has no shape of its own is written out, ESC as `␛` and the rest as `\u{…}`. Newlines are
/// kept; a backslash is doubled, so that nothing can pretend to have been written out.
pub(crate) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | ' ' => shown.push(c),
            '\t' => shown.push_str("\\t"),
            '\r' => shown.push_str("\\r"),
            '\\' => shown.push_str("\\\\"),
            '\u{1b}' => shown.push('␛'),
            // U+241B is the picture that stands for ESC above.
            c if c.is_control() || c.is_whitespace() || is_unseen(c) || may_mislead(c) || c == '\u{241b}' => {
                write!(shown, "\\u{{{:x}}}", u32::from(c)).expect("a String takes everything");
            }
            c => shown.push(c),
        }
    }
    shown
}

struct Kept(String);

impl Perform for Kept {
    fn print(&mut self, c: char) {
        if !c.is_control() && !is_unseen(c) {
            self.0.push(c);
        }
    }

    fn execute(&mut self, byte: u8) {
        if byte == b'\t' {
            self.0.push('\t');
        }
    }
}

/// Characters that draw nothing or rearrange their neighbours, and that no text needs to be read.
fn is_unseen(c: char) -> bool {
    matches!(c,
        // Soft hyphen, grapheme joiner, Arabic letter mark, Hangul fillers, Khmer vowels without a shape.
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        // Mongolian selectors and vowel separator.
        | '\u{180b}'..='\u{180f}'
        // Zero widths and direction marks; line and paragraph separators; direction embeddings and overrides.
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        // Joiners, unseen operators, direction isolates and the old format characters.
        | '\u{2060}'..='\u{206f}'
        | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        // Musical formatting; tags and the further variation selectors, which can carry a hidden text.
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Characters that are fine in prose but can hide a difference in a command.
fn may_mislead(c: char) -> bool {
    matches!(c, '\u{2800}' | '\u{fe00}'..='\u{fe0f}' | '\u{300}'..='\u{36f}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What agents and hostile tools have been seen to print, and what is left of it.
    const CORPUS: &[(&str, &str)] = &[
        ("plain text, ümläuts, 漢字, 🦀", "plain text, ümläuts, 漢字, 🦀"),
        ("a\tb\nc", "a\tb\nc"),
        ("a\r\nb", "a\nb"),
        ("bell\u{7} back\u{8}space null\0 del\u{7f}", "bell backspace null del"),
        ("\u{1b}[31mred\u{1b}[0m", "red"),
        ("\u{1b}[1;38;2;255;0;0mred\u{1b}[m", "red"),
        ("\u{1b}[2J\u{1b}[H\u{1b}[10;10Hcleared", "cleared"),
        ("\u{1b}[?1049h\u{1b}[?25lalternate", "alternate"),
        ("\u{1b}]0;new title\u{7}after", "after"),
        ("\u{1b}]52;c;ZXZpbA==\u{1b}\\clipboard", "clipboard"),
        ("\u{1b}]8;;http://evil.example\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
        ("\u{1b}P+q544e\u{1b}\\dcs", "dcs"),
        ("\u{1b}_Gf=100;AAAA\u{1b}\\apc", "apc"),
        ("\u{1b}^private\u{1b}\\pm", "pm"),
        ("\u{1b}Xstring\u{1b}\\sos", "sos"),
        ("\u{1b}c reset", " reset"),
        ("\u{1b}(0lqk\u{1b}(B", "lqk"),
        ("\u{9b}31mone byte\u{9c}\u{90}x\u{9d}", "31mone bytex"),
        ("\u{1b}]never ended\nthe next line is kept", "\nthe next line is kept"),
        ("\u{1b}[3\n1m", "\n1m"),
        ("rm \u{202e}gpj.exe", "rm gpj.exe"),
        ("a\u{2066}b\u{2069}c\u{200e}\u{200f}\u{61c}", "abc"),
        ("zero\u{200b}width\u{200d}\u{feff}\u{2060}", "zerowidth"),
        ("tag\u{e0041}\u{e0042}\u{e007f}s", "tags"),
        ("selector\u{e0100}s", "selectors"),
        ("two\u{2028}lines\u{2029}", "twolines"),
        ("soft\u{ad}hyphen", "softhyphen"),
        ("unfinished \u{1b}", "unfinished "),
        ("unfinished \u{1b}[12;", "unfinished "),
    ];

    #[test]
    fn only_what_can_be_read_is_left() {
        for (text, expect) in CORPUS {
            assert_eq!(clean(text), *expect, "{text:?}");
        }
    }

    #[test]
    fn it_does_not_matter_where_the_pieces_are_cut() {
        for (text, expect) in CORPUS {
            for (cut, _) in text.char_indices() {
                let mut sanitiser = Sanitiser::new();
                let (head, tail) = text.split_at(cut);
                assert_eq!(sanitiser.push(head) + &sanitiser.push(tail), *expect, "{text:?} cut at {cut}");
            }
            let mut sanitiser = Sanitiser::new();
            let by_char: String = text.chars().map(|c| sanitiser.push(c.encode_utf8(&mut [0; 4]))).collect();
            assert_eq!(by_char, *expect, "{text:?} by character");
        }
    }

    #[test]
    fn one_line_is_one_line() {
        assert_eq!(clean_line("  a\n\n\tb \u{1b}[1mc\n"), "a b c");
    }

    #[test]
    fn nothing_hides_in_what_is_shown_whole() {
        let check = |text: &str, expect: &str| assert_eq!(visible(text), expect, "{text:?}");
        check("ls -la\nrm x", "ls -la\nrm x");
        check("\u{1b}[31mred\u{1b}[0m", "␛[31mred␛[0m");
        check("a\u{202e}b\u{200b}c\u{e0041}d", "a\\u{202e}b\\u{200b}c\\u{e0041}d");
        check("a\tb\r\u{7}\u{9b}", "a\\tb\\r\\u{7}\\u{9b}");
        check("nbsp\u{a0}em\u{2003}braille\u{2800}", "nbsp\\u{a0}em\\u{2003}braille\\u{2800}");
        check("e\u{301} 🏴\u{fe0f}", "e\\u{301} 🏴\\u{fe0f}");
        check("\\u{202e} ␛", "\\\\u{202e} \\u{241b}");
        check("ümläut 漢字 🦀", "ümläut 漢字 🦀");
    }

    proptest! {
        #[test]
        fn no_text_reaches_the_terminal_as_a_command(pieces in proptest::collection::vec(any::<String>(), 0..5)) {
            let mut sanitiser = Sanitiser::new();
            let cleaned: String = pieces.iter().map(|piece| sanitiser.push(piece)).collect();
            let allowed = |c: char| matches!(c, '\n' | '\t') || !(c.is_control() || is_unseen(c));
            prop_assert!(cleaned.chars().all(allowed), "{cleaned:?}");
            prop_assert_eq!(clean(&cleaned), cleaned.clone(), "clean text stays as it is");
            prop_assert_eq!(cleaned, clean(&pieces.concat()), "pieces make no difference");
            let shown = visible(&pieces.concat());
            prop_assert!(shown.chars().all(|c| c == '\n' || !(c.is_control() || is_unseen(c))), "{shown:?}");
        }
    }
}
