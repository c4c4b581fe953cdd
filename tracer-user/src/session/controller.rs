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

    /// These are recorded without the kernel from now on: whatever was too expensive of them is not any more. Gives what is watched
    /// from now on, if that has changed.
    pub(super) fn moved(&mut self, probes: &BTreeSet<u32>, now_ns: u64) -> Option<Coverage> {
        let were_off = !self.off.is_disjoint(probes);
        for set in [&mut self.pausing, &mut self.detached, &mut self.off] {
            set.retain(|probe| !probes.contains(probe));
        }
        self.accounts.begin_window();
        were_off.then(|| self.coverage(now_ns, false))
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
        self.accounts.pass(elapsed_ns);
        let spent = self.spent(slots, kernel, host, elapsed_ns);
        let coverage = match self.governor.step(elapsed_ns, spent) {
            Action::Pause => Some(self.pause(now_ns, kernel, &joining())),
            Action::Resume => Some(self.resume(kernel, host)),
            Action::Stay if self.governor.is_paused() => self.detach_more(now_ns, kernel, joining),
            Action::Stay => self.reattach_what_is_off(now_ns, kernel, host),
        };
        self.status.paused = self.governor.is_paused();
        self.status.keeps_calls = self.keeps_calls();
        self.status.probes_off = self.off.len();
        coverage
    }

    /// Whether the most expensive probes are detached.
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
            lost: now.lost() - before.lost(),
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

    /// Adds what is too expensive by what was hit lately.
    fn choose(&mut self, joining: &BTreeSet<u32>) {
        let (processes, cpus) = (self.counters.len(), self.cpus.count);
        let uses = self.accounts.uses(joining, processes, cpus);
        let choice = choose(&uses, self.accounts.calls_share(processes, cpus), self.budget.share);
        self.pausing.extend(choice.pausing);
        self.off.extend(choice.off);
        self.accounts.begin_window();
    }

    /// What is not to be attached during a pause.
    fn to_detach(&self) -> BTreeSet<u32> {
        self.pausing.union(&self.off).copied().collect()
    }

    /// What was noticed as expensive only after the pause began, because records were still on their way.
    fn detach_more(
        &mut self,
        now_ns: u64,
        kernel: &mut dyn Kernel,
        joining: &dyn Fn() -> BTreeSet<u32>,
    ) -> Option<Coverage> {
        if !self.accounts.has_enough() {
            return None;
        }
        let before = (self.off.len(), self.keeps_calls());
        self.choose(&joining());
        self.detached.extend(kernel.detach(&self.to_detach()));
        (before != (self.off.len(), self.keeps_calls())).then(|| self.coverage(now_ns, true))
    }

    fn resume(&mut self, kernel: &mut dyn Kernel, host: &dyn Host) -> Coverage {
        let back = self.detached.difference(&self.off).copied().collect();
        self.reattach(&back, kernel);
        kernel.pause(false);
        self.detached.retain(|probe| !back.contains(probe));
        self.accounts.begin_window();
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
        let hot = self.to_detach();
        let failed = kernel.reattach(probes, &hot).failed;
        self.off.extend(failed.into_iter().map(|(probe, _)| probe.id));
    }

    /// Whether all MPI calls are watched, pause or not.
    fn keeps_calls(&self) -> bool {
        !self.accounts.watch_calls(&self.detached)
    }

    fn coverage(&self, time_ns: u64, paused: bool) -> Coverage {
        let keeps_calls = paused && self.keeps_calls();
        Coverage { time_ns, paused, keeps_calls, off: self.off.iter().copied().collect() }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Arc;

    use analyzer::plan::{Probe, ProbeClass};

    use super::super::fake::{
        BEGIN_NS, FakeHost, FakeKernel, MS, PROGRAM, S, Shared, copy, empty_file, probe,
    };
    use super::*;
    use crate::kernel::{Scope, Target};

    /// A process that hits probes, a controller with a budget of one percent, and a kernel.
    struct Rig {
        world: Shared,
        kernel: FakeKernel,
        controller: BudgetController,
        /// Probes whose movements join chains.
        joining: BTreeSet<u32>,
    }

    impl Rig {
        fn new(probes: Vec<Probe>, are_shared: bool) -> Self {
            let world = Shared::default();
            world.lock().now_ns = BEGIN_NS;
            let mut kernel =
                FakeKernel { world: world.clone(), script: VecDeque::new(), stop: Arc::default() };
            let cpus = JobCpus { count: 1, are_shared };
            let host = FakeHost(world.clone());
            let mut controller =
                BudgetController::new(Budget { share: 0.01 }, HitCosts::default(), cpus, &host);
            let plan = Plan { probes, ..Plan::default() };
            let target = Target::as_it_is(empty_file(), [], Scope::EveryProcess);
            kernel.attach(&plan, &BTreeMap::from([(PROGRAM, target)]));
            controller.know(&plan);
            Self { world, kernel, controller, joining: BTreeSet::new() }
        }

        /// Time passes, and the process hits each of these probes so often.
        fn pass(&mut self, elapsed_ns: u64, probes: &[u32], hits: usize) -> Option<Coverage> {
            self.world.lock().now_ns += elapsed_ns;
            for &probe in probes {
                self.controller.count(0, &vec![copy(1, 7, probe); hits]);
            }
            let (host, joining) = (FakeHost(self.world.clone()), self.joining.clone());
            let slots = BTreeSet::from([0]);
            self.controller.step(&slots, &mut self.kernel, &host, &|| joining.clone())
        }

        /// The process does nothing else than to hit these probes, until watching is paused.
        fn storm(&mut self, probes: &[u32]) -> Coverage {
            let coverage = (0..1000).find_map(|_| self.pass(MS, probes, 1400 / probes.len()));
            coverage.filter(|coverage| coverage.paused).expect("a storm is too expensive")
        }

        /// Nothing happens until what is watched changes; gives also how long that takes.
        fn quiet(&mut self) -> (Coverage, u64) {
            let begin_ns = self.world.lock().now_ns;
            let coverage = (0..10_000).find_map(|_| self.pass(100 * MS, &[], 0)).expect("some day");
            let now_ns = self.world.lock().now_ns;
            (coverage, now_ns - begin_ns)
        }

        fn attached(&self) -> Vec<u32> {
            self.world.lock().attached.iter().copied().collect()
        }
    }

    fn copies() -> Vec<Probe> {
        (1..=3).map(|id| probe(id, ProbeClass::Copy)).collect()
    }

    #[test]
    fn a_copy_that_joins_no_chain_stays_off_when_watching_goes_on() {
        let mut rig = Rig::new(copies(), false);
        rig.joining = BTreeSet::from([1]);
        let paused = rig.storm(&[1, 2]);
        assert_eq!((paused.paused, paused.off, rig.attached()), (true, vec![2], vec![]));
        let (resumed, _) = rig.quiet();
        assert_eq!((resumed.paused, resumed.off, rig.attached()), (false, vec![2], vec![1, 3]));
    }

    #[test]
    fn what_is_off_comes_back_after_a_long_rest_and_the_next_time_after_twice_as_long() {
        let mut rig = Rig::new(copies(), false);
        rig.joining = BTreeSet::from([1]);
        let mut rests_ns = Vec::new();
        for _ in 0..2 {
            assert_eq!(rig.storm(&[1, 2]).off, [2]);
            assert_eq!(rig.quiet().0.off, [2]);
            let (back, after_ns) = rig.quiet();
            assert_eq!((back.off, rig.attached()), (vec![], vec![1, 2, 3]));
            rests_ns.push(after_ns);
        }
        assert!((10 * S..11 * S).contains(&rests_ns[0]), "{rests_ns:?}");
        assert!((20 * S..21 * S).contains(&rests_ns[1]), "{rests_ns:?}");
    }

    #[test]
    fn what_has_become_cheap_is_off_no_more() {
        let mut rig = Rig::new(copies(), false);
        rig.joining = BTreeSet::from([1]);
        assert_eq!(rig.storm(&[1, 2]).off, [2]);
        rig.quiet();
        let now_ns = rig.world.lock().now_ns;
        assert_eq!(rig.controller.moved(&BTreeSet::from([1]), now_ns), None);
        let coverage = rig.controller.moved(&BTreeSet::from([2]), now_ns).expect("another is watched");
        assert_eq!((coverage.paused, coverage.off), (false, vec![]));
    }

    #[test]
    fn what_the_kernel_refuses_to_attach_again_is_off() {
        let mut rig = Rig::new(copies(), false);
        assert_eq!(rig.storm(&[1, 2]).off, [0u32; 0]);
        rig.world.lock().refused = BTreeSet::from([1]);
        let (resumed, _) = rig.quiet();
        assert_eq!((resumed.off, rig.attached()), (vec![1], vec![2, 3]));
        rig.world.lock().refused.clear();
        let (back, _) = rig.quiet();
        assert_eq!((back.off, rig.attached()), (vec![], vec![1, 2, 3]));
    }

    #[test]
    fn what_turns_out_to_be_expensive_only_in_a_pause_is_detached_then() {
        let classes = [ProbeClass::Copy, ProbeClass::Pack, ProbeClass::Unpack];
        let mut rig = Rig::new((1..).zip(classes).map(|(id, class)| probe(id, class)).collect(), false);
        rig.storm(&[1]);
        assert_eq!(rig.attached(), [2, 3]);
        assert_eq!(rig.pass(MS, &[2], 400), None);
        assert_eq!(rig.attached(), [2, 3], "too few hits for a choice");
        assert_eq!(rig.pass(MS, &[2], 400), None);
        assert_eq!(rig.attached(), [3]);
        rig.quiet();
        assert_eq!(rig.attached(), [1, 2, 3]);
    }

    #[test]
    fn what_is_cheap_pauses_once_with_its_bundle_and_stays_the_next_time() {
        let mut rig = Rig::new(copies(), false);
        rig.storm(&[1]);
        assert_eq!(rig.attached(), [0u32; 0]);
        rig.quiet();
        assert_eq!(rig.attached(), [1, 2, 3]);
        rig.storm(&[1]);
        assert_eq!(rig.attached(), [2, 3]);
        rig.quiet();
        rig.storm(&[1, 2]);
        rig.quiet();
        rig.storm(&[1, 2]);
        assert_eq!(rig.attached(), [3]);
    }

    #[test]
    fn calls_are_watched_in_pauses_unless_they_turn_out_to_be_too_expensive_themselves() {
        let mut rig = Rig::new(vec![probe(1, ProbeClass::Copy), probe(2, ProbeClass::Call)], false);
        let paused = rig.storm(&[1]);
        assert_eq!((paused.keeps_calls, rig.attached()), (true, vec![2]));
        let (resumed, _) = rig.quiet();
        assert_eq!((resumed.paused, resumed.keeps_calls), (false, false));
        rig.storm(&[1]);
        let both = (0..1000).find_map(|_| rig.pass(MS, &[2], 700)).expect("calls are a storm too");
        assert_eq!((both.paused, both.keeps_calls, rig.attached()), (true, false, vec![]));
        let (resumed, _) = rig.quiet();
        assert_eq!((resumed.paused, rig.attached()), (false, vec![1, 2]));
    }

    #[test]
    fn movements_by_system_calls_pause_with_the_probes() {
        let mut rig = Rig::new(copies(), false);
        rig.storm(&[1]);
        assert!(rig.world.lock().paused);
        rig.quiet();
        assert!(!rig.world.lock().paused);
    }

    #[test]
    fn our_own_processor_time_counts_where_it_is_taken_from_the_job() {
        let pauses = |are_shared| {
            let mut rig = Rig::new(copies(), are_shared);
            let mut busy = |ms| {
                (0..ms).any(|_| {
                    rig.world.lock().own_cpu_ns += MS / 2;
                    rig.pass(MS, &[], 0).is_some()
                })
            };
            (busy(999), busy(100))
        };
        assert_eq!(pauses(true), (false, true), "what attaching takes is no part of the budget");
        assert_eq!(pauses(false), (false, false));
    }

    #[test]
    fn hits_that_leave_no_record_count_too() {
        let mut rig = Rig::new(vec![probe(1, ProbeClass::Copy), probe(2, ProbeClass::Alloc)], false);
        let coverage = (0..1000).find_map(|_| {
            rig.world.lock().counters.entry(0).or_default().declined += 1600;
            rig.pass(MS, &[], 0)
        });
        assert_eq!(coverage.expect("a storm of small blocks is too expensive").off, [2]);
    }
}
