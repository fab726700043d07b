//! Words that no tracked file may hold: paths and hosts of one machine, unfinished work, and how the work was organised.

use super::{Complaint, project::File};
use regex_lite::Regex;
use std::sync::LazyLock;

/// A kind of word, and where it is nevertheless right.
struct Ban {
    pattern: &'static str,
    /// One of these is in every match: a quick look before the slow one. Empty where none is.
    parts: &'static [&'static str],
    why: &'static str,
    except: &'static [&'static str],
}

/// What agents sent is kept as they sent it.
const RECORDINGS: &str = "testdata/";

/// And so is what was folded from it.
const FOLDED: &str = "crates/maestro-projection/tests/snapshots/";

// Written so that no pattern matches itself.
const BANS: &[Ban] = &[
    Ban {
        pattern: r"(?:^|[^A-Za-z0-9_.}\-])/(?:work|root)(?:/|\b)",
        parts: &["/wor", "/roo"],
        why: "a path of one machine",
        except: &[],
    },
    Ban {
        pattern: r"\b(?:registry\.npmjs|(?:static\.|index\.)?crates|pypi|pythonhosted|(?:deb|security)\.debian)\.(?:org|io)\b",
        parts: &[],
        why: "a registry's host: machines have their own",
        except: &["Cargo.lock", RECORDINGS, FOLDED],
    },
    Ban {
        pattern: r"\b(?:TO[D]O|FIX[M]E|X[X]X|HA[C]K)\b",
        parts: &[],
        why: "unfinished work",
        except: &[RECORDINGS, FOLDED],
    },
    Ban {
        pattern: r"(?i)\b(?:session|step|milestone|phase|sprint|iteration|issue|stage)\s+#?\d+\b",
        parts: &[],
        why: "how the work was organised: say what is",
        except: &[RECORDINGS, FOLDED],
    },
    Ban {
        pattern: r"\b(?:SPE[C]|DESIG[N])(?:\.md)?\s+§",
        parts: &["§"],
        why: "a document that is not in the project: cite docs/CONTRACT.md",
        except: &[],
    },
];

static COMPILED: LazyLock<Vec<(Regex, &'static Ban)>> = LazyLock::new(|| {
    let compile =
        |ban: &'static Ban| (Regex::new(ban.pattern).expect("the pattern is written correctly"), ban);
    BANS.iter().map(compile).collect()
});

/// Checks one file.
pub(super) fn check(file: &File) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (pattern, ban) in COMPILED.iter() {
        let excepted = ban.except.iter().any(|path| file.path.starts_with(path));
        let possible = ban.parts.is_empty() || ban.parts.iter().any(|part| file.text.contains(part));
        if excepted || !possible {
            continue;
        }
        for (i, line) in file.text.lines().enumerate() {
            if let Some(found) = pattern.find(line) {
                complaints.push(format!("{}:{}: {:?}: {}", file.path, i + 1, found.as_str().trim(), ban.why));
            }
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_text(text: &str, expect: usize) {
        let file = File { path: "a.md".to_owned(), text: text.to_owned() };
        let complaints = check(&file);
        assert_eq!(complaints.len(), expect, "{text:?}: {complaints:?}");
    }

    #[test]
    fn paths_of_a_machine() {
        check_text(concat!("see /wo", "rk/main"), 1);
        check_text(concat!("\"/ro", "ot\""), 1);
        check_text("target/root/file, {home}/root, /workers", 0);
    }

    #[test]
    fn hosts_of_registries() {
        check_text(concat!("from https://registry.npm", "js.org/x"), 1);
        check_text(concat!("on crat", "es.io"), 1);
        check_text("crates in npm", 0);
    }

    #[test]
    fn unfinished_work() {
        check_text(concat!("// TO", "DO: later"), 1);
        check_text("TodoWrite, todo, [[todo]]", 0);
    }

    #[test]
    fn how_the_work_was_organised() {
        check_text(concat!("as of ses", "sion 3"), 1);
        check_text(concat!("in ST", "EP 2"), 1);
        check_text("two sessions, steps, stage fmt", 0);
    }

    #[test]
    fn documents_that_are_elsewhere() {
        check_text(concat!("(SP", "EC §3)"), 1);
        check_text("(CONTRACT §3)", 0);
    }
}
