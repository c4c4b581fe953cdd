//! What hits have cost: counted by probe for the choice of what goes first, and by slot for what each process has spent.

use std::collections::{BTreeMap, BTreeSet};

use analyzer::plan::{Plan, ProbeClass, ProbePlace};
use analyzer::wire::{RawRecord, kind};

use super::{HitCosts, ProbeUse, held_up_ns, is_of_heap};

/// A choice rests on at least so many hits since the last one.
const ENOUGH_HITS: u64 = 500;
/// A choice rests on what was hit lately: a storm that has just begun is nothing beside a long quiet time.
const WINDOW_NS: u64 = 200_000_000;
/// Over how long it is judged what MPI calls cost: they are not to be given up for a moment in which there are many.
const CALLS_NS: f64 = 1e9;
/// So many hits without a chain, and a copy is thought to join none.
const LONER_HITS: u64 = 1000;
/// Ids of probes are small; others are not counted.
const MAX_PROBE: usize = 1 << 20;

/// Hits of one probe, of all processes.
#[derive(Clone, Copy, Default)]
struct Hits {
    /// In the window.
    recent: u64,
    /// In the whole session.
    all: u64,
    /// It is seen without the kernel.
    is_fast: bool,
    /// It watches MPI calls.
    is_of_calls: bool,
    /// What one costs.
    cost_ns: f64,
}

/// What was counted since the last choice.
#[derive(Clone, Copy, Default)]
struct SpendingWindow {
    hits: u64,
    /// Hits of the allocator's probes that left no record.
    declined: u64,
    /// The same of polling calls.
    refused: u64,
    passed_ns: u64,
}

/// What MPI calls cost lately; older costs count for less.
#[derive(Clone, Copy, Default)]
struct RecentCost {
    ns: f64,
}

impl RecentCost {
    fn pass(&mut self, elapsed_ns: u64) {
        self.ns *= (-(elapsed_ns as f64) / CALLS_NS).exp();
    }
}

/// Hits that left no record, of one slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unrecorded {
    /// Records that found no room.
    pub lost: u64,
    /// Hits of allocation probes that were not worth a record.
    pub declined: u64,
    /// Polling calls that were followed to their return, and said no.
    pub refused: u64,
}

/// Counts hits: by probe since the last choice, by slot since its cost was asked for.
pub struct HitAccounts {
    costs: HitCosts,
    classes: BTreeMap<u32, ProbeClass>,
    /// Probes of polling calls that are followed to their return.
    polling: BTreeSet<u32>,
    /// By probe id.
    hits: Vec<Hits>,
    /// Cost of records by slot, since it was asked for.
    recorded_ns: BTreeMap<u32, f64>,
    window: SpendingWindow,
    calls: RecentCost,
}

impl HitAccounts {
    /// `costs`: what one hit costs.
    pub fn new(costs: HitCosts) -> Self {
        Self {
            costs,
            classes: BTreeMap::new(),
            polling: BTreeSet::new(),
            hits: Vec::new(),
            recorded_ns: BTreeMap::new(),
            window: SpendingWindow::default(),
            calls: RecentCost::default(),
        }
    }

    /// These probes are attached from now on.
    pub fn know(&mut self, plan: &Plan) {
        for probe in plan.probes.iter().filter(|p| (p.id as usize) < MAX_PROBE) {
            self.classes.insert(probe.id, probe.class);
            let has_answer = probe.results.as_ref().is_some_and(|results| results.answer.is_some());
            if probe.class == ProbeClass::PollReturn || has_answer {
                self.polling.insert(probe.id);
            }
            if probe.id as usize >= self.hits.len() {
                self.hits.resize(probe.id as usize + 1, Hits::default());
            }
            let hits = &mut self.hits[probe.id as usize];
            (hits.cost_ns, hits.is_fast) = (self.costs.of_probe(probe), probe.place == ProbePlace::Slot);
            hits.is_of_calls = probe.class.watches_calls();
        }
    }

    /// Whether any of these probes watches MPI calls.
    pub fn watch_calls(&self, probes: &BTreeSet<u32>) -> bool {
        let watches = |probe: &u32| self.classes.get(probe).is_some_and(|class| class.watches_calls());
        probes.iter().any(watches)
    }

    /// Counts the hits that the records of a slot tell of.
    pub fn count(&mut self, slot: u32, records: &[RawRecord]) {
        let mut cost_ns = 0.0;
        for record in records {
            let probe = record.probe() as usize;
            if probe == 0 {
                cost_ns += self.costs.system_call_ns();
            } else if let Some(hits) = self.hits.get_mut(probe) {
                let is_hit = u64::from(kind::is_hit(record.kind()));
                hits.recent += is_hit;
                hits.all += is_hit;
                self.window.hits += is_hit;
                let record_ns = match (hits.is_fast, kind::is_hit(record.kind())) {
                    // What belongs to a hit is a part of it.
                    (true, false) => 0.0,
                    _ => self.costs.of_record(hits.cost_ns, record.kind()),
                };
                cost_ns += record_ns;
                self.calls.ns += if hits.is_of_calls { record_ns } else { 0.0 };
            }
        }
        *self.recorded_ns.entry(slot).or_default() += cost_ns;
    }

