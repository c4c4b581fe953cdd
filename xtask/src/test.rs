//! `cargo xtask test`: everything, ending with one line that says how many tests passed and failed.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::process::{cargo, root, watch};
use crate::{check, jobs, setup};

/// How many tests passed and failed. A step that cannot be done at all counts as one that failed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct TestTally {
    passed: u64,
    failed: u64,
}

/// Packages with tests that need nothing but the machine's processors: these run side by side.
const PURE: &[&str] = &["analyzer", "tracer-user"];
/// Tests of the planner on running jobs, ignored where there is neither root nor an MPI library.
const ON_JOBS: &str = "running_jobs";
/// The package of live tests: they share the machine's probes and cores, so one at a time.
const LIVE: &str = "tests";

/// Sets up, builds, checks and tests.
pub fn run() -> Result<ExitCode> {
    let mut tally = TestTally::default();
    let ready = step(&mut tally, "setup", set_up()) && step(&mut tally, "jobs", jobs::build());
    if ready {
        step(&mut tally, "check", check::run());
        for arguments in test_runs()? {
            let result = run_tests(&arguments, &mut tally);
            step(&mut tally, "cargo test", result);
        }
    }
    println!("{} passed, {} failed", tally.passed, tally.failed);
    Ok(if tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Arguments of cargo. One profile for tests, demo and benchmarks, and always the whole workspace, whose crates would be
/// built with other features for some of its packages: what is tested is what is used, and it is built once.
fn test_runs() -> Result<Vec<Vec<String>>> {
    let run = |more: &[&str], targets: &[String], harness: &[&str]| {
        let words = ["test", "--release", "--workspace", "--no-fail-fast"].iter().chain(more);
        let targets = targets.iter().flat_map(|name| ["--test", name.as_str()]);
        let harness = harness.iter().copied();
        words.copied().chain(targets).chain(["--"]).chain(harness).map(str::to_owned).collect()
    };
    let pure: Vec<String> =
        PURE.iter().map(|package| integration_tests(package)).collect::<Result<Vec<_>>>()?.concat();
    Ok(vec![
        run(&["--lib", "--bins"], &pure, &[]),
        run(&["--doc"], &[], &[]),
        run(&[], &[ON_JOBS.to_owned()], &["--ignored", "--test-threads=1"]),
        run(&[], &integration_tests(LIVE)?, &["--test-threads=1"]),
    ])
}

/// Names of the integration tests of the package in a folder: files, and folders with a `main.rs`.
fn integration_tests(package: &str) -> Result<Vec<String>> {
    let folder = root().join(package).join("tests");
    let entries = std::fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let name = |path: PathBuf| {
        let is_test = path.extension().is_some_and(|end| end == "rs") || path.join("main.rs").exists();
        is_test.then(|| Some(path.file_stem()?.to_str()?.to_owned())).flatten()
    };
    let mut names: Vec<String> = entries.flatten().filter_map(|entry| name(entry.path())).collect();
    names.sort();
    Ok(names)
}

fn set_up() -> Result<()> {
    if setup::run()? != ExitCode::SUCCESS {
        bail!("packages are missing");
    }
    Ok(())
}

/// Counts a step that failed. True if it did not.
fn step(tally: &mut TestTally, name: &str, result: Result<()>) -> bool {
    if let Err(error) = &result {
        eprintln!("xtask: {name}: {error:#}");
        tally.failed += 1;
    }
    result.is_ok()
}

fn run_tests(arguments: &[String], tally: &mut TestTally) -> Result<()> {
    let mut own = TestTally::default();
    let ended_well = watch(cargo().args(arguments), |line| own = own + tally_of(line))?;
    *tally = *tally + own;
    if !ended_well && own.failed == 0 {
        bail!("cargo {} failed outside of any test", arguments.join(" "));
    }
    Ok(())
}

impl std::ops::Add for TestTally {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { passed: self.passed + other.passed, failed: self.failed + other.failed }
    }
}

/// What a line `test result: ok. 3 passed; 1 failed; ...` says; nothing for any other line.
fn tally_of(line: &str) -> TestTally {
    let Some((_, counts)) = line.strip_prefix("test result: ").and_then(|rest| rest.split_once(". ")) else {
        return TestTally::default();
    };
    let count = |what: &str| {
        let part = counts.split("; ").find_map(|part| part.strip_suffix(what));
        part.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
    };
    TestTally { passed: count("passed"), failed: count("failed") }
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
    fn every_integration_test_of_the_workspace_is_run_once() {
        let runs = test_runs().unwrap().concat();
        let mut all = Vec::new();
        for package in std::fs::read_dir(root()).unwrap().flatten() {
            if package.path().join("Cargo.toml").exists() && package.path().join("tests").is_dir() {
                all.extend(integration_tests(package.file_name().to_str().unwrap()).unwrap());
            }
        }
        assert!(all.len() > 20, "{all:?}");
        for name in &all {
            // Most of the tests on jobs are passed over at first.
            let times = if name == ON_JOBS { 2 } else { 1 };
            assert_eq!(runs.iter().filter(|word| *word == name).count(), times, "{name}");
        }
    }

    #[test]
    fn a_step_that_cannot_be_done_counts_as_failed() {
        let mut tally = TestTally::default();
        assert!(!step(&mut tally, "nothing", Err(anyhow::anyhow!("no"))));
        assert!(step(&mut tally, "something", Ok(())));
        assert_eq!(tally, TestTally { passed: 0, failed: 1 });
    }
}
