//! Rules about single Rust files.

use super::{Complaint, project::File};
use regex_lite::Regex;
use std::sync::LazyLock;

/// The most lines a Rust file may have.
const LINES_MAX: usize = 500;

/// Files that are longer, with their lengths. The list may only get shorter, and the numbers only smaller.
const LONGER: &[(&str, usize)] = &[];

/// The only crate that may hold `unsafe` code.
const UNSAFE_HOME: &str = "crates/maestro-process/";

/// The crate that only computes, and what it may not name.
const PURE_HOME: &str = "crates/maestro-projection/src/";

static UNSAFE: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"\bunsafe\s*(?:\{|\(|fn\b|impl\b|extern\b|trait\b)"));
static IMPURE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"\bstd::(?:fs|net|env|process|thread)\b|\b(?:Instant|SystemTime|HashMap|HashSet|RandomState)\b|\bnew_v4\b",
    )
});
static IGNORED: LazyLock<Regex> = LazyLock::new(|| pattern(r"#\[(?:ignore|should_panic)\b"));
/// A test that another test runs as a process of its own.
static OTHER_PROCESS: LazyLock<Regex> =
    LazyLock::new(|| pattern(r#"#\[ignore = "the other process of \w+"\]"#));

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is written correctly")
}

/// Checks one file.
pub(super) fn check(file: &File) -> Vec<Complaint> {
    let (path, text) = (file.path.as_str(), file.text.as_str());
    if !has_extension(path, "rs") {
        return Vec::new();
    }
    let mut complaints = Vec::new();
    let mut complain = |what: &str| complaints.push(format!("{path}: {what}"));
    let limit = longest_allowed(path);
    if text.lines().count() > limit {
        complain(&format!("has {} lines, at most {limit} are allowed: split it", text.lines().count()));
    }
    if path.ends_with("/mod.rs") {
        complain("is a mod.rs: name it after its module");
    }
    if is_crate_root(path) {
        for part in ["*Is*", "*Invariants*", "*Not here*"] {
            if !text.lines().take_while(|line| line.starts_with("//!")).any(|line| line.contains(part)) {
                complain(&format!("the crate's documentation has no {part} part"));
            }
        }
    }
    for (number, line) in code_lines(text) {
        if UNSAFE.is_match(line) && !path.starts_with(UNSAFE_HOME) {
            complain(&format!("line {number}: unsafe code belongs in maestro-process"));
        }
        if IMPURE.is_match(line) && path.starts_with(PURE_HOME) {
            complain(&format!("line {number}: touches the world, or iterates in no fixed order"));
        }
        if IGNORED.is_match(line) && !OTHER_PROCESS.is_match(line) {
            complain(&format!(
                "line {number}: a test that does not run, or that proves nothing when it panics"
            ));
        }
    }
    complaints
}

/// Checks that no exception from the length rule is larger than it has to be.
pub(super) fn check_exceptions(files: &[File]) -> Vec<Complaint> {
    LONGER
        .iter()
        .filter_map(|&(path, allowed)| {
            let lines = files.iter().find(|file| file.path == path).map_or(0, |file| file.text.lines().count());
            (lines < allowed).then(|| {
                format!("{path}: has {lines} lines: lower its exception in xtask/src/tidy/sources.rs from {allowed}")
            })
        })
        .collect()
}

fn longest_allowed(path: &str) -> usize {
    LONGER.iter().find(|(listed, _)| *listed == path).map_or(LINES_MAX, |&(_, lines)| lines)
}

/// `src/lib.rs`, or `src/main.rs` of a crate that is a program only.
fn is_crate_root(path: &str) -> bool {
    let programs = ["crates/maestro/src/main.rs", "crates/maestro-bench/src/main.rs", "xtask/src/main.rs"];
    path.ends_with("/src/lib.rs") || programs.contains(&path)
}

/// Lines with their numbers, without those that are comments.
fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(i, line)| (i + 1, line))
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
}

fn has_extension(path: &str, wanted: &str) -> bool {
    std::path::Path::new(path).extension().is_some_and(|extension| extension == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_file(path: &str, text: &str, expect: &[&str]) {
        let file = File { path: path.to_owned(), text: text.to_owned() };
        assert_eq!(check(&file), expect);
    }

    #[test]
    fn a_long_file_is_split() {
        check_file("a/src/b.rs", &"x\n".repeat(500), &[]);
        check_file(
            "a/src/b.rs",
            &"x\n".repeat(501),
            &["a/src/b.rs: has 501 lines, at most 500 are allowed: split it"],
        );
        check_file("a/b.md", &"x\n".repeat(501), &[]);
    }

    #[test]
    fn a_crate_says_what_it_is() {
        check_file("a/src/lib.rs", "//! A.\n//! *Is*: a. *Invariants*: b.\n//! *Not here*: c.\n", &[]);
        check_file(
            "a/src/lib.rs",
            "//! *Is*: a. *Invariants*: b.\nfn f() {}\n//! *Not here*: c.\n",
            &["a/src/lib.rs: the crate's documentation has no *Not here* part"],
        );
    }

    #[test]
    fn code_that_belongs_elsewhere() {
        let unsafe_code = concat!("un", "safe { f() }");
        check_file("crates/maestro-process/src/a.rs", unsafe_code, &[]);
        check_file(
            "crates/maestro-log/src/a.rs",
            unsafe_code,
            &["crates/maestro-log/src/a.rs: line 1: unsafe code belongs in maestro-process"],
        );
        check_file("crates/maestro-log/src/a.rs", "use std::fs;", &[]);
        check_file(
            "crates/maestro-projection/src/a.rs",
            "// std::fs is not here\nuse std::fs;",
            &["crates/maestro-projection/src/a.rs: line 2: touches the world, or iterates in no fixed order"],
        );
    }

    #[test]
    fn module_files_and_ignored_tests() {
        check_file("a/src/b/mod.rs", "", &["a/src/b/mod.rs: is a mod.rs: name it after its module"]);
        check_file(
            "a/src/b.rs",
            concat!("#[", "ignore]\nfn t() {}"),
            &["a/src/b.rs: line 1: a test that does not run, or that proves nothing when it panics"],
        );
        check_file("a/src/b.rs", concat!("#[", "ignore = \"the other process of t\"]\nfn u() {}"), &[]);
    }
}
