//! Running cargo's test harness, and understanding what it prints.

use std::time::Duration;

use anyhow::Result;

use crate::process::{Ended, cargo, watch};

/// How many tests passed and failed. A step that cannot be done at all counts as one that failed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TestTally {
    pub passed: u64,
    pub failed: u64,
}

/// What came of one call of cargo.
pub struct TestOutcome {
    pub tally: TestTally,
    /// Names of the tests that failed.
    pub failed: Vec<String>,
    pub ended: Ended,
}

impl TestOutcome {
    /// This, of tests that were run again after so many others had passed.
    pub fn after(mut self, passed: u64) -> Self {
        self.tally.passed += passed;
        self
    }
}

/// Calls cargo with arguments for it and for the harness.
pub fn run_harness(arguments: &[String], harness: &[String], limit: Duration) -> Result<TestOutcome> {
    let (mut tally, mut failures) = (TestTally::default(), FailureList::default());
    let mut command = cargo();
    command.args(arguments);
    if !harness.is_empty() {
        command.arg("--").args(harness);
    }
    let ended = watch(&mut command, limit, |line| {
        tally = tally + tally_of(line);
        failures.see(line);
    })?;
    Ok(TestOutcome { tally, failed: failures.all, ended })
}

impl std::ops::Add for TestTally {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { passed: self.passed + other.passed, failed: self.failed + other.failed }
    }
}

/// What a line `test result: ok. 3 passed; 1 failed; ...` says; nothing for any other line.
pub fn tally_of(line: &str) -> TestTally {
    let Some((_, counts)) = line.strip_prefix("test result: ").and_then(|rest| rest.split_once(". ")) else {
        return TestTally::default();
    };
    let count = |what: &str| {
        let part = counts.split("; ").find_map(|part| part.strip_suffix(what));
        part.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
    };
    TestTally { passed: count("passed"), failed: count("failed") }
}

/// Names between the last line `failures:` of a harness and its result. What tests have printed stands behind an earlier
/// such line.
#[derive(Default)]
struct FailureList {
    all: Vec<String>,
    /// Of the harness that runs now.
    now: Vec<String>,
}

impl FailureList {
    fn see(&mut self, line: &str) {
        if line == "failures:" {
            self.now.clear();
        } else if line.starts_with("test result: ") {
            self.all.append(&mut self.now);
        } else if let Some(name) = line.strip_prefix("    ").filter(|name| !name.contains(' ')) {
            self.now.push(name.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_lines_of_the_test_harness_are_counted() {
        let line = "test result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.1s";
        assert_eq!(tally_of(line), TestTally { passed: 12, failed: 3 });
        assert_eq!(tally_of("test a::b ... ok"), TestTally::default());
    }

    #[test]
    fn names_of_failed_tests_are_those_of_the_last_list() {
        let printed = "\ntest one ... FAILED\n\nfailures:\n\n---- one stdout ----\n    word\n\n\nfailures:\n    one\n    \
                       a::two\n\ntest result: FAILED. 0 passed; 2 failed; 0 ignored\n    cargo\n";
        let mut failures = FailureList::default();
        printed.lines().for_each(|line| failures.see(line));
        assert_eq!(failures.all, ["one", "a::two"]);
    }
}
