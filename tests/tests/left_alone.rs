//! Jobs that do not hang: no hang is told of, however long their ranks wait for each other.
//!
//! `DMSCOPE_TEST_CATALOGUE=right` takes all cases of the catalogue that come to an end and the right twins of all, not a few; a
//! name takes those of that program, or with that argument;
//! `DMSCOPE_TEST_RUNS=N` takes each so often, `DMSCOPE_TEST_AT_ONCE=N` runs so many jobs at the same time (2), and
//! `DMSCOPE_TEST_VERY_SLOW=1` takes jobs in which a rank computes for a minute. The tape of a job that is told of is kept.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

use analyzer::input::Input;
use analyzer::tape::{Item, Reader};
use anyhow::{Context, Result, ensure};
use live::catalogue::CASES;
use live::fault_case::{Ends, FaultCase};
use live::right_jobs::{HeldBy, RightJob, SLOW_BUT_RIGHT, VERY_SLOW_BUT_RIGHT};
use live::{Dmscope, JobSpec, MpiImplementation, RunningJob, debugger, number_from_environment};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

const TIMEOUT: Duration = Duration::from_secs(300);
/// Shorter than what a stopped rank is given before it is told of, long enough for those that wait to be looked at four times.
const STOPPED: Duration = Duration::from_secs(5);
/// For so long somebody looks at a rank with a debugger.
const DEBUGGED: Duration = Duration::from_secs(3);
/// A job that is to be disturbed moves for a while before.
const MOVES: Duration = Duration::from_millis(300);
/// The rank that is held.
const HELD_RANK: usize = 1;

/// A run of a job that does not hang.
#[derive(Clone)]
struct RightRun {
    library: MpiImplementation,
    job: &'static str,
    args: Vec<&'static str>,
    ranks: u32,
    held_by: HeldBy,
    /// It finds its data right.
    ends_well: bool,
}

impl fmt::Display for RightRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { library, job, args, ranks, held_by, .. } = self;
        write!(f, "{job} {}, {ranks} ranks, {}, held by {held_by:?}", args.join(" "), library.name())
    }
}

/// What a session told of a job, and saw of its ranks.
#[derive(Default)]
struct SessionFindings {
    hangs: Vec<String>,
    /// Other warnings and notices.
    others: Vec<String>,
    /// MPI calls that ranks were found in when they were looked at.
    found_in: BTreeSet<String>,
}

fn is_hang(finding: &Value) -> bool {
    finding["evidence"]["kind"] == "hang"
}

fn summary(finding: &Value) -> String {
    finding["summary"].as_str().unwrap_or_default().to_owned()
}

fn watch(subject: &RightRun) -> Result<SessionFindings> {
    let directory = TempDir::new()?;
    let tape = directory.path().join("x.dmt");
    let spec = JobSpec::own(subject.library, subject.job)?.ranks(subject.ranks as usize);
    let mut spec = spec.args(subject.args.iter().copied()).held();
    if subject.held_by != HeldBy::Nobody {
        spec = spec.endless();
    }
    let job = spec.spawn()?;
    job.wait_until_ready(TIMEOUT)?;
    let mut dmscope = Dmscope::attach(job.launcher_pid()).record(&tape).spawn()?;
    // Many jobs at the same time may be many more ranks than cores.
    dmscope.set_patience(TIMEOUT);
    dmscope.wait_until_attached()?;
    job.go()?;
    hold(subject.held_by, &job)?;
    let job = job.finish(TIMEOUT)?;
    if subject.ends_well {
        job.check_verdict()?;
    }
    let session = dmscope.finish()?;
    let raised = session.events_of("alert").into_iter().map(|alert| &alert["alert"]["raised"]);
    let reported = session.report()?["findings"].as_array().context("a report without findings")?;
    let found_in = calls_looked_at(&tape)?;
    let mut hangs: Vec<String> =
        raised.chain(reported).filter(|finding| is_hang(finding)).map(summary).collect();
    if !hangs.is_empty() {
        hangs.push(directory.keep().join("x.dmt").display().to_string());
    }
    let others = reported.iter().filter(|finding| !is_hang(finding)).map(said).collect();
    Ok(SessionFindings { hangs, others, found_in })
}

fn said(finding: &Value) -> String {
    format!("{}: {}", finding["severity"].as_str().unwrap_or_default(), summary(finding))
}

/// Keeps one rank from going on, then lets the job end.
fn hold(by: HeldBy, job: &RunningJob) -> Result<()> {
    if by == HeldBy::Nobody {
        return Ok(());
    }
    std::thread::sleep(MOVES);
    let pid = job.rank_pids()?[HELD_RANK];
    if by == HeldBy::Debugger {
        debugger::hold(pid, DEBUGGED)?;
    } else {
        let process = Pid::from_raw(pid.cast_signed()).context("a rank without a process")?;
        kill_process(process, Signal::STOP)?;
        std::thread::sleep(STOPPED);
        kill_process(process, Signal::CONT)?;
    }
    std::thread::sleep(MOVES);
    job.stop()
}

fn calls_looked_at(tape: &std::path::Path) -> Result<BTreeSet<String>> {
    let reader = Reader::new(std::fs::File::open(tape).context("opening a tape")?)?;
    let mut calls = BTreeSet::new();
    for item in reader {
        if let Item::Input(Input::Threads(looked)) = item? {
            calls.extend(looked.threads.into_iter().filter_map(|thread| Some(thread.call?.function)));
        }
    }
    Ok(calls)
}

