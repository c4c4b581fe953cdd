//! Applies the budget: counts what hits cost, and takes probes out and puts them in again as the pure part
//! ([`crate::budget`]) decides.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use analyzer::input::Coverage;
use analyzer::plan::{Plan, ProbeClass};
use analyzer::wire::{RawRecord, kind};

use crate::budget::{Action, Budget, Governor, HitCosts, ProbeUse, choose, held_up_ns, is_of_heap};
use crate::clock::{monotonic_ns, process_cpu_ns};
use crate::kernel::{Counters, SlotCounters, Tracer};
use crate::sink::BudgetStatus;

/// A choice rests on what was hit lately: a storm that has just begun is nothing beside a long quiet time.
const WINDOW_NS: u64 = 200_000_000;
/// A choice rests on at least so many hits since the last one.
const ENOUGH_HITS: u64 = 500;
/// So many hits without a chain, and a copy is thought to join none.
const LONER_HITS: u64 = 1000;
/// What we use in the first moments belongs to attaching, which is no part of the budget.
const ATTACHING_NS: u64 = 1_000_000_000;
/// Probes that are off come back after so long a rest; if that was too soon, after twice as long.
const FIRST_REST: Duration = Duration::from_secs(10);
const LONGEST_REST: Duration = Duration::from_secs(300);

/// Ids of probes are small; others are not counted.
const MAX_PROBE: usize = 1 << 20;

/// Hits of one probe, of all processes.
#[derive(Clone, Copy, Default)]
struct Hits {
    /// Since the last choice.
    recent: u64,
    /// In the whole session.
    all: u64,
    /// What one costs.
    cost_ns: f64,
}

/// See the [module](self).
pub(super) struct Keeper {
    budget: Budget,
    costs: HitCosts,
    governor: Governor,
    counters: Arc<Counters>,
    counted: BTreeMap<u32, SlotCounters>,
    /// Cost of records by slot, since the last step.
    recorded_ns: BTreeMap<u32, f64>,
    begin_ns: u64,
    last_ns: u64,
    /// CPUs that the job may use.
    job_cpus: usize,
    /// They are ours too: none is spare.
    shares_cpus: bool,
    own_cpu_ns: u64,
    classes: BTreeMap<u32, ProbeClass>,
    /// By probe id.
    hits: Vec<Hits>,
    counted_hits: u64,
    counted_ns: f64,
    /// Hits of the allocator's probes that left no record, since the last choice.
    declined: u64,
    /// The same of polling calls.
    refused: u64,
    /// Probes of polling calls that are followed to their return.
    polling: BTreeSet<u32>,
    /// Time watched since the last choice.
    watched_ns: u64,
    pausing: BTreeSet<u32>,
    out: BTreeSet<u32>,
    off: BTreeSet<u32>,
    rest: Duration,
    resting_since: Option<Instant>,
    status: BudgetStatus,
}

impl Keeper {
    pub(super) fn new(
        budget: Budget,
        costs: HitCosts,
        counters: Arc<Counters>,
        job_cpus: usize,
        shares_cpus: bool,
    ) -> Self {
        Self {
            budget,
            costs,
            governor: Governor::new(budget.share),
            counters,
            counted: BTreeMap::new(),
            recorded_ns: BTreeMap::new(),
            begin_ns: monotonic_ns(),
            last_ns: monotonic_ns(),
            job_cpus,
            shares_cpus,
            own_cpu_ns: process_cpu_ns(),
            classes: BTreeMap::new(),
            hits: Vec::new(),
            counted_hits: 0,
            counted_ns: 0.0,
            declined: 0,
            refused: 0,
            polling: BTreeSet::new(),
            watched_ns: 0,
            pausing: BTreeSet::new(),
            out: BTreeSet::new(),
            off: BTreeSet::new(),
            rest: FIRST_REST,
            resting_since: None,
            status: BudgetStatus::new(budget.share),
        }
    }

    /// These probes are in place from now on.
    pub(super) fn know(&mut self, plan: &Plan) {
        for probe in plan.probes.iter().filter(|p| (p.id as usize) < MAX_PROBE) {
            self.classes.insert(probe.id, probe.class);
            let has_answer = probe.results.as_ref().is_some_and(|results| results.answer.is_some());
            if probe.class == ProbeClass::PollReturn || has_answer {
                self.polling.insert(probe.id);
            }
            if probe.id as usize >= self.hits.len() {
                self.hits.resize(probe.id as usize + 1, Hits::default());
            }
            self.hits[probe.id as usize].cost_ns = self.costs.of(probe.class);
        }
    }

