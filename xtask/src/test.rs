//! `cargo xtask test`: everything, ending with one line that says how many tests passed and failed.

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::process::{cargo, watch};
use crate::{check, jobs, setup};

/// How many tests passed and failed. A step that cannot be done at all counts as one that failed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Tally {
    passed: u64,
    failed: u64,
}

/// One profile for tests, demo and benchmarks: what is tested is what is used, and it is built once.
/// The live tests share the machine's probes and cores: one at a time. All others run side by side.
const TEST_RUNS: &[&[&str]] = &[
    &["test", "--release", "--workspace", "--exclude", "dmscope-tests", "--no-fail-fast"],
    // Tests of the planner on running jobs: they need root and both MPI libraries.
    &["test", "--release", "--package", "dmscope", "--no-fail-fast", "--", "--ignored", "--test-threads=1"],
    &["test", "--release", "--package", "dmscope-tests", "--no-fail-fast", "--", "--test-threads=1"],
];

/// Sets up, builds, checks and tests.
pub fn run() -> Result<ExitCode> {
    let mut tally = Tally::default();
    let ready = step(&mut tally, "setup", set_up()) && step(&mut tally, "jobs", jobs::build());
    if ready {
        step(&mut tally, "check", check::run());
        for arguments in TEST_RUNS {
            let result = run_tests(arguments, &mut tally);
            step(&mut tally, "cargo test", result);
        }
    }
    println!("{} passed, {} failed", tally.passed, tally.failed);
    Ok(if tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn set_up() -> Result<()> {
    if setup::run()? != ExitCode::SUCCESS {
        bail!("packages are missing");
    }
    Ok(())
}

/// Counts a step that failed. True if it did not.
fn step(tally: &mut Tally, name: &str, result: Result<()>) -> bool {
    if let Err(error) = &result {
        eprintln!("xtask: {name}: {error:#}");
        tally.failed += 1;
    }
    result.is_ok()
}

fn run_tests(arguments: &[&str], tally: &mut Tally) -> Result<()> {
    let mut own = Tally::default();
    let ended_well = watch(cargo().args(arguments), |line| own = own + tally_of(line))?;
    *tally = *tally + own;
    if !ended_well && own.failed == 0 {
        bail!("cargo {} failed outside of any test", arguments.join(" "));
    }
    Ok(())
}

impl std::ops::Add for Tally {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { passed: self.passed + other.passed, failed: self.failed + other.failed }
    }
}

/// What a line `test result: ok. 3 passed; 1 failed; ...` says; nothing for any other line.
fn tally_of(line: &str) -> Tally {
    let Some((_, counts)) = line.strip_prefix("test result: ").and_then(|rest| rest.split_once(". ")) else {
        return Tally::default();
    };
    let count = |what: &str| {
        let part = counts.split("; ").find_map(|part| part.strip_suffix(what));
        part.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
    };
    Tally { passed: count("passed"), failed: count("failed") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_lines_of_the_test_harness_are_counted() {
        let line = "test result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.1s";
        assert_eq!(tally_of(line), Tally { passed: 12, failed: 3 });
        assert_eq!(tally_of("test a::b ... ok"), Tally::default());
    }

    #[test]
    fn a_step_that_cannot_be_done_counts_as_failed() {
        let mut tally = Tally::default();
        assert!(!step(&mut tally, "nothing", Err(anyhow::anyhow!("no"))));
        assert!(step(&mut tally, "something", Ok(())));
        assert_eq!(tally, Tally { passed: 0, failed: 1 });
    }
}
