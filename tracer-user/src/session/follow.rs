//! One session, from the first plan to the report: takes what the kernel part saw, and passes it on in order.

use std::collections::BTreeSet;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use analyzer::input::{End, Input, Loss, ProbeCosts, ProcessFacts, Start, UnrecordedHits};
use analyzer::queue_state;
use analyzer::wire::{Body, Header, QueueChange, RawRecord, Record};
use anyhow::{Context, Result};

use super::controller::BudgetController;
use super::host::Host;
use super::kernel::{Kernel, ThreadReader, TracingFailed};
use super::late_slots::LateSlots;
use super::losses::LossTracker;
use super::names::SharedNames;
use super::order::Order;
use super::outcome::Outcome;
use super::planner::{PlanSource, Planned, PlannerThread};
use super::probes::ProbeSet;
use super::recorder::Recorder;
use super::sampler::Sampler;
use super::sink::{SessionStatus, Sink};
use super::strangers::StrangerAccount;
use super::unrecorded::UnrecordedTracker;
use super::watch::Watched;
use crate::host::{JobError, NodeJob};
use crate::kernel::DrainBatch;
use crate::kernel::ProcessKey;
use crate::plan::attach::{JobSize, OnlyJob};
use crate::plan::engines::mark_slots;

/// Time between two ticks: how soon an alert can follow its cause.
const TICK_NS: u64 = 50_000_000;
/// How often it is recorded what the clocks show beside each other.
const CLOCKS_NS: u64 = 10_000_000_000;
/// How often people see new numbers.
const STATUS_PERIOD_NS: u64 = 500_000_000;
/// How often the tape is made safe up to here.
const TAPE_PERIOD_NS: u64 = 1_000_000_000;
/// How long to wait for a batch before looking at the clock again: longer than it takes until the next one in a job that
/// rests, so that nobody wakes up for nothing.
const PATIENCE: Duration = Duration::from_millis(100);

/// How the loop is ended.
pub(super) struct Limits {
    /// CLOCK_MONOTONIC.
    pub deadline_ns: Option<u64>,
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

    /// Has the job's processes record by themselves what goes through slots, if that was planned.
    pub(super) fn use_slots(&mut self, planned: &mut Planned, pids: &[u32]) {
        if planned.slots.is_empty() {
            return;
        }
        let used = self.kernel.use_slots(std::mem::take(&mut planned.slots), pids);
        used.notes.iter().for_each(|note| self.sink.notice(note));
        mark_slots(&mut planned.plan, &used.probes, &used.kernel);
    }

    /// The same for what was planned later.
    pub(super) fn add_slots(&mut self, planned: &mut Planned) {
        self.late_slots.add_files(planned, self.kernel.as_mut());
    }

    fn use_slots_late(&mut self) {
        let Self { late_slots, kernel, watched, host, sink, .. } = self;
        let is_there = |pid| watched.is_still_there(pid, host.as_ref());
        let missed = late_slots.use_them(kernel.as_mut(), &is_there, *sink);
        self.unplanned(&missed);
    }

    /// Attaches what was planned, and says what could not be.
    pub(super) fn apply(&mut self, planned: Planned) {
        planned.warnings.iter().for_each(|warning| self.sink.notice(warning));
        if let Some(budget) = &mut self.budget {
            budget.know(&planned.plan);
        }
        self.strangers.know(&planned);
        let has_verbs = planned.plan.probes.iter().any(|probe| probe.class.is_of_verbs());
        let reached = &mut self.watched.reached;
        self.probes.apply(planned, reached, self.kernel.as_mut(), &mut self.recorder);
        if has_verbs {
            self.order.begin_queue_pairs(self.host.now_ns(), self.host.rdma_addresses());
        }
    }

    /// Says that the probes are attached; `begin_ns`: when it was asked for.
    pub(super) fn attached(&mut self, begin_ns: u64) {
        // Before, the job itself was not watched.
        self.strangers.begin(self.kernel.as_ref(), self.host.as_ref());
        let took = Duration::from_nanos(self.host.now_ns().saturating_sub(begin_ns));
        self.sink.attached(&self.probes.summary(took));
    }

