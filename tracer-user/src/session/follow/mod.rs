//! One session, from the first plan to the report: takes what the kernel part saw, and passes it on in order.

mod keep_budget;
mod lives;
mod opening;

use std::collections::VecDeque;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use analyzer::input::{End, Input, Loss, ProbeCosts, Start, UnrecordedHits};
use anyhow::{Context, Result};

use super::controller::BudgetController;
use super::host::Host;
use super::kernel::{Kernel, ThreadReader, TracingFailed};
use super::late_slots::LateSlots;
use super::losses::LossTracker;
use super::names::SharedNames;
use super::order::Order;
use super::outcome::Outcome;
use super::planner::{PlanSource, PlannerThread};
use super::probes::ProbeSet;
use super::recorder::Recorder;
use super::sampler::Sampler;
use super::sink::{SessionStatus, Sink};
use super::slot_move::SlotMove;
use super::strangers::StrangerAccount;
use super::unrecorded::UnrecordedTracker;
use super::watch::Watched;
use crate::kernel::DrainBatch;
use crate::plan::attach::OnlyJob;

/// Time between two ticks: how soon an alert can follow its cause.
const TICK_NS: u64 = 50_000_000;
/// How often it is recorded what the clocks show beside each other.
const CLOCKS_NS: u64 = 10_000_000_000;
/// When the last process began that long ago, no more are expected.
const BEGINNING_NS: u64 = 2_000_000_000;
/// How often people see new numbers.
const STATUS_PERIOD_NS: u64 = 500_000_000;
/// How often the tape is made safe up to here.
const TAPE_PERIOD_NS: u64 = 1_000_000_000;
/// How long to wait for a batch before looking at the clock again: longer than it takes until the next one in a job that
/// rests, so that nobody wakes up for nothing.
const PATIENCE: Duration = Duration::from_millis(100);

/// How the loop is ended.
pub(super) struct Limits {
    /// Counted from when the job is followed: attaching takes as long as it takes.
    pub duration: Option<Duration>,
    /// Set from outside.
    pub stop: Arc<AtomicBool>,
}

/// What a session is made of.
pub(super) struct Parts<'s> {
    /// The kernel side.
    pub kernel: Box<dyn Kernel>,
    /// What it reads threads with.
    pub threads: Box<dyn ThreadReader>,
    /// The machine.
    pub host: Arc<dyn Host>,
    /// Where inputs go.
    pub recorder: Recorder,
    /// Keeps the budget, if there is one.
    pub budget: Option<BudgetController>,
    /// What hits cost, if that is to be recorded.
    pub probe_costs: Option<ProbeCosts>,
    /// Whether other processes are kept free of probes.
    pub only_job: OnlyJob,
    /// What a hit costs a process that is not watched.
    pub stranger_ns: f64,
    /// CPUs that the job does not use.
    pub spare_cpus: Vec<u32>,
    /// Who is told.
    pub sink: &'s mut dyn Sink,
}

/// Who starts ranks.
pub(super) enum Launcher {
    /// It has done so.
    Done,
    /// A child of ours.
    Child(Child),
    /// Daemons of a launcher that is elsewhere, with when they started.
    Daemons(Vec<(u32, Option<u64>)>),
}

impl Launcher {
    fn has_ended(&mut self, host: &dyn Host) -> bool {
        match self {
            Self::Done => true,
            Self::Child(child) => matches!(child.try_wait(), Ok(Some(_)) | Err(_)),
            Self::Daemons(daemons) => {
                daemons.iter().all(|(pid, started)| host.has_ended(*pid, *started).unwrap_or(false))
            }
        }
    }
}

/// See the [module](self).
pub(super) struct Session<'s> {
    kernel: Box<dyn Kernel>,
    host: Arc<dyn Host>,
    recorder: Recorder,
    order: Order,
    losses: LossTracker,
    probes: ProbeSet,
    names: SharedNames,
    watched: Watched,
    budget: Option<BudgetController>,
    /// What has come and was not looked into yet; the budget is kept already.
    waiting: VecDeque<DrainBatch>,
    probe_costs: Option<ProbeCosts>,
    unrecorded: UnrecordedTracker,
    strangers: StrangerAccount,
    sampler: Sampler,
    status: SessionStatus,
    spare_cpus: Vec<u32>,
    last_tick_ns: u64,
    clocks_due_ns: u64,
    told_unreached: bool,
    late_slots: LateSlots,
    /// When a process last began, CLOCK_MONOTONIC.
    last_began_ns: u64,
    /// This thread runs only after the job's.
    gives_way: bool,
    slot_move: SlotMove,
    sink: &'s mut dyn Sink,
}