    /// What the process of a slot has spent since this was asked the last time, ns. `unrecorded`: of the same time.
    pub fn spent_ns(&mut self, slot: u32, unrecorded: Unrecorded) -> f64 {
        let Unrecorded { lost, declined, refused } = unrecorded;
        self.window.declined += declined;
        self.window.refused += refused;
        // An expensive probe is to be noticed even where no record tells of it.
        self.window.hits += refused;
        if refused > 0 && self.watch_calls(&self.polling) {
            self.calls.ns += refused as f64 * self.costs.refused_ns();
        }
        let recorded_ns = self.recorded_ns.remove(&slot).unwrap_or(0.0);
        recorded_ns
            + lost as f64 * self.costs.call_ns
            + declined as f64 * self.costs.declined_ns
            + refused as f64 * self.costs.refused_ns()
    }

    /// So much more time has passed; an old window is closed before.
    pub fn pass(&mut self, elapsed_ns: u64) {
        if self.window.passed_ns >= WINDOW_NS {
            self.begin_window();
        }
        self.window.passed_ns += elapsed_ns;
        self.calls.pass(elapsed_ns);
    }

    /// Part of the time that MPI calls take from `processes` processes on `cpus` CPUs, of late.
    pub fn calls_share(&self, processes: usize, cpus: usize) -> f64 {
        let (all_ns, processes) = (self.calls.ns, processes.max(1));
        held_up_ns(all_ns / processes as f64, all_ns, processes, cpus) / CALLS_NS
    }

    /// Whether there were hits enough for a choice.
    pub fn has_enough(&self) -> bool {
        self.window.hits >= ENOUGH_HITS
    }

    /// Counts anew for the next choice.
    pub fn begin_window(&mut self) {
        self.hits.iter_mut().for_each(|hits| hits.recent = 0);
        self.window = SpendingWindow::default();
    }

