//! A live session: joins the kernel side, the collector, the tape and the pipeline.
//!
//! ```text
//! rings → collector → sequencer → feed ─┬─► tape
//!                                       └─► pipeline → sink
//! ```
//!
//! Everything that is not deterministic passes through [`feed::Feed`], so that the tape gives
//! the same findings again.

mod budget;
mod facts;
mod feed;
mod looks;
mod names;
mod outcome;
mod planner;
mod probes;
mod watch;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use analyzer::input::{End, Input, Loss, ProcessFacts, Start};
use analyzer::options::Options;
use analyzer::sequencer::{DEFAULT_LATENESS_BOUND_NS, DEFAULT_MAX_HELD_RECORDS, Sequencer};
use analyzer::wire::{Body, RawRecord, Record};
use anyhow::{Context, Result};

use crate::budget::Budget;
use crate::clock::{monotonic_ns, wall_clock_s};
use crate::collector::{Collector, DrainBatch};
use crate::host::{self, Job};
use crate::kernel::{Settings as KernelSettings, SlotCounters, Tracer};
use crate::launch;
use crate::plan::PlanOptions;
use crate::sink::{HitSink, Sink, Status};

pub use feed::Tape;
pub use outcome::Outcome;
pub use probes::AttachSummary;

use budget::Keeper;
use facts::PendingFacts;
use feed::Feed;
use looks::Looks;
use names::SharedNames;
use planner::{Planned, Planner, PlannerThread};
use probes::Probes;
use watch::Watched;

/// Time between two ticks: how soon an alert can follow its cause.
const TICK_NS: u64 = 50_000_000;
/// The tape is safe up to here, and people see new numbers.
const STATUS_PERIOD: Duration = Duration::from_millis(500);
const TAPE_PERIOD: Duration = Duration::from_secs(1);
/// How long to wait for a round before looking at the clock again: longer than it takes until the next one in a job that
/// rests, so that nobody wakes up for nothing.
const PATIENCE: Duration = Duration::from_millis(100);

/// What a session is asked for.
pub struct Settings {
    /// Rings and what is recorded.
    pub kernel: KernelSettings,
    /// What is probed.
    pub plan: PlanOptions,
    /// Thresholds.
    pub analysis: Options,
    /// Ends after so long.
    pub duration: Option<Duration>,
    /// What it may cost the job; `None`: whatever it takes.
    pub budget: Option<Budget>,
    /// Where to record to.
    pub tape: Option<Tape>,
    /// MPI calls kept for a page; `None`: no page is wanted.
    pub page_calls: Option<usize>,
    /// Set from outside (a signal) to end the session.
    pub stop: Arc<AtomicBool>,
}

/// Watches a running job to its end, or until told to stop.
///
/// # Errors
/// The environment does not allow it; the job is gone. What happens later is no error.
pub fn attach(job: &Job, settings: Settings, sink: &mut dyn Sink) -> Result<Outcome> {
    let begin = Instant::now();
    let mut planner = Planner::new(settings.plan.clone());
    let alloc_min_bytes = settings.kernel.alloc_min_bytes;
    let (mut session, limits) = Session::prepare(settings, &job.cpus(), sink)?;
    session.feed.push(Input::Start(Box::new(start(&job.command, alloc_min_bytes, false))));
    let pids: Vec<u32> = job.ranks.iter().map(|rank| rank.pid).collect();
    let planned = planner.processes(&pids)?;
    session.apply(planned);
    session.open_ranks(&pids);
    session.open_starters(job);
    session.sink.attached(&session.probes.summary(begin.elapsed()));
    session.follow(limits, planner, None)
}

/// Watches a job for a while and counts how often each probe is hit. Probe ids are those of the
/// plan that the same facts give.
///
/// # Errors
/// See [`attach`].
pub fn count_hits(job: &Job, plan: PlanOptions, duration: Duration) -> Result<BTreeMap<u32, u64>> {
    let settings = Settings {
        kernel: KernelSettings::default(),
        plan,
        analysis: Options::default(),
        duration: Some(duration),
        budget: None,
        tape: None,
        page_calls: None,
        stop: Arc::default(),
    };
    let mut hits = HitSink::default();
    attach(job, settings, &mut hits)?;
    Ok(hits.0)
}