    /// Time begins to count now: what it took to get here is not the job's.
    pub(super) fn begin(&mut self) {
        self.begin_ns = monotonic_ns();
        (self.last_ns, self.own_cpu_ns) = (self.begin_ns, process_cpu_ns());
    }

    /// Counts the hits that the records of a ring tell of.
    pub(super) fn count(&mut self, slot: u32, records: &[RawRecord]) {
        let before_ns = self.counted_ns;
        for record in records {
            let probe = record.probe() as usize;
            if probe == 0 {
                self.counted_ns += self.costs.system_call_ns();
            } else if let Some(hits) = self.hits.get_mut(probe) {
                let is_hit = u64::from(kind::is_hit(record.kind()));
                hits.recent += is_hit;
                hits.all += is_hit;
                self.counted_hits += is_hit;
                self.counted_ns += self.costs.of_record(hits.cost_ns, record.kind());
            }
        }
        *self.recorded_ns.entry(slot).or_default() += self.counted_ns - before_ns;
    }

    /// Decides and applies; gives back what is watched from now on if that has changed. `slots`: processes by the
    /// number of their ring. `joining`: probes whose movements were part of a chain.
    pub(super) fn step(
        &mut self,
        slots: impl IntoIterator<Item = u32>,
        tracer: &mut Tracer,
        joining: &mut dyn FnMut() -> BTreeSet<u32>,
    ) -> Option<Coverage> {
        let now_ns = monotonic_ns();
        let elapsed_ns = now_ns - self.last_ns;
        self.last_ns = now_ns;
        if !self.governor.is_paused() {
            if self.watched_ns >= WINDOW_NS {
                self.begin_counting();
            }
            self.watched_ns += elapsed_ns;
        }
        let own = self.own_cost_ns();
        let slots: Vec<u32> = slots.into_iter().collect();
        let spent: Vec<(u32, f64)> = slots.into_iter().map(|slot| (slot, self.spent_ns(slot))).collect();
        let all_ns = spent.iter().map(|(_, ns)| ns).sum();
        let held_up = |(slot, ns)| (slot, own + held_up_ns(ns, all_ns, spent.len(), self.job_cpus));
        let spent: Vec<(u32, f64)> = spent.iter().copied().map(held_up).collect();
        self.status.add(elapsed_ns, spent.iter().map(|s| s.1).fold(own, f64::max), self.governor.is_paused());
        self.counted.retain(|slot, _| {
            let there = spent.iter().any(|s| s.0 == *slot);
            if !there {
                self.governor.forget(*slot);
            }
            there
        });
        let coverage = match self.governor.step(elapsed_ns, spent) {
            Action::Pause => Some(self.pause(now_ns, tracer, &joining())),
            Action::Resume => Some(self.resume(tracer)),
            Action::Stay if self.governor.is_paused() => self.take_out_more(now_ns, tracer, joining),
            Action::Stay => self.return_what_is_off(tracer),
        };
        self.status.paused = self.governor.is_paused();
        self.status.probes_off = self.off.len();
        coverage
    }

    /// Whether the dearest probes are out.
    pub(super) fn is_paused(&self) -> bool {
        self.governor.is_paused()
    }

    pub(super) fn status(&mut self) -> BudgetStatus {
        self.status.take()
    }

    fn pause(&mut self, now_ns: u64, tracer: &mut Tracer, joining: &BTreeSet<u32>) -> Coverage {
        if self.counted_hits >= ENOUGH_HITS || self.pausing.is_empty() {
            self.pausing.clear();
            self.choose(joining);
        }
        tracer.pause(true);
        self.out = tracer.detach(&self.to_take_out());
        self.resting_since = None;
        self.coverage(now_ns, true)
    }

    /// Adds what is too dear by what was hit lately.
    fn choose(&mut self, joining: &BTreeSet<u32>) {
        let choice = choose(&self.uses(joining), self.budget.share);
        self.pausing.extend(choice.pausing);
        self.off.extend(choice.off);
        self.begin_counting();
    }

    /// What is not to be in place during a pause.
    fn to_take_out(&self) -> BTreeSet<u32> {
        self.pausing.union(&self.off).copied().collect()
    }

    /// What was noticed as dear only after the pause began, because records were still on their way.
    fn take_out_more(
        &mut self,
        now_ns: u64,
        tracer: &mut Tracer,
        joining: &mut dyn FnMut() -> BTreeSet<u32>,
    ) -> Option<Coverage> {
        if self.counted_hits < ENOUGH_HITS {
            return None;
        }
        let off_before = self.off.len();
        self.choose(&joining());
        self.out.extend(tracer.detach(&self.to_take_out()));
        (self.off.len() > off_before).then(|| self.coverage(now_ns, true))
    }