    /// So many ranks are here or about to come.
    pub(super) fn expect(&mut self, job: JobSize) {
        self.watched.reached.expect(job);
    }

    /// These are of the job: where probes are kept out of other processes, they are in these. One for which there are too
    /// many already is a gap.
    pub(super) fn reach(&mut self, pids: &[u32]) {
        let mut is_reached =
            |pid: u32| self.watched.reached.add(pid, self.kernel.as_mut(), self.host.as_ref());
        let unreached: Vec<u32> = pids.iter().copied().filter(|pid| !is_reached(*pid)).collect();
        if unreached.is_empty() {
            return;
        }
        if !std::mem::replace(&mut self.told_unreached, true) {
            self.sink.notice(
                "the job has more processes now than may have probes of their own, and some of it is not watched in \
                 the others; --only-job never watches all of them, and lets processes outside the job run into probes",
            );
        }
        self.unplanned(&unreached);
    }

    /// Watches ranks: all at once, when all probes are attached. Else a copy would be seen whose reader's probe
    /// is not there yet, and look like data that nobody reads.
    pub(super) fn open_ranks(&mut self, ranks: &[ProcessKey]) {
        let pids: Vec<u32> = ranks.iter().map(|rank| rank.pid).collect();
        self.reach(&pids);
        self.watched.give_slots(&pids, self.kernel.as_mut(), self.sink);
        self.late_slots.look_at(&pids);
        for rank in ranks {
            let started = Some(rank.start_ticks);
            self.watched.open(rank.pid, started, self.kernel.as_mut(), self.host.as_ref(), self.sink);
        }
        // Facts last: a mapping made while they are read is seen as a record.
        for pid in pids {
            if let Some(facts) = self.facts_of(pid, true) {
                self.watched.tell_own_code(pid, &facts.mappings, self.kernel.as_mut(), &self.probes);
                self.order.fact(facts.time_ns, Input::Process(Box::new(facts)));
            }
            // Like any that is attached to: nothing is known of what it did before.
            self.watched.reached.missed_beginning(pid);
        }
    }

    /// A job may still be starting: its launcher and that one's helpers are watched, for the ranks that
    /// they will start, and those that came since the job was looked at are opened.
    pub(super) fn open_starters(&mut self, job: &NodeJob) {
        for pid in self.host.starters(job) {
            self.watch_follower(pid);
            self.learn(pid, false);
            if self.watched.may_become_rank(pid) {
                self.reach(&[pid]);
                self.watched.reached.missed_beginning(pid);
            }
        }
        let mut late = self.host.late_ranks(job);
        late.retain(|rank| !self.watched.is_rank(rank.pid));
        self.open_ranks(&late);
    }

    /// Daemons that are about to start ranks; those that run already began unseen.
    pub(super) fn follow_daemons(&mut self, daemons: &[u32]) -> Launcher {
        let launcher = daemons.iter().map(|pid| (*pid, self.host.start_ticks(*pid).ok())).collect();
        for &pid in daemons {
            self.watch_follower(pid);
            self.learn(pid, false);
        }
        for pid in self.host.descendants(daemons) {
            self.watch_follower(pid);
            self.learn(pid, false);
            if self.watched.may_become_rank(pid) {
                self.promote(pid);
                self.unplanned(&[pid]);
            }
        }
        Launcher::Daemons(launcher)
    }