/// Starts a job and watches it from its first instruction.
///
/// # Errors
/// The environment does not allow it, or the command cannot be run.
pub fn run(command: &[String], settings: Settings, sink: &mut dyn Sink) -> Result<Outcome> {
    let begin = Instant::now();
    let mut planner = Planner::new(settings.plan.clone());
    let alloc_min_bytes = settings.kernel.alloc_min_bytes;
    let (mut session, limits) =
        Session::prepare(settings, &host::cpus::of_process(std::process::id()), sink)?;
    session.feed.push(Input::Start(Box::new(start(&command.join(" "), alloc_min_bytes, true))));
    let planned = planner.command(command)?;
    session.apply(planned);
    let waiting = launch::launch(command).context("cannot make a process for the job")?;
    session.watch_follower(waiting.pid);
    let child = waiting.go().with_context(|| format!("cannot run {}", command[0]))?;
    session.sink.attached(&session.probes.summary(begin.elapsed()));
    session.follow(limits, planner, Some(child))
}

fn start(job: &str, alloc_min_bytes: u64, launched: bool) -> Start {
    let system = rustix::system::uname();
    Start {
        dmscope_version: env!("CARGO_PKG_VERSION").to_owned(),
        host: system.nodename().to_string_lossy().into_owned(),
        kernel: system.release().to_string_lossy().into_owned(),
        time_ns: monotonic_ns(),
        wall_clock_s: wall_clock_s(),
        job: job.to_owned(),
        launched,
        alloc_min_bytes,
    }
}

/// How the loop is ended.
struct Limits {
    deadline: Option<Instant>,
    stop: Arc<AtomicBool>,
}

struct Session<'s> {
    tracer: Tracer,
    collector: Collector,
    sequencer: Sequencer,
    feed: Feed,
    probes: Probes,
    spare_cpus: Vec<u32>,
    names: SharedNames,
    watched: Watched,
    facts: PendingFacts,
    keeper: Option<Keeper>,
    looks: Looks,
    /// By slot, when its last record was written.
    last_record_ns: HashMap<u32, u64>,
    /// Everything that the budget allows has been watched since then.
    watched_since_ns: u64,
    lost: HashMap<u32, SlotCounters>,
    last_look_ns: u64,
    last_tick_ns: u64,
    status: Status,
    sink: &'s mut dyn Sink,
}

impl<'s> Session<'s> {
    fn prepare(
        settings: Settings,
        job_cpus: &BTreeSet<u32>,
        sink: &'s mut dyn Sink,
    ) -> Result<(Self, Limits)> {
        let own = host::cpus::of_process(std::process::id());
        let spare: Vec<u32> = host::cpus::spare(&host::cpus::online(), &own, job_cpus).into_iter().collect();
        sink.placed(&spare);
        let mut tracer = Tracer::load(settings.kernel)?;
        let keeper = match settings.budget {
            Some(budget) => {
                let costs = tracer.calibrate()?;
                Some(Keeper::new(budget, costs, tracer.counters(), job_cpus.len(), spare.is_empty()))
            }
            None => None,
        };
        tracer.attach_kernel_events()?;
        let collector =
            Collector::start(tracer.counters(), spare.clone()).context("cannot start the reading thread")?;
        let lister = tracer.thread_lister()?;
        let now = monotonic_ns();
        let session = Self {
            tracer,
            collector,
            sequencer: Sequencer::new(DEFAULT_LATENESS_BOUND_NS, DEFAULT_MAX_HELD_RECORDS),
            feed: Feed::new(settings.analysis, settings.tape, settings.page_calls),
            probes: Probes::new(settings.budget.is_some()),
            spare_cpus: spare.clone(),
            names: SharedNames::default(),
            watched: Watched::default(),
            facts: PendingFacts::default(),
            keeper,
            looks: Looks::start(lister, spare).context("cannot start the looking thread")?,
            last_record_ns: HashMap::new(),
            watched_since_ns: now,
            lost: HashMap::new(),
            last_look_ns: now,
            last_tick_ns: now,
            status: Status::default(),
            sink,
        };
        let limits = Limits { deadline: settings.duration.map(|d| Instant::now() + d), stop: settings.stop };
        Ok((session, limits))
    }

