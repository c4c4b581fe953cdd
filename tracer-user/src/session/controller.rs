//! Keeps a budget: counts what hits cost, and has probes detached and attached again as the pure part
//! ([`crate::budget`]) decides.

use std::collections::{BTreeMap, BTreeSet};

use analyzer::input::Coverage;
use analyzer::plan::Plan;
use analyzer::wire::RawRecord;

use super::host::Host;
use super::kernel::Kernel;
use crate::budget::{
    Action, Budget, BudgetStatus, Governor, HitAccounts, HitCosts, Unrecorded, choose, held_up_ns,
};
use crate::kernel::SlotCounters;

/// What we use in the first moments belongs to attaching, which is no part of the budget.
const ATTACHING_NS: u64 = 1_000_000_000;
/// Probes that are off come back after so long a rest; if that was too soon, after twice as long.
const FIRST_REST_NS: u64 = 10_000_000_000;
const LONGEST_REST_NS: u64 = 300_000_000_000;

/// Where the job runs, and what we take from it there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct JobCpus {
    /// CPUs that the job may use.
    pub count: usize,
    /// They are ours too: none is spare.
    pub are_shared: bool,
}

/// See the [module](self).
pub(super) struct BudgetController {
    budget: Budget,
    cpus: JobCpus,
    governor: Governor,
    accounts: HitAccounts,
    /// What slots had counted the last time.
    counters: BTreeMap<u32, SlotCounters>,
    time: Time,
    /// Detached in pauses.
    pausing: BTreeSet<u32>,
    /// Detached now, for whatever reason.
    detached: BTreeSet<u32>,
    /// Detached for longer.
    off: BTreeSet<u32>,
    rest: Rest,
    status: BudgetStatus,
}

/// When what was looked at, CLOCK_MONOTONIC; and our own processor time then.
#[derive(Clone, Copy)]
struct Time {
    begin_ns: u64,
    last_ns: u64,
    own_cpu_ns: u64,
}

impl Time {
    fn of(host: &dyn Host) -> Self {
        let now_ns = host.now_ns();
        Self { begin_ns: now_ns, last_ns: now_ns, own_cpu_ns: host.own_cpu_ns() }
    }
}

/// How long the job has been quiet, and must be before everything is attached again.
#[derive(Clone, Copy)]
struct Rest {
    since_ns: Option<u64>,
    needed_ns: u64,
}

impl BudgetController {
    pub(super) fn new(budget: Budget, costs: HitCosts, cpus: JobCpus, host: &dyn Host) -> Self {
        Self {
            budget,
            cpus,
            governor: Governor::new(budget.share),
            accounts: HitAccounts::new(costs),
            counters: BTreeMap::new(),
            time: Time::of(host),
            pausing: BTreeSet::new(),
            detached: BTreeSet::new(),
            off: BTreeSet::new(),
            rest: Rest { since_ns: None, needed_ns: FIRST_REST_NS },
            status: BudgetStatus::new(budget.share),
        }
    }

    /// These probes are attached from now on.
    pub(super) fn know(&mut self, plan: &Plan) {
        self.accounts.know(plan);
    }

    /// Time begins to count now: what it took to get here is not the job's.
    pub(super) fn begin(&mut self, host: &dyn Host) {
        self.time = Time::of(host);
    }

    /// Counts the hits that the records of a ring tell of.
    pub(super) fn count(&mut self, slot: u32, records: &[RawRecord]) {
        self.accounts.count(slot, records);
    }

    /// Decides and applies; gives back what is watched from now on if that has changed. `slots`: processes by the
    /// number of their ring. `joining`: probes whose movements were part of a chain.
    pub(super) fn step(
        &mut self,
        slots: &BTreeSet<u32>,
        kernel: &mut dyn Kernel,
        host: &dyn Host,
        joining: &dyn Fn() -> BTreeSet<u32>,
    ) -> Option<Coverage> {
        let now_ns = host.now_ns();
        let elapsed_ns = now_ns - self.time.last_ns;
        self.time.last_ns = now_ns;
        if !self.governor.is_paused() {
            self.accounts.watched(elapsed_ns);
        }
        let spent = self.spent(slots, kernel, host, elapsed_ns);
        let coverage = match self.governor.step(elapsed_ns, spent) {
            Action::Pause => Some(self.pause(now_ns, kernel, &joining())),
            Action::Resume => Some(self.resume(kernel, host)),
            Action::Stay if self.governor.is_paused() => self.detach_more(now_ns, kernel, joining),
            Action::Stay => self.reattach_what_is_off(now_ns, kernel, host),
        };
        self.status.paused = self.governor.is_paused();
        self.status.probes_off = self.off.len();
        coverage
    }

    /// Whether the dearest probes are detached.
    pub(super) fn is_paused(&self) -> bool {
        self.governor.is_paused()
    }

    pub(super) fn status(&mut self) -> BudgetStatus {
        self.status.take()
    }