    /// The launcher: its children are what is of interest.
    pub(super) fn watch_follower(&mut self, pid: u32) {
        self.watched.give_slots(&[pid], self.kernel.as_mut(), self.sink);
        self.watched.open(pid, None, self.kernel.as_mut(), self.host.as_ref(), self.sink);
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
        match &mut self.budget {
            // It says how much there is to do; what is done late can not keep the budget.
            Some(budget) => {
                self.host.run_early();
                budget.begin(self.host.as_ref());
            }
            None if self.spare_cpus.is_empty() => self.host.yield_to_the_job(),
            None => {}
        }
        // What was loaded while the first plan was made.
        planner.look_at(self.watched.pids());
        let now_ns = self.host.now_ns();
        let (mut status_due_ns, mut tape_due_ns) = (now_ns, now_ns + TAPE_PERIOD_NS);
        let reason = loop {
            let batch = match self.kernel.next_batch(PATIENCE) {
                Ok(batch) => batch,
                Err(failed) => {
                    self.nothing_comes(failed);
                    self.end(failed.reason());
                    return Err(failed.into());
                }
            };
            // Before its records are looked into, which takes time: what is decided late can not keep the budget.
            self.keep_budget(batch.as_ref());
            if let Some(batch) = batch {
                let loaded = self.batch(batch);
                if !loaded.is_empty() && !planner.look_at(loaded.clone()) {
                    self.unplanned(&loaded);
                }
            }
            self.recorder.exchange();
            self.attach_more(&mut planner);
            self.sample_quiet_ranks();
            let now_ns = self.host.now_ns();
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
            if let Some(reason) = self.ended(limits, &mut launcher) {
                break reason;
            }
        };
        Ok(self.end(reason))
    }

