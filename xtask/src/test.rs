//! `cargo xtask test`: everything, ending with one line that says how many tests passed and failed.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::harness::{TestTally, run_harness};
use crate::process::{Ended, root};
use crate::{check, family, jobs, setup, wrapper};

/// Packages with tests that need nothing but the machine's processors: these run side by side.
const PURE: &[&str] = &["analyzer", "replay", "tracer-ebpf", "injector", "tracer-user"];
/// Tests of the planner on running jobs, ignored where there is neither root nor an MPI library.
const ON_JOBS: &str = "running_jobs";
/// The package of live tests: they share the machine's probes and cores, so one at a time.
const LIVE: &str = "tests";
/// Those of them that wait half of their time or more, for hangs to be told, for somebody to be given up, for ranks that take
/// turns or for launchers, and ask nothing of the time that anything takes: two at a time.
const WAITING: &[&str] = &[
    "alone",
    "buffers",
    "bus",
    "capabilities",
    "catalogue",
    "clean_jobs",
    "cluster_hangs",
    "deterministic",
    "fast_probes",
    "identical",
    "left_alone",
    "mismatches",
    "probed_races",
    "probed_replay",
    "queue_pairs",
    "races",
    "replay",
    "replayed_threads",
    "unfinished_jobs",
];
const ONE_AT_A_TIME: &str = "--test-threads=1";
const TWO_AT_A_TIME: &str = "--test-threads=2";

/// Building all tests, and running those that are pure, is over by then on a slow machine.
const BUILD_AND_RUN: Duration = Duration::from_secs(30 * 60);
/// One integration test of live jobs takes three minutes at most where nothing hangs.
const RUN: Duration = Duration::from_secs(10 * 60);
/// After it nothing is run again, and what was not begun counts as failed: whoever waits shall have an answer.
const ALL: Duration = Duration::from_secs(75 * 60);

/// One call of cargo that runs tests.
struct TestRun {
    /// Arguments of cargo.
    cargo: Vec<String>,
    /// Arguments of the test harness.
    harness: Vec<String>,
    limit: Duration,
    /// Tests of live jobs, which share the machine with whoever else is on it: those that fail are run once more, alone.
    /// They are named at the end if they pass then.
    is_live: bool,
}

impl TestRun {
    /// The names of what it runs, or how it differs from the other calls.
    fn name(&self) -> String {
        let names =
            self.cargo.iter().skip(1).filter(|word| !COMMON.contains(&word.as_str()) && *word != "--test");
        names.cloned().collect::<Vec<_>>().join(" ")
    }
}

/// Arguments of cargo whatever it runs.
const COMMON: &[&str] = &["--release", "--workspace", "--no-fail-fast"];