impl<'s> Session<'s> {
    /// Nothing is watched yet.
    ///
    /// # Errors
    /// No thread to be had.
    pub(super) fn new(parts: Parts<'s>) -> Result<Self> {
        let Parts { kernel, threads, host, recorder, budget, probe_costs, .. } = parts;
        let Parts { only_job, stranger_ns, spare_cpus, sink, .. } = parts;
        let now_ns = host.now_ns();
        let sampler = Sampler::start(threads, spare_cpus.clone(), Arc::clone(&host))
            .context("cannot start the sampling thread")?;
        Ok(Self {
            kernel,
            host,
            recorder,
            order: Order::new(),
            losses: LossTracker::new(now_ns),
            probes: ProbeSet::default(),
            names: SharedNames::default(),
            watched: Watched::new(only_job),
            budget,
            waiting: VecDeque::new(),
            probe_costs,
            unrecorded: UnrecordedTracker::default(),
            strangers: StrangerAccount::new(stranger_ns),
            sampler,
            status: SessionStatus::default(),
            spare_cpus,
            last_tick_ns: now_ns,
            clocks_due_ns: now_ns,
            told_unreached: false,
            late_slots: LateSlots::default(),
            last_began_ns: 0,
            gives_way: false,
            slot_move: SlotMove::default(),
            sink,
        })
    }

    /// The first input.
    pub(super) fn start(&mut self, start: Start) {
        self.recorder.push(Input::Start(Box::new(start)));
        if let Some(costs) = &self.probe_costs {
            self.recorder.push(Input::ProbeCosts(Box::new(costs.clone())));
        }
    }

    /// A budget says how much there is to do; what is done late cannot keep it.
    pub(super) fn hurry(&self) {
        if self.budget.is_some() {
            self.host.run_early();
        }
    }

    /// Goes on to the end of the job, or to a limit.
    ///
    /// # Errors
    /// No thread to be had.
    pub(super) fn follow(
        mut self,
        limits: &Limits,
        planner: Box<dyn PlanSource>,
        mut launcher: Launcher,
    ) -> Result<Outcome> {
        let mut planner = PlannerThread::start(planner, self.spare_cpus.clone(), Arc::clone(&self.host))
            .context("cannot start the planning thread")?;
        // Not before: attaching is to be quick, and a job that is started here would inherit it.
        self.host.stay_on(&self.spare_cpus);
        // Processes may end soon after they began, and who they are is known only while they are there.
        self.host.run_early();
        // What was loaded while the first plan was made.
        planner.look_at(self.watched.pids());
        let now_ns = self.host.now_ns();
        self.last_began_ns = now_ns;
        let (mut status_due_ns, mut tape_due_ns) = (now_ns, now_ns + TAPE_PERIOD_NS);
        let deadline_ns = limits.duration.map(|duration| now_ns.saturating_add(duration.as_nanos() as u64));
        let reason = loop {
            let batch = match self.next_batch() {
                Ok(batch) => batch,
                Err(failed) => {
                    self.nothing_comes(failed);
                    self.end(failed.reason());
                    return Err(failed.into());
                }
            };
            if let Some(batch) = batch {
                let loaded = self.batch(batch);
                if !loaded.is_empty() && !planner.look_at(loaded.clone()) {
                    self.unplanned(&loaded);
                }
            }
            self.recorder.exchange();
            self.attach_more(&mut planner);
            if planner.is_idle() {
                self.move_to_slots();
            }
            self.sample_quiet_ranks();
            let now_ns = self.host.now_ns();
            self.give_way(now_ns);
            for trouble in self.sampler.troubles(now_ns) {
                self.sink.notice(&trouble);
            }
            if now_ns >= status_due_ns {
                status_due_ns = now_ns + STATUS_PERIOD_NS;
                self.show_status();
                self.watched.forget_the_dead(self.kernel.as_mut(), self.host.as_ref(), self.sink);
                self.watched.settle(self.kernel.as_mut(), self.host.as_ref(), &self.probes);
                self.use_slots_late();
            }
            if now_ns >= tape_due_ns {
                tape_due_ns = now_ns + TAPE_PERIOD_NS;
                self.recorder.flush(self.sink);
            }
            if let Some(reason) = self.ended(limits, deadline_ns, &mut launcher) {
                break reason;
            }
        };
        Ok(self.end(reason))
    }

    /// Without a budget and a spare CPU the job goes first, but while processes begin.
    fn give_way(&mut self, now_ns: u64) {
        let is_quiet = now_ns >= self.last_began_ns.saturating_add(BEGINNING_NS);
        if is_quiet && !self.gives_way && self.budget.is_none() && self.spare_cpus.is_empty() {
            self.gives_way = true;
            self.host.yield_to_the_job();
        }
    }

