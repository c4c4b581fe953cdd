//! Running a case under dmscope.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;

use super::Case;
use crate::system::processes::{self, descendants, is_alive, signal};
use crate::{Dmscope, FinishedJob, JobSpec, MpiImplementation, RunningJob, RunningSession};

/// How long a job may take to start, and dmscope to say its last, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// A first finding may be followed by one that says more.
const SETTLES: Duration = Duration::from_secs(1);
/// The job has long come to its fault by then.
const HUNG: Duration = Duration::from_secs(2);
/// How long a rank of a right program keeps the others waiting: longer than it takes until quiet ranks are looked at.
const LATE_S: f64 = 1.5;
/// How long a launcher may take to end its ranks.
const GRACE: Duration = Duration::from_secs(3);
/// Written by each rank that came through MPI_Finalize.
const THROUGH: &str = "through";

/// How dmscope comes to the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchMode {
    /// It starts the job.
    Start,
    /// The same, and it records what calls give back.
    Returns,
    /// It attaches to the job when that hangs.
    After,
    /// It does not come: what becomes of the program is all that is seen.
    Alone,
}

impl WatchMode {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Start, Self::Returns, Self::After, Self::Alone];

    /// Name in variables and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Returns => "returns",
            Self::After => "after",
            Self::Alone => "alone",
        }
    }
}

/// What became of a program, and what was said of it.
#[derive(Debug)]
pub struct Seen {
    /// Whether it came to its end, with all of its ranks; `None`: it did not end.
    pub is_through: Option<bool>,
    /// How long it took from its beginning to what was said, or to its end, or until the patience was over.
    pub seconds: f64,
    /// What was found.
    pub findings: Vec<Value>,
}

/// Runs a case, or its right twin, and waits until something is said of it, or it ends, or the time is over.
pub fn watch(
    case: &Case,
    is_right: bool,
    library: MpiImplementation,
    mode: WatchMode,
    limit: Duration,
) -> Result<Seen> {
    let late_s = if is_right { LATE_S } else { 0.0 };
    let watchdog_s = (PATIENCE + limit).as_secs();
    let spec = JobSpec::own(library, "generated")?.ranks(case.ranks as usize);
    let spec = spec.args(case.args(is_right, late_s, watchdog_s));
    match mode {
        WatchMode::Start => from_start(&Dmscope::run(&spec), case.ranks, limit),
        WatchMode::Returns => from_start(&Dmscope::run(&spec).args(["--returns", "all"]), case.ranks, limit),
        WatchMode::After => after(&spec, limit),
        WatchMode::Alone => alone(&spec, limit),
    }
}

/// Something is said of ranks that do not go on, or the session is over.
fn is_an_answer(event: &Value) -> bool {
    let kind = &event["alert"]["raised"]["evidence"]["kind"];
    event["event"] == "report" || kind == "hang" || kind == "collective_mismatch"
}

/// The findings of a report that dmscope makes when it is asked to end.
fn findings_so_far(dmscope: &RunningSession) -> Result<Vec<Value>> {
    dmscope.interrupt();
    let report = dmscope.wait_for_event("report")?;
    Ok(report["report"]["findings"].as_array().context("a report without findings")?.clone())
}

fn from_start(dmscope: &Dmscope, ranks: u32, limit: Duration) -> Result<Seen> {
    let mut dmscope = dmscope.spawn()?;
    dmscope.set_patience(PATIENCE);
    dmscope.wait_for_line("ready")?;
    let begin = Instant::now();
    dmscope.set_patience(limit);
    let alert = dmscope.wait_for(is_an_answer);
    let seconds = begin.elapsed().as_secs_f64();
    dmscope.set_patience(PATIENCE);
    let family = descendants(dmscope.pid());
    if alert.is_ok() {
        sleep(SETTLES);
    }
    if dmscope.has_reported() {
        let session = dmscope.finish()?;
        let is_through = count_through(session.job()?) == ranks as usize;
        let report = session.report()?;
        let findings = report["findings"].as_array().context("a report without findings")?.clone();
        return Ok(Seen { is_through: Some(is_through), seconds, findings });
    }
    let findings = findings_so_far(&dmscope);
    end_job(&family);
    dmscope.finish()?;
    Ok(Seen { is_through: None, seconds, findings: findings? })
}

fn count_through(job: &FinishedJob) -> usize {
    job.stdout.iter().map(|line| line.matches(THROUGH).count()).sum() // MPICH's launcher mixes lines of ranks
}

/// Has the launcher end the job, and ends what it leaves.
fn end_job(family: &[u32]) {
    let launcher =
        family.iter().find(|pid| processes::name(**pid).is_some_and(|name| name.starts_with("mpi")));
    if let Some(launcher) = launcher {
        signal(*launcher, rustix::process::Signal::TERM);
    }
    let deadline = Instant::now() + GRACE;
    while family.iter().any(|pid| is_alive(*pid)) && Instant::now() < deadline {
        sleep(Duration::from_millis(10));
    }
    for pid in family.iter().filter(|pid| is_alive(**pid)) {
        signal(*pid, rustix::process::Signal::KILL);
    }
}

fn after(spec: &JobSpec, limit: Duration) -> Result<Seen> {
    let mut job = spec.spawn()?;
    job.wait_until_ready(PATIENCE)?;
    sleep(HUNG);
    if job.has_ended()? {
        return ended(job);
    }
    let mut dmscope = Dmscope::attach(job.launcher_pid()).spawn()?;
    dmscope.wait_until_attached()?;
    let begin = Instant::now();
    dmscope.set_patience(limit);
    let alert = dmscope.wait_for(is_an_answer);
    let seconds = begin.elapsed().as_secs_f64();
    dmscope.set_patience(PATIENCE);
    if alert.is_ok() {
        sleep(SETTLES);
    }
    let findings = findings_so_far(&dmscope)?;
    dmscope.finish()?;
    let is_through = if job.has_ended()? { Some(true) } else { None };
    Ok(Seen { is_through, seconds, findings })
}

fn alone(spec: &JobSpec, limit: Duration) -> Result<Seen> {
    let mut job = spec.spawn()?;
    job.wait_until_ready(PATIENCE)?;
    let begin = Instant::now();
    while begin.elapsed() < limit {
        if job.has_ended()? {
            return ended(job);
        }
        sleep(Duration::from_millis(10));
    }
    Ok(Seen { is_through: None, seconds: limit.as_secs_f64(), findings: Vec::new() })
}

/// A job that did not wait for anybody to attach.
fn ended(job: RunningJob) -> Result<Seen> {
    let finished = job.finish(PATIENCE)?;
    let seconds = finished.elapsed.as_secs_f64();
    Ok(Seen { is_through: Some(finished.status.success()), seconds, findings: Vec::new() })
}