    /// How probes were used in the window, by `processes` processes on `cpus` CPUs. `joining`: probes whose movements
    /// were part of a chain.
    pub fn uses(&self, joining: &BTreeSet<u32>, processes: usize, cpus: usize) -> Vec<ProbeUse> {
        let (processes, time_ns) = (processes.max(1), self.window.passed_ns.max(1) as f64);
        let is_fast = |probe: u32| self.hits.get(probe as usize).is_some_and(|hits| hits.is_fast);
        let of_heap = self.classes.iter().filter(|(probe, class)| is_of_heap(**class) && !is_fast(**probe));
        let heap_probes = of_heap.count().max(1);
        let declined_ns = self.window.declined as f64 * self.costs.declined_ns / heap_probes as f64;
        let refused_ns =
            self.window.refused as f64 * self.costs.refused_ns() / self.polling.len().max(1) as f64;
        let of = |(&probe, &class): (&u32, &ProbeClass)| {
            let hits = self.hits.get(probe as usize).copied().unwrap_or_default();
            // Which of them it was is not counted.
            let unseen_ns = match self.polling.contains(&probe) {
                true => refused_ns,
                false if is_of_heap(class) && !hits.is_fast => declined_ns,
                false => 0.0,
            };
            // Hits are those of all processes: of one, the mean of them.
            let all_ns = hits.recent as f64 * hits.cost_ns + unseen_ns;
            let cost_share = held_up_ns(all_ns / processes as f64, all_ns, processes, cpus) / time_ns;
            let never_joins = hits.all >= LONER_HITS && !joining.is_empty() && !joining.contains(&probe);
            ProbeUse { probe, class, cost_share, never_joins }
        };
        self.classes.iter().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use analyzer::plan::{Probe, ProbePlace};
    use analyzer::wire::{Body, CallContext, FileId, Header, Record};

    use super::*;

    fn accounts(classes: &[(u32, ProbeClass)]) -> HitAccounts {
        let probe = |&(id, class): &(u32, ProbeClass)| Probe::at(id, FileId::default(), 0, class, "");
        let mut accounts = HitAccounts::new(HitCosts::default());
        accounts.know(&Plan { probes: classes.iter().map(probe).collect(), ..Plan::default() });
        accounts
    }

    fn copy(probe: u32) -> RawRecord {
        let header = Header { time_ns: 1, pid: 7, tid: 7, probe };
        let body = Body::Copy { dst: 1, src: 2, len_bytes: 3, context: CallContext::default() };
        Record { header, body }.encode()
    }

    #[test]
    fn what_a_process_has_spent_is_asked_for_once() {
        let mut accounts = accounts(&[(1, ProbeClass::Copy)]);
        accounts.count(4, &[copy(1), copy(1)]);
        accounts.count(5, &[copy(1)]);
        let costs = HitCosts::default();
        let lost = Unrecorded { lost: 3, ..Unrecorded::default() };
        assert_eq!(accounts.spent_ns(4, lost), 2.0 * costs.copy_ns + 3.0 * costs.call_ns);
        assert_eq!(accounts.spent_ns(4, Unrecorded::default()), 0.0);
        assert_eq!(accounts.spent_ns(5, Unrecorded::default()), costs.copy_ns);
    }

    #[test]
    fn a_copy_that_is_recorded_without_the_kernel_has_a_price_of_its_own() {
        let of_kernel = Probe::at(1, FileId::default(), 0, ProbeClass::Copy, "");
        let fast = Probe { id: 2, place: ProbePlace::Slot, ..of_kernel.clone() };
        let mut accounts = HitAccounts::new(HitCosts::default());
        accounts.know(&Plan { probes: vec![of_kernel, fast], ..Plan::default() });
        let mut spent = |probe| {
            accounts.count(0, &[copy(probe); 100]);
            accounts.spent_ns(0, Unrecorded::default())
        };
        assert!(spent(1) > 30.0 * spent(2));
        accounts.pass(1_000_000);
        let uses = accounts.uses(&BTreeSet::new(), 1, 1);
        assert!(
            uses[0].cost_share > 30.0 * uses[1].cost_share,
            "so it has where it is chosen what is to go: {uses:?}"
        );
    }

    #[test]
    fn blocks_that_leave_no_record_are_counted_by_the_probes_of_the_kernel() {
        let of_kernel = Probe::at(1, FileId::default(), 0, ProbeClass::Alloc, "malloc");
        let fast = Probe { id: 2, place: ProbePlace::Slot, ..of_kernel.clone() };
        let mut accounts = HitAccounts::new(HitCosts::default());
        accounts.know(&Plan { probes: vec![of_kernel, fast], ..Plan::default() });
        accounts.spent_ns(0, Unrecorded { declined: 100, ..Unrecorded::default() });
        accounts.pass(1_000_000);
        let shares: Vec<f64> =
            accounts.uses(&BTreeSet::new(), 1, 1).iter().map(|used| used.cost_share).collect();
        assert_eq!(shares, [100.0 * HitCosts::default().declined_ns / 1_000_000.0, 0.0]);
    }

    #[test]
    fn a_probe_uses_what_its_hits_in_the_window_cost() {
        let mut accounts = accounts(&[(1, ProbeClass::Copy), (2, ProbeClass::Copy)]);
        accounts.count(0, &[copy(1); 10]);
        accounts.pass(100_000);
        let shares = |accounts: &HitAccounts| -> Vec<f64> {
            accounts.uses(&BTreeSet::new(), 1, 1).iter().map(|used| used.cost_share).collect()
        };
        assert_eq!(shares(&accounts), [10.0 * HitCosts::default().copy_ns / 100_000.0, 0.0]);
        accounts.pass(WINDOW_NS);
        accounts.pass(1);
        assert_eq!(shares(&accounts), [0.0, 0.0], "an old window says nothing of now");
    }

    #[test]
    fn calls_are_judged_by_what_they_cost_in_the_last_second() {
        let mut accounts = accounts(&[(1, ProbeClass::Copy), (2, ProbeClass::Call)]);
        let call = |accounts: &mut HitAccounts, hits| {
            let header = Header { time_ns: 1, pid: 7, tid: 7, probe: 2 };
            let body = Body::Call { return_address: 1, args: [0; 6], nested: false };
            accounts.count(0, &vec![Record { header, body }.encode(); hits]);
            accounts.calls_share(1, 1)
        };
        accounts.count(0, &[copy(1); 1000]);
        assert_eq!(accounts.calls_share(1, 1), 0.0);
        // However short the time, they cost that much of a second.
        accounts.pass(1_000);
        let cost = 100.0 * HitCosts::default().call_ns / CALLS_NS;
        assert!((call(&mut accounts, 100) / cost - 1.0).abs() < 0.01);
        accounts.pass(5_000_000_000);
        assert!(accounts.calls_share(1, 1) < cost / 100.0);
        let steady = (0..5000).map(|_| {
            accounts.pass(1_000_000);
            call(&mut accounts, 10)
        });
        let share = steady.last().expect("a share");
        assert!((share / (10.0 * HitCosts::default().call_ns / 1e6) - 1.0).abs() < 0.01, "{share}");
    }

    #[test]
    fn polling_calls_that_said_no_make_a_choice_possible() {
        let mut accounts = accounts(&[(1, ProbeClass::PollReturn)]);
        accounts.pass(1_000_000);
        assert!(!accounts.has_enough());
        accounts.spent_ns(0, Unrecorded { refused: ENOUGH_HITS, ..Unrecorded::default() });
        assert!(accounts.has_enough() && accounts.uses(&BTreeSet::new(), 1, 1)[0].cost_share > 0.0);
    }
}