    fn ended(
        &self,
        limits: &Limits,
        deadline_ns: Option<u64>,
        launcher: &mut Launcher,
    ) -> Option<&'static str> {
        if limits.stop.load(Ordering::Relaxed) {
            return Some("interrupted");
        }
        if deadline_ns.is_some_and(|deadline_ns| self.host.now_ns() >= deadline_ns) {
            return Some("duration elapsed");
        }
        (!self.watched.has_ranks() && launcher.has_ended(self.host.as_ref())).then_some("the job ended")
    }

    fn end(mut self, reason: &str) -> Outcome {
        if self.gives_way {
            self.host.catch_up();
        }
        // From now on the job is not watched either.
        let strangers = self.strangers.cost(self.kernel.as_ref(), self.host.as_ref());
        // All at once, as at the beginning; detaching takes longer.
        for pid in self.watched.pids() {
            self.kernel.unwatch(pid, None);
        }
        self.kernel.detach_all();
        let rest = self.kernel.drain_rest();
        for batch in std::mem::take(&mut self.waiting).into_iter().chain(rest) {
            self.batch(batch);
        }
        self.order.finish(&mut self.recorder);
        self.tell_last_costs();
        let failed_probes = self.probes.failed();
        let strangers = Some(Box::new(strangers));
        let end = End { time_ns: self.host.now_ns(), reason: reason.to_owned(), failed_probes, strangers };
        self.recorder.push(Input::End(end));
        self.recorder.tell_alerts(self.sink);
        self.show_status();
        // What is found in one node's part is found elsewhere.
        let Some(report) = self.recorder.finish(self.sink) else { return Outcome::Nothing };
        self.sink.report(&report);
        Outcome::of_report(&report)
    }

    /// Hits that left no record, if what hits cost is recorded.
    fn tell_unrecorded(
        &mut self,
        hits: impl FnOnce(&mut UnrecordedTracker, &Watched) -> Vec<UnrecordedHits>,
    ) {
        if self.probe_costs.is_some() {
            for hits in hits(&mut self.unrecorded, &self.watched) {
                self.recorder.push(Input::Unrecorded(hits));
            }
        }
    }

    /// What hits cost may be another thing now than before: it is measured again.
    fn tell_last_costs(&mut self) {
        let now_ns = self.host.now_ns();
        self.tell_unrecorded(|tracker, watched| tracker.rest(now_ns, |slot| watched.sharers(slot)));
        if let Some(first) = &self.probe_costs {
            let ProbeCosts { job_cpus, own_time, .. } = *first;
            let costs = ProbeCosts { job_cpus, own_time, ..self.kernel.probe_costs() };
            self.recorder.push(Input::ProbeCosts(Box::new(costs)));
        }
    }

    /// Takes what was found in the rings; gives the ranks that have loaded something.
    fn batch(&mut self, batch: DrainBatch) -> Vec<u32> {
        self.status.unreadable += batch.unreadable;
        for loss in self.losses.of_batch(&batch, |slot| self.watched.sharers(slot)) {
            self.status.lost += loss.movements + loss.state;
            self.order.lose_queue_pairs(&loss);
            self.recorder.push(Input::Loss(loss));
        }
        self.tell_unrecorded(|tracker, watched| tracker.of_batch(&batch, |slot| watched.sharers(slot)));
        let loaded = self.lives(&batch);
        for (slot, records) in batch.records {
            if self.slot_move.is_awaited() {
                self.slot_move.see(&records);
            }
            self.status.records += records.len() as u64;
            if let Some(last) = records.last() {
                self.sampler.heard(slot, last.time_ns());
            }
            self.order.records(slot, records);
        }
        self.order.advance(batch.begin_ns, &mut self.recorder);
        while let Some(spare) = self.order.take_spare() {
            self.kernel.give_back(spare);
        }
        self.tick(batch.begin_ns);
        loaded
    }

    /// In a pause nobody leaves a record, and who is quiet may move.
    fn sample_quiet_ranks(&mut self) {
        if let Some(threads) = self.sampler.found() {
            self.order.fact(threads.time_ns, Input::Threads(Box::new(threads)));
        }
        if self.budget.as_ref().is_some_and(BudgetController::is_paused) {
            return;
        }
        let recorder = &self.recorder;
        self.sampler.sample(self.host.now_ns(), self.watched.rank_slots(), |pid| recorder.last_calls(pid));
    }

    fn tick(&mut self, now_ns: u64) {
        if now_ns < self.last_tick_ns + TICK_NS {
            return;
        }
        self.last_tick_ns = now_ns;
        if now_ns >= self.clocks_due_ns {
            self.clocks_due_ns = now_ns + CLOCKS_NS;
            self.recorder.push(Input::Clock(self.host.clocks()));
        }
        self.recorder.push(Input::Tick { time_ns: now_ns });
        self.recorder.tell_alerts(self.sink);
    }

    /// What is in the rings, and what comes, is missing of everybody.
    fn nothing_comes(&mut self, failed: TracingFailed) {
        self.sink.notice(&failed.to_string());
        let now_ns = self.host.now_ns();
        for pid in self.watched.pids() {
            let loss = Loss { pid, from_ns: now_ns, to_ns: now_ns, movements: 1, calls: 1, state: 1 };
            self.order.fact(now_ns, Input::Loss(loss));
        }
    }

    fn show_status(&mut self) {
        self.status.ranks = self.watched.ranks();
        self.status.late = self.order.late_records();
        self.status.probes = self.probes.count();
        self.status.stranger_hits = self.strangers.hits(self.kernel.as_ref());
        self.status.budget = self.budget.as_mut().map(BudgetController::status);
        let report = if self.sink.wants_report() { self.recorder.report() } else { None };
        self.sink.status(&self.status, report.as_ref());
    }
}