    fn resume(&mut self, tracer: &mut Tracer) -> Coverage {
        let back = self.out.difference(&self.off).copied().collect();
        self.put_in(&back, tracer);
        tracer.pause(false);
        self.out.retain(|probe| !back.contains(probe));
        self.coverage(monotonic_ns(), false)
    }

    /// When the job has been quiet for long enough, everything is watched again.
    fn return_what_is_off(&mut self, tracer: &mut Tracer) -> Option<Coverage> {
        if self.off.is_empty() || self.governor.is_paused() || !self.governor.is_at_rest() {
            self.resting_since = None;
            return None;
        }
        let since = *self.resting_since.get_or_insert_with(Instant::now);
        if since.elapsed() < self.rest {
            return None;
        }
        self.rest = (self.rest * 2).min(LONGEST_REST);
        self.resting_since = None;
        let back = std::mem::take(&mut self.off);
        self.put_in(&back, tracer);
        self.out.clear();
        self.begin_counting();
        Some(self.coverage(monotonic_ns(), false))
    }

    /// What the kernel refuses to take back is out for longer.
    fn put_in(&mut self, probes: &BTreeSet<u32>, tracer: &mut Tracer) {
        let failed = tracer.reattach(probes).failed;
        self.off.extend(failed.into_iter().map(|(probe, _)| probe.id));
    }

    fn coverage(&self, time_ns: u64, paused: bool) -> Coverage {
        Coverage { time_ns, paused, off: self.off.iter().copied().collect() }
    }

    fn begin_counting(&mut self) {
        self.hits.iter_mut().for_each(|hits| hits.recent = 0);
        (self.counted_hits, self.counted_ns) = (0, 0.0);
        (self.declined, self.refused, self.watched_ns) = (0, 0, 0);
    }

    /// How probes were used since the last choice.
    fn uses(&self, joining: &BTreeSet<u32>) -> Vec<ProbeUse> {
        let (processes, time_ns) = (self.counted.len().max(1), self.watched_ns.max(1) as f64);
        let heap_probes = self.classes.values().filter(|class| is_of_heap(**class)).count().max(1);
        let declined_ns = self.declined as f64 * self.costs.declined_ns / heap_probes as f64;
        let refused_ns = self.refused as f64 * self.costs.refused_ns() / self.polling.len().max(1) as f64;
        let of = |(&probe, &class): (&u32, &ProbeClass)| {
            let hits = self.hits.get(probe as usize).copied().unwrap_or_default();
            // Which of them it was is not counted.
            let unseen_ns = match self.polling.contains(&probe) {
                true => refused_ns,
                false if is_of_heap(class) => declined_ns,
                false => 0.0,
            };
            // Hits are those of all processes: of one, the mean of them.
            let all_ns = hits.recent as f64 * self.costs.of(class) + unseen_ns;
            let cost_share =
                held_up_ns(all_ns / processes as f64, all_ns, processes, self.job_cpus) / time_ns;
            let never_joins = hits.all >= LONER_HITS && !joining.is_empty() && !joining.contains(&probe);
            ProbeUse { probe, class, cost_share, never_joins }
        };
        self.classes.iter().map(of).collect()
    }

    /// What a process has spent since the last time.
    fn spent_ns(&mut self, slot: u32) -> f64 {
        let now = self.counters.read(slot);
        let before = self.counted.insert(slot, now).unwrap_or(now);
        let lost = (now.lost_movements - before.lost_movements) + (now.lost_state - before.lost_state);
        let declined = now.declined - before.declined;
        let refused = now.refused - before.refused;
        self.declined += declined;
        self.refused += refused;
        // What is dear is to be noticed even where no record tells of it.
        self.counted_hits += refused;
        let recorded_ns = self.recorded_ns.remove(&slot).unwrap_or(0.0);
        recorded_ns
            + lost as f64 * self.costs.call_ns
            + declined as f64 * self.costs.declined_ns
            + refused as f64 * self.costs.refused_ns()
    }

    /// Our own processor time, if it is taken from the job: by CPU of the job.
    fn own_cost_ns(&mut self) -> f64 {
        if !self.shares_cpus {
            return 0.0;
        }
        let now = process_cpu_ns();
        let used = now - std::mem::replace(&mut self.own_cpu_ns, now);
        if self.last_ns < self.begin_ns + ATTACHING_NS {
            return 0.0;
        }
        used as f64 / self.job_cpus.max(1) as f64
    }
}
