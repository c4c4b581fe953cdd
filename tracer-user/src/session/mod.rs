//! A live session: joins the kernel side, the collector, the tape and the pipeline.
//!
//! ```text
//! rings → collector → sequencer → recorder ─┬─► tape
//!                                           └─► pipeline → sink
//! ```
//!
//! Everything that is not deterministic passes through the recorder, so that the tape gives
//! the same findings again. What is the kernel's and the machine's is behind two traits, `Kernel` and `Host`, so
//! that sessions are tested without root.

mod controller;
#[cfg(test)]
mod fake;
mod follow;
mod host;
mod kernel;
mod late_slots;
mod launch;
mod live;
mod losses;
mod names;
mod order;
mod outcome;
mod planner;
mod probes;
mod reach;
mod recorder;
mod sampler;
#[cfg(test)]
mod scene;
mod schedule;
mod sink;
mod slot_move;
mod strangers;
#[cfg(test)]
mod tests;
mod unrecorded;
mod watch;
pub mod wrapped;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use analyzer::input::{OwnTime, ProbeCosts, Start};
use analyzer::options::Options;
use anyhow::{Context, Result, anyhow, ensure};

use crate::budget::Budget;
use crate::host::own_settings::OwnSettings;
use crate::host::sudo::{Account, with_files_of};
use crate::host::support::{gaps, support_facts};
use crate::host::{NodeJob, clock, cpus};
use crate::kernel::{LoadSettings, ProcessKey};
use crate::plan::attach::{OnlyJob, possible};
use crate::plan::{Engine, PlanOptions};

pub use launch::launch;
pub use outcome::Outcome;
pub use recorder::{FromNodes, InputFeed, LetterBox, NameSource, NodePart, Outlets, Recorder, Tape};
pub use schedule::SampleSchedule;
pub use sink::{AttachSummary, Recorded, SessionStatus, Sink};

use controller::{BudgetController, JobCpus};
use follow::{Launcher, Limits, Parts, Session};
use live::{Calibration, LiveHost, LiveKernel};
use planner::{PlanSource, Planned, Planner};

/// What a session is asked for.
pub struct Settings {
    /// Rings and what is recorded.
    pub kernel: LoadSettings,
    /// What is probed.
    pub plan: PlanOptions,
    /// Thresholds.
    pub analysis: Options,
    /// Ends after so long.
    pub duration: Option<Duration>,
    /// Whether other processes are kept free of probes.
    pub only_job: OnlyJob,
    /// What it may cost the job; `None`: whatever it takes.
    pub budget: Option<Budget>,
    /// Where inputs go besides.
    pub outlets: Outlets,
    /// It is one node's part of a job; `None`: all of it.
    pub part: Option<NodePart>,
    /// MPI calls kept for a page; `None`: no page is wanted.
    pub page_calls: Option<usize>,
    /// Set from outside (a signal) to end the session.
    pub stop: Arc<AtomicBool>,
}

/// Watches a running job to its end, or until told to stop.
///
/// # Errors
/// The environment does not allow it; the job is gone. What happens later is no error.
pub fn attach(job: &NodeJob, settings: Settings, sink: &mut dyn Sink) -> Result<Outcome> {
    let begin_ns = clock::monotonic_ns();
    OwnSettings::change()?;
    let mut planner = Planner::new(settings.plan.clone());
    let alloc_min_bytes = settings.kernel.alloc_min_bytes;
    planner.get_ready();
    // The kernel checks programs while another process reads files: either takes a tenth of a second.
    let (prepared, planned) = std::thread::scope(|scope| {
        let planning = scope.spawn(|| planner.processes(&pids_of(job)));
        (prepare(settings, &job.cpus(), sink), planning.join())
    });
    let (parts, limits) = prepared?;
    let planned = planned.map_err(|_| anyhow!("the planning thread has failed"))??;
    let start = start(&job.command, alloc_min_bytes, false);
    attach_with(parts, &limits, Box::new(planner), planned, start, begin_ns, job)
}

fn pids_of(job: &NodeJob) -> Vec<u32> {
    job.ranks.iter().map(|rank| rank.pid).collect()
}