/// Watches all of them so often as is wished, some at the same time, and prints what was said of each.
fn watch_all(subjects: &[RightRun]) -> Result<Vec<(RightRun, SessionFindings)>> {
    let subjects = vec![subjects; number_from_environment("DMSCOPE_TEST_RUNS", 1)?].concat();
    let waiting = Mutex::new(subjects.iter());
    let done = Mutex::new(Vec::new());
    let work = || -> Result<()> {
        loop {
            let Some(subject) = waiting.lock().expect("subjects").next() else { return Ok(()) };
            let told = watch(subject).with_context(|| subject.to_string())?;
            let found_in = told.found_in.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
            eprintln!("{subject}: waited in {found_in:?}; {:?}; {:?}", told.hangs, told.others);
            done.lock().expect("what was told").push((subject.clone(), told));
        }
    };
    let at_once = number_from_environment("DMSCOPE_TEST_AT_ONCE", 2)?;
    std::thread::scope(|scope| -> Result<()> {
        let workers: Vec<_> = (0..at_once).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a worker does not panic"))
    })?;
    Ok(done.into_inner().expect("what was told"))
}

/// Fails if any hang was told of, or if no rank was ever found waiting although some were held: then nothing was shown.
fn check(all: &[(RightRun, SessionFindings)]) -> Result<()> {
    let wrong: Vec<String> = all
        .iter()
        .filter(|(_, told)| !told.hangs.is_empty())
        .map(|(subject, told)| format!("{subject}: {:?}", told.hangs))
        .collect();
    let held = all.iter().filter(|(subject, _)| subject.held_by != HeldBy::Nobody);
    let found = held.clone().filter(|(_, told)| !told.found_in.is_empty()).count();
    eprintln!(
        "{} of {} jobs are told of; ranks of {found} of {} jobs were seen to wait for one that was held",
        wrong.len(),
        all.len(),
        held.clone().count()
    );
    ensure!(
        wrong.is_empty(),
        "of {} of {} jobs a hang is told:\n{}",
        wrong.len(),
        all.len(),
        wrong.join("\n")
    );
    ensure!(held.count() == 0 || found > 0, "no rank was looked at while it waited");
    Ok(())
}

fn slow(jobs: &[RightJob]) -> Vec<RightRun> {
    let of = |library| {
        jobs.iter().map(move |job| RightRun {
            library,
            job: job.job,
            args: job.args.to_vec(),
            ranks: job.ranks,
            held_by: job.held_by,
            ends_well: true,
        })
    };
    MpiImplementation::ALL.into_iter().flat_map(of).collect()
}

#[test]
fn jobs_that_are_slow_but_right_are_left_alone() -> Result<()> {
    let very_slow = std::env::var_os("DMSCOPE_TEST_VERY_SLOW").is_some();
    let jobs = slow(if very_slow { VERY_SLOW_BUT_RIGHT } else { SLOW_BUT_RIGHT });
    check(&watch_all(&jobs)?)
}

/// Each of them with both libraries; in a usual run only the first of each program.
fn with_both(mut cases: Vec<RightRun>) -> Vec<RightRun> {
    match std::env::var("DMSCOPE_TEST_CATALOGUE").as_deref() {
        Ok("right") => {}
        Ok(wanted) => cases.retain(|case| case.job == wanted || case.args.contains(&wanted)),
        Err(_) => {
            let mut seen = BTreeSet::new();
            cases.retain(|case| seen.insert(case.job));
        }
    }
    let both = |case: RightRun| MpiImplementation::ALL.map(|library| RightRun { library, ..case.clone() });
    cases.into_iter().flat_map(both).collect()
}

fn subject(case: &FaultCase, args: Vec<&'static str>, held_by: HeldBy, ends_well: bool) -> RightRun {
    RightRun {
        library: MpiImplementation::OpenMpi,
        job: case.job,
        args,
        ranks: case.ranks,
        held_by,
        ends_well,
    }
}

/// The right twins of all cases, each once.
fn twins(held_by: HeldBy, more: &[&'static str]) -> Vec<RightRun> {
    let mut seen = BTreeSet::new();
    let twins = CASES.iter().filter_map(|case| Some((case, case.twin?)));
    let once = twins.filter(|(case, twin)| seen.insert((case.job, *twin, case.ranks)));
    once.map(|(case, twin)| subject(case, [twin, more].concat(), held_by, true)).collect()
}

#[test]
fn cases_that_come_to_an_end_are_no_hang() -> Result<()> {
    let ends = |case: &&FaultCase| matches!(case.ends, Ends::EndsWell | Ends::EndsWrong);
    let cases = CASES.iter().filter(ends);
    let cases =
        cases.map(|case| subject(case, case.args.to_vec(), HeldBy::Nobody, case.ends == Ends::EndsWell));
    check(&watch_all(&with_both(cases.collect()))?)
}

#[test]
fn right_twins_of_faulty_jobs_are_left_alone() -> Result<()> {
    check(&watch_all(&with_both(twins(HeldBy::Nobody, &[])))?)
}

#[test]
fn right_twins_are_left_alone_when_one_of_their_ranks_is_stopped_for_a_while() -> Result<()> {
    check(&watch_all(&with_both(twins(HeldBy::Signal, &["--pause-us", "1000"])))?)
}