    fn ended(&self, limits: &Limits, launcher: &mut Launcher) -> Option<&'static str> {
        if limits.stop.load(Ordering::Relaxed) {
            return Some("interrupted");
        }
        if limits.deadline_ns.is_some_and(|deadline_ns| self.host.now_ns() >= deadline_ns) {
            return Some("duration elapsed");
        }
        (!self.watched.has_ranks() && launcher.has_ended(self.host.as_ref())).then_some("the job ended")
    }

    fn end(mut self, reason: &str) -> Outcome {
        if self.spare_cpus.is_empty() && self.budget.is_none() {
            self.host.catch_up();
        }
        // From now on the job is not watched either.
        let strangers = self.strangers.cost(self.kernel.as_ref(), self.host.as_ref());
        // All at once, as at the beginning; detaching takes longer.
        for pid in self.watched.pids() {
            self.kernel.unwatch(pid, None);
        }
        self.kernel.detach_all();
        for batch in self.kernel.drain_rest() {
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

    fn learn(&mut self, pid: u32, is_rank: bool) {
        if let Some(facts) = self.facts_of(pid, is_rank) {
            self.order.fact(facts.time_ns, Input::Process(Box::new(facts)));
        }
    }

    /// None: a process that is gone already has nothing more to say, and of one that cannot be read nothing is known.
    fn facts_of(&mut self, pid: u32, is_rank: bool) -> Option<ProcessFacts> {
        let time_ns = self.host.now_ns();
        let mut facts = match self.host.process_facts(pid, time_ns) {
            Ok(facts) => facts,
            Err(error) if error.has_ended() => return None,
            Err(error) => {
                self.unreadable(pid, time_ns, &error);
                return None;
            }
        };
        if !self.watched.is_still_there(pid, self.host.as_ref()) {
            return None;
        }
        self.watched.note(&facts, is_rank);
        if !is_rank && self.watched.has_inherited_rank(pid) {
            // A script, say, that inherited a rank's environment.
            facts.rank = None;
        }
        Some(facts)
    }

    /// A process that lives, but what it is and maps is not known: a gap.
    fn unreadable(&mut self, pid: u32, time_ns: u64, error: &JobError) {
        self.sink.notice(&format!("{error}: what it maps is not known"));
        let loss = Loss { pid, from_ns: time_ns, to_ns: time_ns, movements: 0, state: 1 };
        self.order.fact(time_ns, Input::Loss(loss));
    }

    /// What carries a rank's environment is a rank if it runs MPI.
    fn promote(&mut self, pid: u32) {
        if !self.host.runs_mpi(pid) {
            return;
        }
        self.reach(&[pid]);
        self.watch_follower(pid);
        self.learn(pid, true);
        if self.watched.reached.missed_beginning(pid) {
            self.unplanned(&[pid]);
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
            self.status.records += records.len() as u64;
            if let Some(last) = records.last() {
                self.sampler.heard(slot, last.time_ns());
            }
            for record in &records {
                self.order.record(slot, *record);
            }
            self.kernel.give_back(records);
        }
        self.order.advance(batch.begin_ns, &mut self.recorder);
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

    /// Processes that began or ended, and code that was loaded, need an answer at once; so
    /// they are looked at as they come.
    fn lives(&mut self, batch: &DrainBatch) -> Vec<u32> {
        let mut loaded = BTreeSet::new();
        for (slot, records) in &batch.records {
            for record in records {
                self.life(*slot, record, &mut loaded);
            }
        }
        for pid in &loaded {
            if self.watched.may_become_rank(*pid) {
                self.promote(*pid);
            }
        }
        loaded.retain(|pid| self.watched.is_rank(*pid));
        if !loaded.is_empty() {
            self.late_slots.look_at(&loaded);
            self.renew_own_code();
        }
        loaded.into_iter().collect()
    }

    fn life(&mut self, slot: u32, raw: &RawRecord, loaded: &mut BTreeSet<u32>) {
        let Ok(Record { header, body }) = Record::decode(raw) else { return };
        match body {
            Body::Map { file, exec, shared, has_file: true, .. } => {
                if shared {
                    self.names.learn(header.pid, file, self.host.as_ref(), &mut self.recorder);
                }
                if exec {
                    loaded.insert(header.pid);
                }
            }
            Body::Fork { child } => {
                self.watched.inherit(header.pid, child, self.kernel.as_mut(), self.host.as_ref());
            }
            Body::Exec => {
                self.watched.began_anew(header.pid);
                self.watched.reached.began_anew(header.pid, header.time_ns);
                self.learn(header.pid, false);
                loaded.insert(header.pid);
            }
            Body::Queue(queue) if queue.state == queue_state::IN_USE => {
                self.find_other_end(slot, header, &queue);
            }
            Body::Exit { .. } => self.watched.forget(header.pid, self.kernel.as_mut()),
            _ => {}
        }
    }

    /// A queue pair that was connected before we watched.
    fn find_other_end(&mut self, slot: u32, header: Header, in_use: &QueueChange) {
        let Some(found) = self.host.found_connected(header.pid, in_use) else { return };
        // Not before the answer: what is told of it until then comes first.
        let header = Header { time_ns: self.host.now_ns(), ..header };
        self.order.record(slot, Record { header, body: Body::Queue(found) }.encode());
    }

    fn keep_budget(&mut self, batch: Option<&DrainBatch>) {
        let Some(budget) = &mut self.budget else { return };
        for (slot, records) in batch.iter().flat_map(|batch| &batch.records) {
            budget.count(*slot, records);
        }
        let (slots, recorder) = (self.watched.slots(), &self.recorder);
        let joining = || recorder.joining_probes();
        if let Some(coverage) = budget.step(&slots, self.kernel.as_mut(), self.host.as_ref(), &joining) {
            self.sampler.coverage_changed(coverage.time_ns);
            self.order.fact(coverage.time_ns, Input::Coverage(Box::new(coverage)));
        }
    }

    fn attach_more(&mut self, planner: &mut PlannerThread) {
        let ready = planner.ready();
        for trouble in ready.troubles {
            self.sink.notice(&trouble);
        }
        for mut planned in ready.planned {
            self.add_slots(&mut planned);
            let blind: Vec<u32> = planned.blind.iter().copied().collect();
            self.apply(planned);
            self.unplanned(&blind);
            self.renew_own_code();
        }
    }

    /// Some of what these processes have loaded gets no probes, or got them late: what it moves is missing.
    pub(super) fn unplanned(&mut self, pids: &[u32]) {
        let now_ns = self.host.now_ns();
        for &pid in pids {
            let loss = Loss { pid, from_ns: now_ns, to_ns: now_ns, movements: 1, state: 0 };
            self.order.fact(now_ns, Input::Loss(loss));
        }
    }

    /// What is in the rings, and what comes, is missing of everybody.
    fn nothing_comes(&mut self, failed: TracingFailed) {
        self.sink.notice(&failed.to_string());
        let now_ns = self.host.now_ns();
        for pid in self.watched.pids() {
            let loss = Loss { pid, from_ns: now_ns, to_ns: now_ns, movements: 1, state: 1 };
            self.order.fact(now_ns, Input::Loss(loss));
        }
    }

    fn renew_own_code(&mut self) {
        self.watched.renew_own_code(self.kernel.as_mut(), self.host.as_ref(), &self.probes);
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