/// The same with any kernel, machine and planner. `planned`: what the ranks mapped before; `begin_ns`: when it was asked
/// for, CLOCK_MONOTONIC.
fn attach_with(
    parts: Parts<'_>,
    limits: &Limits,
    mut planner: Box<dyn PlanSource>,
    mut planned: Planned,
    start: Start,
    begin_ns: u64,
    job: &NodeJob,
) -> Result<Outcome> {
    let mut session = Session::new(parts)?;
    session.start(start);
    session.hurry();
    let pids = pids_of(job);
    // Before anything is attached: in which processes is decided then.
    session.expect(job.size());
    session.reach(&pids);
    // What was mapped in between nobody else would tell of.
    let mut since = planner.processes(&pids)?;
    let blind: Vec<u32> = planned.blind.iter().chain(&since.blind).copied().collect();
    session.use_slots(&mut planned, &pids);
    session.apply(planned);
    if !since.is_empty() {
        session.add_slots(&mut since);
        session.apply(since);
    }
    session.begin_budget();
    session.open_ranks(&job.ranks.iter().map(ProcessKey::of_rank).collect::<Vec<_>>());
    session.open_starters(job);
    session.unplanned(&blind);
    session.attached(begin_ns);
    session.follow(limits, planner, Launcher::Done)
}

/// Starts a job and watches it from its first instruction. `account`: whose job it is, if not ours.
///
/// # Errors
/// The environment does not allow it, or the command cannot be run.
pub fn run(
    command: &[String],
    account: Option<&Account>,
    settings: Settings,
    sink: &mut dyn Sink,
) -> Result<Outcome> {
    let begin_ns = clock::monotonic_ns();
    ensure!(
        settings.only_job != OnlyJob::Always,
        "--only-job always: a process of a job that is started here would run for a moment before it has probes of its \
         own, and be watched in part; start the job without dmscope and attach to it, or leave out the option"
    );
    let settings_before = OwnSettings::change()?;
    let mut planner = Planner::new(settings.plan.clone());
    let is_fast = settings.plan.engine == Engine::Fast;
    let alloc_min_bytes = settings.kernel.alloc_min_bytes;
    let (parts, limits) = prepare(settings, &cpus::of_process(std::process::id()), sink)?;
    let mut session = Session::new(parts)?;
    session.start(start(&command.join(" "), alloc_min_bytes, true));
    session.begin_with(planner.command(command)?, is_fast);
    session.begin_budget();
    let waiting = launch(command, account, settings_before).context("cannot make a process for the job")?;
    session.watch_follower(waiting.pid);
    let child = waiting.go().with_context(|| format!("cannot run {}", command[0]))?;
    session.attached(begin_ns);
    session.follow(&limits, Box::new(planner), Launcher::Child(child))
}

/// A job that somebody is about to start elsewhere, which will have ranks here.
pub struct ExpectedJob<'a> {
    /// What starts it.
    pub command: &'a [String],
    /// Whose it is: files are opened with this user's rights.
    pub uid: u32,
    /// Called when everything is ready for it.
    pub ready: &'a mut dyn FnMut(),
    /// Called again and again until it answers: the daemons that are about to start ranks here; none: no more is to be
    /// expected.
    pub daemons: &'a mut dyn FnMut() -> Option<Vec<u32>>,
}

/// Watches a job from its first instruction, as far as it comes here.
///
/// # Errors
/// The environment does not allow it.
pub fn expect(job: ExpectedJob<'_>, settings: Settings, sink: &mut dyn Sink) -> Result<()> {
    /// How often it is looked whether daemons are there: from their start to that of their ranks it takes longer.
    const PERIOD: Duration = Duration::from_millis(1);
    let begin_ns = clock::monotonic_ns();
    OwnSettings::change()?;
    let mut planner = Planner::new(settings.plan.clone());
    let is_fast = settings.plan.engine == Engine::Fast;
    let alloc_min_bytes = settings.kernel.alloc_min_bytes;
    let stop = Arc::clone(&settings.stop);
    let planned = with_files_of(job.uid, || planner.command(job.command));
    let (parts, limits) = prepare(settings, &BTreeSet::new(), sink)?;
    let mut session = Session::new(parts)?;
    session.start(start(&job.command.join(" "), alloc_min_bytes, true));
    session.begin_with(planned?, is_fast);
    session.get_ready_for_daemon();
    (job.ready)();
    let daemons = loop {
        if stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        match (job.daemons)() {
            Some(daemons) if daemons.is_empty() => std::thread::sleep(PERIOD),
            Some(daemons) => break daemons,
            None => return Ok(()),
        }
    };
    session.begin_budget();
    let launcher = session.follow_daemons(&daemons);
    session.attached(begin_ns);
    session.follow(&limits, Box::new(planner), launcher).map(|_| ())
}

