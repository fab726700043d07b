//! Code cites the contract by section; every section that is cited exists.

use super::{Complaint, project::Project};
use regex_lite::Regex;
use std::{collections::BTreeSet, sync::LazyLock};

const CONTRACT: &str = "docs/CONTRACT.md";

static HEADING: LazyLock<Regex> = LazyLock::new(|| pattern(r"^#{2,3} (\d+(?:\.\d+)?)\.? "));
static CITATION: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"CONTRACT(?:\.md)? (§\d+(?:\.\d+)?(?:(?:, | and |-)§?\d+(?:\.\d+)?)*)"));
static NUMBER: LazyLock<Regex> = LazyLock::new(|| pattern(r"\d+(?:\.\d+)?"));

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is written correctly")
}

/// Complains about citations of sections that the contract does not have.
pub(super) fn check(project: &Project) -> Vec<Complaint> {
    let Some(contract) = project.text(CONTRACT) else {
        return vec![format!("{CONTRACT}: is missing")];
    };
    let sections = sections(contract);
    let mut complaints = Vec::new();
    for file in project.files.iter().filter(|file| file.text.contains("CONTRACT")) {
        for (line, number) in citations(&file.text) {
            if !sections.contains(number) {
                complaints.push(format!("{}:{line}: {CONTRACT} has no section {number}", file.path));
            }
        }
    }
    complaints
}

fn sections(contract: &str) -> BTreeSet<&str> {
    contract
        .lines()
        .filter_map(|line| HEADING.captures(line))
        .filter_map(|heading| heading.get(1))
        .map(|number| number.as_str())
        .collect()
}

fn citations(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().flat_map(|(i, line)| {
        CITATION
            .captures_iter(line)
            .filter_map(|citation| citation.get(1))
            .flat_map(|numbers| NUMBER.find_iter(numbers.as_str()))
            .map(move |number| (i + 1, number.as_str()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_numbered_headings() {
        let text = "# The contract\n## 4. Transcript\n### 4.1 Row kinds\n#### 9.9 deeper\nsee 5.1\n";
        assert_eq!(sections(text), BTreeSet::from(["4", "4.1"]));
    }

    #[test]
    fn citations_are_found() {
        let check = |text: &str, expect: &[&str]| {
            let found: Vec<_> = citations(text).map(|(_, number)| number).collect();
            assert_eq!(found, expect, "{text}");
        };
        check("as CONTRACT §4.1 says", &["4.1"]);
        check("(CONTRACT §5).", &["5"]);
        check("(CONTRACT §4.1, §4.2 and §7)", &["4.1", "4.2", "7"]);
        check("no number: CONTRACT says", &[]);
        check("CONTRACT §6.3, then 2 more", &["6.3"]);
    }
}