    fn follow(mut self, limits: Limits, planner: Planner, mut child: Option<Child>) -> Result<Outcome> {
        let planner = PlannerThread::start(planner, self.spare_cpus.clone())
            .context("cannot start the planning thread")?;
        // Not before: placing probes is to be quick, and a job that is started here would inherit it.
        crate::cpus::stay_on(&self.spare_cpus);
        match &mut self.keeper {
            // It says how much there is to do; what is done late can not keep the budget.
            Some(keeper) => keeper.begin(),
            None if self.spare_cpus.is_empty() => crate::cpus::yield_to_the_job(),
            None => {}
        }
        // What was loaded while the first plan was made.
        planner.look_at(self.watched.pids());
        let (mut status_due, mut tape_due) = (Instant::now(), Instant::now() + TAPE_PERIOD);
        let reason = loop {
            let round = self.collector.next(PATIENCE);
            // Before its records are looked into, which takes time: what is decided late can not keep the budget.
            self.keep_budget(round.as_ref());
            if let Some(round) = round {
                let loaded = self.round(round);
                if !loaded.is_empty() {
                    planner.look_at(loaded);
                }
            }
            self.attach_more(&planner);
            self.look_at_quiet_ranks();
            let now = Instant::now();
            if now >= status_due {
                status_due = now + STATUS_PERIOD;
                self.show_status();
                self.watched.forget_the_dead();
                self.watched.settle(&mut self.tracer, &self.probes);
            }
            if now >= tape_due {
                tape_due = now + TAPE_PERIOD;
                self.feed.flush(self.sink);
            }
            if let Some(reason) = self.ended(&limits, child.as_mut()) {
                break reason;
            }
        };
        self.end(reason, child)
    }

