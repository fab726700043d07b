//! `docs/RELIABILITY.md` names the tests that show what it says; every test it names exists.

use super::{Complaint, project::Project};
use regex_lite::Regex;
use std::{collections::BTreeSet, sync::LazyLock};

const RELIABILITY: &str = "docs/RELIABILITY.md";

/// In backticks, words joined by at least two underscores: the name of a test.
static NAMED: LazyLock<Regex> = LazyLock::new(|| pattern(r"`([a-z0-9]+(?:_[a-z0-9]+){2,})`"));
static FUNCTION: LazyLock<Regex> = LazyLock::new(|| pattern(r"\bfn ([a-z0-9_]+)"));

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is written correctly")
}

/// Complains about tests that are not there.
pub(super) fn check(project: &Project) -> Vec<Complaint> {
    let rust = project.files.iter().filter(|file| {
        std::path::Path::new(&file.path).extension().is_some_and(|extension| extension == "rs")
    });
    let functions: BTreeSet<&str> = rust.flat_map(|file| firsts(&FUNCTION, &file.text)).collect();
    let named = project.text(RELIABILITY).map(|text| firsts(&NAMED, text)).into_iter().flatten();
    named
        .filter(|name| !functions.contains(name))
        .map(|name| format!("{RELIABILITY}: names the test {name}, which is not there"))
        .collect()
}

fn firsts<'t>(pattern: &'static Regex, text: &'t str) -> impl Iterator<Item = &'t str> {
    pattern.captures_iter(text).filter_map(|found| found.get(1)).map(|name| name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tests_are_told_from_other_words() {
        let text =
            "log: `a_line_is_kept`, `exited`, `cancel_unsettled`, `tests/it/laws.rs` a_word_outside_of_it";
        assert_eq!(firsts(&NAMED, text).collect::<Vec<_>>(), ["a_line_is_kept"]);
        assert_eq!(firsts(&FUNCTION, "async fn a_line_is_kept() {").collect::<Vec<_>>(), ["a_line_is_kept"]);
    }
}