fn start(job: &str, alloc_min_bytes: u64, launched: bool) -> Start {
    let system = rustix::system::uname();
    let clocks = clock::reading();
    Start {
        dmscope_version: env!("CARGO_PKG_VERSION").to_owned(),
        host: system.nodename().to_string_lossy().into_owned(),
        kernel: system.release().to_string_lossy().into_owned(),
        time_ns: clocks.time_ns,
        wall_clock_s: clocks.wall_clock_ns / 1_000_000_000,
        wall_clock_rest_ns: (clocks.wall_clock_ns % 1_000_000_000) as u32,
        nodes: Vec::new(),
        wall_clock_error_ns: clocks.error_ns,
        node_clock_errors_ns: Vec::new(),
        sums: false,
        job: job.to_owned(),
        launched,
        alloc_min_bytes,
    }
}

/// As many as a job may use of which it is known where it may run; 0: it is not.
fn shared_cpus(job_cpus: &BTreeSet<u32>) -> u32 {
    u32::try_from(job_cpus.len()).unwrap_or(0)
}

/// Loads the kernel part, for this machine as it is.
fn prepare<'s>(
    settings: Settings,
    job_cpus: &BTreeSet<u32>,
    sink: &'s mut dyn Sink,
) -> Result<(Parts<'s>, Limits)> {
    let own = cpus::of_process(std::process::id());
    let spare_cpus: Vec<u32> = cpus::spare(&cpus::online(), &own, job_cpus).into_iter().collect();
    sink.placed(&spare_cpus);
    gaps(&support_facts()).iter().for_each(|gap| sink.notice(gap));
    let calibrates = Calibration { budget: settings.budget.is_some(), tape: settings.outlets.tape.is_some() };
    let is_apart = !job_cpus.is_empty() && !spare_cpus.is_empty();
    // Each switch of the scheduler costs all of the machine 0.4 µs more: no budget counts that.
    let follows_own_time = calibrates.tape && !is_apart && settings.budget.is_none();
    let loading = LoadSettings { follows_own_time, ..settings.kernel };
    let (mut kernel, costs, probe_costs) = LiveKernel::load(loading, &spare_cpus, calibrates)?;
    let probe_costs = probe_costs.map(|costs| {
        let own_time = if is_apart { OwnTime::Apart } else { costs.own_time };
        ProbeCosts { job_cpus: shared_cpus(job_cpus), own_time, ..costs }
    });
    let only_job = possible(settings.only_job, || kernel.filter_sees_all_threads())?;
    let stranger_ns = costs.unwrap_or_default().stranger_ns;
    let shared = JobCpus { count: job_cpus.len(), are_shared: spare_cpus.is_empty() };
    let budget = settings
        .budget
        .zip(costs)
        .map(|(budget, costs)| BudgetController::new(budget, costs, shared, &LiveHost));
    let threads = kernel.thread_reader()?;
    let recorder = match settings.part {
        Some(part) => Recorder::of_part(settings.analysis, settings.outlets, part),
        None => Recorder::new(settings.analysis, settings.outlets, settings.page_calls),
    };
    let limits = Limits { duration: settings.duration, stop: settings.stop };
    let host = Arc::new(LiveHost);
    let kernel = Box::new(kernel);
    let parts = Parts {
        kernel,
        threads,
        host,
        recorder,
        budget,
        probe_costs,
        only_job,
        stranger_ns,
        spare_cpus,
        sink,
    };
    Ok((parts, limits))
}