    fn ended(&mut self, limits: &Limits, child: Option<&mut Child>) -> Option<&'static str> {
        if limits.stop.load(Ordering::Relaxed) {
            return Some("interrupted");
        }
        if limits.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Some("the time given is over");
        }
        let launcher_ended = child.is_none_or(|child| matches!(child.try_wait(), Ok(Some(_)) | Err(_)));
        (launcher_ended && !self.watched.has_ranks()).then_some("the job ended")
    }

    fn end(mut self, reason: &str, child: Option<Child>) -> Result<Outcome> {
        if self.spare_cpus.is_empty() && self.keeper.is_none() {
            crate::cpus::catch_up();
        }
        // All at once, as at the beginning; taking the probes out takes longer.
        for pid in self.watched.pids() {
            self.tracer.unwatch(pid);
        }
        self.tracer.detach_all();
        for round in self.collector.finish() {
            self.round(round);
        }
        let (feed, facts) = (&mut self.feed, &mut self.facts);
        self.sequencer.finish(|input| facts.push_with(input, feed));
        facts.push_until(u64::MAX, feed);
        let failed_probes = self.probes.failed();
        self.feed.push(Input::End(End { time_ns: monotonic_ns(), reason: reason.to_owned(), failed_probes }));
        self.feed.tell_alerts(self.sink);
        self.show_status();
        let report = self.feed.finish(self.sink);
        self.sink.report(&report);
        Ok(Outcome::of(&report, child))
    }

    /// All at once, when all probes are in place: else a copy would be seen whose reader's probe
    /// is not there yet, and look like data that nobody reads.
    fn open_ranks(&mut self, pids: &[u32]) {
        self.watched.give_slots(pids, &mut self.tracer, &self.collector, self.sink);
        for &pid in pids {
            self.watched.open(pid, &mut self.tracer, self.sink);
        }
        // Facts last: a mapping made while they are read is seen as a record.
        for &pid in pids {
            if let Some(facts) = self.facts_of(pid, true) {
                self.watched.tell_own_code(pid, &facts.mappings, &mut self.tracer, &self.probes);
                self.facts.add(facts.time_ns, Input::Process(Box::new(facts)));
            }
        }
    }

    /// A job may still be starting: its launcher and that one's helpers are watched, for the ranks that
    /// they will start, and those that came since the job was looked at are opened.
    fn open_starters(&mut self, job: &Job) {
        for pid in host::jobs::starters(job) {
            self.watch_follower(pid);
            self.learn(pid, false);
        }
        let late = host::jobs::late_ranks(job).into_iter().map(|rank| rank.pid);
        let late: Vec<u32> = late.filter(|pid| !self.watched.is_rank(*pid)).collect();
        self.open_ranks(&late);
    }

    /// The launcher: its children are what is of interest.
    fn watch_follower(&mut self, pid: u32) {
        self.watched.give_slots(&[pid], &mut self.tracer, &self.collector, self.sink);
        self.watched.open(pid, &mut self.tracer, self.sink);
    }

    fn learn(&mut self, pid: u32, is_rank: bool) {
        if let Some(facts) = self.facts_of(pid, is_rank) {
            self.facts.add(facts.time_ns, Input::Process(Box::new(facts)));
        }
    }

    /// None: a process that is gone already has nothing more to say.
    fn facts_of(&mut self, pid: u32, is_rank: bool) -> Option<ProcessFacts> {
        let mut facts = host::process_facts(pid, monotonic_ns()).ok()?;
        self.watched.note(&facts, is_rank);
        if !is_rank && self.watched.has_inherited_rank(pid) {
            // A script, say, that inherited a rank's environment.
            facts.rank = None;
        }
        Some(facts)
    }

    /// What carries a rank's environment is a rank if it runs MPI.
    fn promote(&mut self, pid: u32) {
        let exe = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        if !matches!(host::processes::mpi_library(pid, &exe.to_string_lossy(), true), Ok(Some(_))) {
            return;
        }
        self.watched.give_slots(&[pid], &mut self.tracer, &self.collector, self.sink);
        self.watched.open(pid, &mut self.tracer, self.sink);
        self.learn(pid, true);
    }

    /// Takes what was found in the rings; gives the ranks that have loaded something.
    fn round(&mut self, round: DrainBatch) -> Vec<u32> {
        self.status.unreadable += round.unreadable;
        self.losses(&round);
        let loaded = self.lives(&round);
        for (slot, records) in round.records {
            self.status.records += records.len() as u64;
            if let Some(last) = records.last() {
                self.last_record_ns.insert(slot, last.time_ns());
            }
            for record in &records {
                self.sequencer.push(slot as u16, *record);
            }
            self.collector.give_back(records);
        }
        let (feed, facts) = (&mut self.feed, &mut self.facts);
        self.sequencer.advance(round.begin_ns, |input| facts.push_with(input, feed));
        facts.push_until(self.sequencer.horizon_ns(), feed);
        self.last_look_ns = round.end_ns;
        self.tick(round.begin_ns);
        loaded
    }

    /// What ranks are doing that have left no record for a while: they may wait for each other. In a pause nobody
    /// leaves one, and who is quiet may move.
    fn look_at_quiet_ranks(&mut self) {
        if let Some(threads) = self.looks.found() {
            self.facts.add(threads.time_ns, Input::Threads(Box::new(threads)));
        }
        if self.looks.is_busy() || self.keeper.as_ref().is_some_and(Keeper::is_paused) {
            return;
        }
        let now_ns = monotonic_ns();
        let ranks = self.watched.rank_slots();
        let last = |slot| self.last_record_ns.get(&slot).copied().unwrap_or(0).max(self.watched_since_ns);
        let due = self.looks.paces.due(now_ns, ranks.map(|(pid, slot)| (pid, last(slot))));
        if !due.is_empty() {
            let with_calls = due.into_iter().map(|pid| (pid, self.feed.last_calls(pid)));
            self.looks.look(now_ns, with_calls.collect());
        }
    }

    fn tick(&mut self, now_ns: u64) {
        if now_ns < self.last_tick_ns + TICK_NS {
            return;
        }
        self.last_tick_ns = now_ns;
        self.feed.push(Input::Tick { time_ns: now_ns });
        self.feed.tell_alerts(self.sink);
    }

    /// Losses come ahead of the records of their round: what was lost was lost before these.
    fn losses(&mut self, round: &DrainBatch) {
        for &(slot, counters) in &round.counters {
            let before = self.lost.insert(slot, counters).unwrap_or_default();
            let movements = counters.lost_movements - before.lost_movements;
            let state = counters.lost_state - before.lost_state;
            if movements + state == 0 {
                continue;
            }
            self.status.lost += movements + state;
            let pid = self.watched.owner(slot);
            let (from_ns, to_ns) = (self.last_look_ns, round.end_ns);
            self.feed.push(Input::Loss(Loss { pid, from_ns, to_ns, movements, state }));
        }
    }

    /// Processes that began or ended, and code that was loaded, need an answer at once; so
    /// they are looked at as they come.
    fn lives(&mut self, round: &DrainBatch) -> Vec<u32> {
        let mut loaded = BTreeSet::new();
        for record in round.records.iter().flat_map(|(_, records)| records) {
            self.life(record, &mut loaded);
        }
        for pid in &loaded {
            if self.watched.may_become_rank(*pid) {
                self.promote(*pid);
            }
        }
        loaded.retain(|pid| self.watched.is_rank(*pid));
        if !loaded.is_empty() {
            self.watched.renew_own_code(&mut self.tracer, &self.probes);
        }
        loaded.into_iter().collect()
    }

    fn keep_budget(&mut self, round: Option<&DrainBatch>) {
        let Some(keeper) = &mut self.keeper else { return };
        for (slot, records) in round.iter().flat_map(|round| &round.records) {
            keeper.count(*slot, records);
        }
        let feed = &self.feed;
        let coverage = keeper.step(self.watched.slots(), &mut self.tracer, &mut || feed.joining_probes());
        if let Some(coverage) = coverage {
            self.watched_since_ns = coverage.time_ns;
            self.facts.add(coverage.time_ns, Input::Coverage(Box::new(coverage)));
        }
    }

    fn apply(&mut self, planned: Planned) {
        if let Some(keeper) = &mut self.keeper {
            keeper.know(&planned.plan);
        }
        self.probes.apply(planned, &mut self.tracer, &mut self.feed);
    }

    fn attach_more(&mut self, planner: &PlannerThread) {
        for planned in planner.ready() {
            self.apply(planned);
            self.watched.renew_own_code(&mut self.tracer, &self.probes);
        }
    }

    fn life(&mut self, raw: &RawRecord, loaded: &mut BTreeSet<u32>) {
        let Ok(Record { header, body }) = Record::decode(raw) else { return };
        match body {
            Body::Map { file, exec, shared, has_file: true, .. } => {
                if shared {
                    self.names.learn(header.pid, file, &mut self.feed);
                }
                if exec {
                    loaded.insert(header.pid);
                }
            }
            Body::Fork { child } => self.watched.inherit(header.pid, child),
            Body::Exec => {
                self.watched.began_anew(header.pid);
                self.learn(header.pid, false);
                loaded.insert(header.pid);
            }
            Body::Exit { .. } => self.watched.forget(header.pid),
            _ => {}
        }
    }

    fn show_status(&mut self) {
        self.status.ranks = self.watched.ranks();
        self.status.late = self.sequencer.late_records();
        self.status.probes = self.probes.count();
        self.status.budget = self.keeper.as_mut().map(Keeper::status);
        if self.sink.wants_report() {
            let report = self.feed.report();
            self.sink.status(&self.status, Some(&report));
        } else {
            self.sink.status(&self.status, None);
        }
    }
}