/// Sets up, builds, checks and tests.
pub fn run() -> Result<ExitCode> {
    family::adopt();
    let deadline = Instant::now() + ALL;
    let mut summary = Summary::default();
    let ready = summary.step("setup", |_| set_up())
        && summary.step("jobs", |_| jobs::build())
        && summary.step("wrapper", |_| wrapper::build(&[]));
    if ready {
        summary.step("check", |_| check::run());
        for test_run in test_runs()? {
            summary.step(&test_run.name(), |summary| run_tests(&test_run, deadline, summary));
            family::end_what_is_left();
        }
    }
    print!("{}", summary.text());
    Ok(if summary.tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What is said at the end.
#[derive(Default)]
struct Summary {
    tally: TestTally,
    /// What passed when it was run again.
    unsteady: Vec<String>,
    /// What took so long.
    times: Vec<(String, Duration)>,
}

impl Summary {
    /// Does a step, and counts one that failed. True if it did not.
    fn step(&mut self, name: &str, does: impl FnOnce(&mut Self) -> Result<()>) -> bool {
        let begin = Instant::now();
        let result = does(self);
        self.times.push((name.to_owned(), begin.elapsed()));
        if let Err(error) = &result {
            eprintln!("xtask: {name}: {error:#}");
            self.tally.failed += 1;
        }
        result.is_ok()
    }

    /// The last line says how many tests passed and failed.
    fn text(&self) -> String {
        let mut times: Vec<_> = self.times.iter().map(|(name, took)| (took.as_secs(), name)).collect();
        times.sort_by(|a, b| b.cmp(a));
        let times: Vec<String> = times.iter().map(|(took_s, name)| format!("{name} {took_s} s")).collect();
        let unsteady = self.unsteady.iter();
        let unsteady =
            unsteady.map(|name| format!("failed at first, passed when it was run again: {name}\n"));
        let tally = self.tally;
        format!(
            "took: {}\n{}{} passed, {} failed\n",
            times.join(", "),
            unsteady.collect::<String>(),
            tally.passed,
            tally.failed
        )
    }
}

/// One profile for tests, demo and benchmarks, and always the whole workspace, whose crates would be built with other
/// features for some of its packages: what is tested is what is used, and it is built once.
fn test_runs() -> Result<Vec<TestRun>> {
    let run = |more: &[&str], targets: &[String], harness: &[&str]| {
        let words = ["test"].iter().chain(COMMON).chain(more);
        let targets = targets.iter().flat_map(|name| ["--test", name.as_str()]);
        TestRun {
            cargo: words.copied().chain(targets).map(str::to_owned).collect(),
            harness: harness.iter().map(|&word| word.to_owned()).collect(),
            limit: BUILD_AND_RUN,
            is_live: false,
        }
    };
    let live = |name: &String, harness: &[&str]| TestRun {
        limit: RUN,
        is_live: true,
        ..run(&[], std::slice::from_ref(name), harness)
    };
    let pure: Vec<String> =
        PURE.iter().map(|package| integration_tests(package)).collect::<Result<Vec<_>>>()?.concat();
    let mut runs = vec![
        run(&["--no-run"], &[], &[]),
        run(&["--lib", "--bins"], &pure, &[]),
        run(&["--doc"], &[], &[]),
        live(&ON_JOBS.to_owned(), &["--ignored", ONE_AT_A_TIME]),
    ];
    let at_a_time =
        |name: &String| if WAITING.contains(&name.as_str()) { TWO_AT_A_TIME } else { ONE_AT_A_TIME };
    runs.extend(integration_tests(LIVE)?.iter().map(|name| live(name, &[at_a_time(name)])));
    Ok(runs)
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
    if setup::run_for_tests()? != ExitCode::SUCCESS {
        bail!("packages are missing");
    }
    Ok(())
}

fn run_tests(run: &TestRun, deadline: Instant, summary: &mut Summary) -> Result<()> {
    let words = run.cargo.join(" ");
    let limit = || run.limit.min(deadline.saturating_duration_since(Instant::now()));
    if limit().is_zero() {
        bail!("no time is left for cargo {words}");
    }
    let mut outcome = run_harness(&run.cargo, &run.harness, limit())?;
    let failed = std::mem::take(&mut outcome.failed);
    let again = run.is_live && !limit().is_zero();
    if again && outcome.ended == Ended::ForTime {
        family::end_what_is_left();
        outcome = run_harness(&run.cargo, &run.harness, limit())?;
        summary.unsteady.push(format!("all of cargo {words}, which took too long"));
    } else if again && !failed.is_empty() {
        family::end_what_is_left();
        let others = run.harness.iter().filter(|word| *word != ONE_AT_A_TIME && *word != TWO_AT_A_TIME);
        let alone = others.chain(&failed).map(String::as_str).chain([ONE_AT_A_TIME, "--exact"]);
        let second = run_harness(&run.cargo, &alone.map(str::to_owned).collect::<Vec<_>>(), limit())?;
        let passed = failed.into_iter().filter(|name| !second.failed.contains(name));
        summary.unsteady.extend(passed.filter(|_| second.ended != Ended::ForTime));
        outcome = second.after(outcome.tally.passed);
    }
    summary.tally = summary.tally + outcome.tally;
    match outcome.ended {
        Ended::Well => Ok(()),
        Ended::Badly if outcome.tally.failed > 0 => Ok(()),
        Ended::Badly => bail!("cargo {words} failed outside of any test"),
        Ended::ForTime => bail!("cargo {words} took too long"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_that_wait_are_there() {
        let live = integration_tests(LIVE).unwrap();
        assert!(WAITING.iter().all(|name| live.iter().any(|test| test == name)), "{live:?}");
    }

    #[test]
    fn every_integration_test_of_the_workspace_is_run_once() {
        let runs: Vec<String> = test_runs().unwrap().into_iter().flat_map(|run| run.cargo).collect();
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
        let mut summary = Summary::default();
        assert!(!summary.step("nothing", |_| Err(anyhow::anyhow!("no"))));
        assert!(summary.step("something", |_| Ok(())));
        assert_eq!(summary.tally, TestTally { passed: 0, failed: 1 });
    }

    #[test]
    fn the_end_says_what_took_how_long_and_last_how_many_passed() {
        let summary = Summary {
            tally: TestTally { passed: 12, failed: 1 },
            unsteady: vec!["a_test".into()],
            times: vec![
                ("setup".into(), Duration::from_secs(3)),
                ("bus".into(), Duration::from_millis(70_900)),
            ],
        };
        assert_eq!(
            summary.text(),
            "took: bus 70 s, setup 3 s\nfailed at first, passed when it was run again: a_test\n12 passed, 1 failed\n"
        );
    }

    #[test]
    fn a_run_of_tests_has_the_name_of_its_file() {
        let names: Vec<String> = test_runs().unwrap().iter().map(TestRun::name).collect();
        assert_eq!(names.first().unwrap(), "--no-run");
        assert!(names.iter().any(|name| name == "safety"), "{names:?}");
    }
}
