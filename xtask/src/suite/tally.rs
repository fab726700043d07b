//! Counting, from what test runners print. Pure.

use std::fmt;

/// What ran and how it went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

impl Tally {
    /// Adds another count.
    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }

    /// Counts what one line of a runner's output says, if it is a closing line.
    pub(crate) fn read_line(&mut self, line: &str) {
        if let Some((_, counts)) = line.split_once(" tests run: ").or_else(|| line.split_once(" test run: "))
        {
            // nextest calls "skipped" what a filter left out; those tests run in a stage of their own.
            self.read_counts(&without_parentheses(counts), ',', Skipped::Ignore);
        } else if let Some(counts) = line.trim_start().strip_prefix("test result: ") {
            let counts = counts.split_once(". ").map_or(counts, |(_, counts)| counts);
            self.read_counts(counts, ';', Skipped::Count);
        } else if let Some(count) = line.strip_prefix("Ran ").and_then(|rest| rest.split_once(" test")) {
            self.passed += count.0.parse().unwrap_or(0);
        } else if let Some(counts) = line.strip_prefix("FAILED (").and_then(|rest| rest.strip_suffix(')')) {
            self.read_unittest_failures(counts);
        }
    }

    /// What a runner did, given the lines it printed and whether it succeeded. A runner that failed without a failed test
    /// (a build error, no test at all) is one failure.
    pub(crate) fn settle(mut self, succeeded: bool) -> Self {
        if !succeeded && self.failed == 0 {
            self.failed = 1;
        }
        self
    }

    /// unittest says first how many ran and then how many of those failed.
    fn read_unittest_failures(&mut self, counts: &str) {
        for count in counts.split(", ") {
            let Some((what, number)) = count.split_once('=') else { continue };
            if let ("failures" | "errors", Ok(number)) = (what, number.parse::<u64>()) {
                self.passed = self.passed.saturating_sub(number);
                self.failed += number;
            }
        }
    }

    fn read_counts(&mut self, counts: &str, separator: char, skipped: Skipped) {
        for count in counts.split(separator) {
            let Some((number, what)) = count.trim().split_once(' ') else { continue };
            let Ok(number) = number.parse::<u64>() else { continue };
            match (what, skipped) {
                ("passed", _) => self.passed += number,
                ("failed" | "timed out" | "exec failed" | "failed due to leaks", _) => self.failed += number,
                ("ignored", Skipped::Count) => self.skipped += number,
                _ => {}
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Skipped {
    Count,
    Ignore,
}

fn without_parentheses(text: &str) -> String {
    let mut depth = 0_usize;
    text.chars()
        .filter(|c| {
            let inside = depth > 0;
            match c {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            !inside && *c != '('
        })
        .collect::<String>()
        .replace(" ,", ",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(output: &str, expect: (u64, u64, u64)) {
        let mut tally = Tally::default();
        output.lines().for_each(|line| tally.read_line(line));
        assert_eq!((tally.passed, tally.failed, tally.skipped), expect, "{output}");
    }

    #[test]
    fn nextest_lines_are_counted() {
        check("     Summary [   0.012s] 3 tests run: 3 passed, 0 skipped", (3, 0, 0));
        check("     Summary [   0.012s] 1 test run: 1 passed, 5 skipped", (1, 0, 0));
        check(
            "     Summary [  9.1s] 10 tests run: 7 passed (1 slow, 1 flaky), 2 failed, 1 timed out, 4 skipped",
            (7, 3, 0),
        );
        check("     Summary [  9.1s] 4/10 tests run: 3 passed, 1 exec failed, 4 skipped", (3, 1, 0));
    }

    #[test]
    fn libtest_lines_are_counted() {
        check(
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.00s",
            (3, 0, 1),
        );
        check("test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out", (3, 2, 0));
    }

    #[test]
    fn unittest_lines_are_counted() {
        check("Ran 10 tests in 0.5s\n\nOK", (10, 0, 0));
        check("Ran 10 tests in 0.5s\n\nFAILED (failures=1, errors=2)", (7, 3, 0));
    }

    #[test]
    fn other_lines_count_nothing() {
        check("running 3 tests\ntest a ... ok\nPASS [0.1s] 3 passed\n", (0, 0, 0));
    }

    #[test]
    fn a_runner_that_failed_without_a_failed_test_is_one_failure() {
        assert_eq!(Tally::default().settle(false).failed, 1);
        assert_eq!(Tally { failed: 2, ..Tally::default() }.settle(false).failed, 2);
        assert_eq!(Tally { passed: 2, ..Tally::default() }.settle(true).failed, 0);
    }

    #[test]
    fn the_closing_line() {
        let tally = Tally { passed: 12, failed: 0, skipped: 1 };
        assert_eq!(tally.to_string(), "12 passed, 0 failed, 1 skipped");
    }
}