    /// By slot, how long each process was held up in the last `elapsed_ns`.
    fn spent(
        &mut self,
        slots: &BTreeSet<u32>,
        kernel: &dyn Kernel,
        host: &dyn Host,
        elapsed_ns: u64,
    ) -> Vec<(u32, f64)> {
        let own = self.own_cost_ns(host);
        let spent: Vec<(u32, f64)> =
            slots.iter().map(|&slot| (slot, self.spent_ns(slot, kernel.counters(slot)))).collect();
        let all_ns = spent.iter().map(|(_, ns)| ns).sum();
        let held_up = |(slot, ns)| (slot, own + held_up_ns(ns, all_ns, slots.len(), self.cpus.count));
        let spent: Vec<(u32, f64)> = spent.into_iter().map(held_up).collect();
        self.status.add(elapsed_ns, spent.iter().map(|s| s.1).fold(own, f64::max), self.governor.is_paused());
        for (slot, _) in self.counters.extract_if(.., |slot, _| !slots.contains(slot)) {
            self.governor.forget(slot);
        }
        spent
    }

    /// What the process of a slot has spent since the last time.
    fn spent_ns(&mut self, slot: u32, now: SlotCounters) -> f64 {
        let before = self.counters.insert(slot, now).unwrap_or(now);
        let unrecorded = Unrecorded {
            lost: (now.lost_movements - before.lost_movements) + (now.lost_state - before.lost_state),
            declined: now.declined - before.declined,
            refused: now.refused - before.refused,
        };
        self.accounts.spent_ns(slot, unrecorded)
    }

    /// Our own processor time, if it is taken from the job: by CPU of the job.
    fn own_cost_ns(&mut self, host: &dyn Host) -> f64 {
        if !self.cpus.are_shared {
            return 0.0;
        }
        let now = host.own_cpu_ns();
        let used = now - std::mem::replace(&mut self.time.own_cpu_ns, now);
        if self.time.last_ns < self.time.begin_ns + ATTACHING_NS {
            return 0.0;
        }
        used as f64 / self.cpus.count.max(1) as f64
    }

    fn pause(&mut self, now_ns: u64, kernel: &mut dyn Kernel, joining: &BTreeSet<u32>) -> Coverage {
        if self.accounts.has_enough() || self.pausing.is_empty() {
            self.pausing.clear();
            self.choose(joining);
        }
        kernel.pause(true);
        self.detached = kernel.detach(&self.to_detach());
        self.rest.since_ns = None;
        self.coverage(now_ns, true)
    }

    /// Adds what is too dear by what was hit lately.
    fn choose(&mut self, joining: &BTreeSet<u32>) {
        let uses = self.accounts.uses(joining, self.counters.len(), self.cpus.count);
        let choice = choose(&uses, self.budget.share);
        self.pausing.extend(choice.pausing);
        self.off.extend(choice.off);
        self.accounts.begin_window();
    }

    /// What is not to be attached during a pause.
    fn to_detach(&self) -> BTreeSet<u32> {
        self.pausing.union(&self.off).copied().collect()
    }

    /// What was noticed as dear only after the pause began, because records were still on their way.
    fn detach_more(
        &mut self,
        now_ns: u64,
        kernel: &mut dyn Kernel,
        joining: &dyn Fn() -> BTreeSet<u32>,
    ) -> Option<Coverage> {
        if !self.accounts.has_enough() {
            return None;
        }
        let off_before = self.off.len();
        self.choose(&joining());
        self.detached.extend(kernel.detach(&self.to_detach()));
        (self.off.len() > off_before).then(|| self.coverage(now_ns, true))
    }

    fn resume(&mut self, kernel: &mut dyn Kernel, host: &dyn Host) -> Coverage {
        let back = self.detached.difference(&self.off).copied().collect();
        self.reattach(&back, kernel);
        kernel.pause(false);
        self.detached.retain(|probe| !back.contains(probe));
        self.coverage(host.now_ns(), false)
    }

    /// When the job has been quiet for long enough, everything is watched again.
    fn reattach_what_is_off(
        &mut self,
        now_ns: u64,
        kernel: &mut dyn Kernel,
        host: &dyn Host,
    ) -> Option<Coverage> {
        if self.off.is_empty() || self.governor.is_paused() || !self.governor.is_at_rest() {
            self.rest.since_ns = None;
            return None;
        }
        let since_ns = *self.rest.since_ns.get_or_insert(now_ns);
        if now_ns - since_ns < self.rest.needed_ns {
            return None;
        }
        self.rest = Rest { since_ns: None, needed_ns: (self.rest.needed_ns * 2).min(LONGEST_REST_NS) };
        let back = std::mem::take(&mut self.off);
        self.reattach(&back, kernel);
        self.detached.clear();
        self.accounts.begin_window();
        Some(self.coverage(host.now_ns(), false))
    }

    /// What the kernel refuses to take back is off for longer.
    fn reattach(&mut self, probes: &BTreeSet<u32>, kernel: &mut dyn Kernel) {
        let failed = kernel.reattach(probes).failed;
        self.off.extend(failed.into_iter().map(|(probe, _)| probe.id));
    }

    fn coverage(&self, time_ns: u64, paused: bool) -> Coverage {
        Coverage { time_ns, paused, off: self.off.iter().copied().collect() }
    }
}
