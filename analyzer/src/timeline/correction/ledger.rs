//! What watching cost each thread, from one boundary of a call to the next: every record is the trace of a hit.

use std::collections::{BTreeMap, VecDeque};

use rustc_hash::FxHashMap;

use super::bounds::Bounds;
use super::prices::{PartedPrice, Prices};
use crate::mpi::calls::{self, Lifecycle};
use crate::tape::costs::{HitKind, ProbeCosts, UnrecordedHits};
use crate::tape::plan::{Plan, Probe, ProbeClass, ProbePlace, Results, SentBuffers};
use crate::tape::wire::{Body, RawRecord, Record};
use crate::tape::{MAX_NODES, node_of};

/// Calls of a thread whose costs wait until the call is told of.
const MOST_WAITING: usize = 1 << 14;
/// Probes of a session at most.
const MOST_PROBES: u32 = 1 << 20;

/// What watching cost around a call.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CallCosts {
    /// From the end of the last call to its beginning.
    pub between: Bounds,
    /// At its entry.
    pub entry: Bounds,
    /// By other hits while it ran.
    pub middle: Bounds,
    /// While it ran, and dmscope in its place.
    pub held_up: Bounds,
    /// At its return.
    pub exit: Bounds,
}

impl CallCosts {
    /// While it ran.
    pub fn inside(&self) -> Bounds {
        self.entry + self.middle + self.held_up + self.exit
    }
}

/// What a probe of an MPI call tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum CallProbe {
    /// It is none.
    #[default]
    No,
    /// When the call begins.
    Entry,
    /// And when it returns.
    Both,
    /// All of it at its return, if its answer is yes.
    Answer,
}

#[derive(Clone, Copy, Debug, Default)]
struct PlannedProbe {
    call: CallProbe,
    /// What it does is told of.
    is_told: bool,
    /// It records without the kernel.
    is_fast: bool,
    looks: BufferLook,
}

/// When a hit looks at buffers of sends: that has the price of a record of values, which is read as well. It is not measured by
/// itself.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum BufferLook {
    #[default]
    Never,
    AtEntry,
    AtReturn,
}

impl BufferLook {
    fn of(results: Option<&Results>) -> Self {
        match results.and_then(|results| results.buffers) {
            None => Self::Never,
            Some(SentBuffers::Sent { .. }) => Self::AtReturn,
            Some(_) => Self::AtEntry,
        }
    }
}

/// A call that is recorded without the kernel: some nanoseconds, more where its record's cache lines come from far.
const FAST_CALL: Bounds = Bounds { least_ns: 8.0, likely_ns: 20.0, most_ns: 120.0 };
/// What the call before has stored is read: some nanoseconds, or a system call if it may lie in memory that is gone.
const FAST_MADE: Bounds = Bounds { least_ns: 0.0, likely_ns: 5.0, most_ns: 1000.0 };
/// A copy.
const FAST_COPY: Bounds = Bounds { least_ns: 5.0, likely_ns: 10.0, most_ns: 60.0 };

/// A thread.
#[derive(Debug, Default)]
struct ThreadLedger {
    now: CallCosts,
    /// Of the call that it is in, if its end is to be seen.
    begin_ns: Option<u64>,
    is_told: bool,
    /// Calls that are over, by when they began.
    over: VecDeque<(u64, CallCosts)>,
}

impl ThreadLedger {
    fn is_in_call(&self) -> bool {
        self.begin_ns.is_some()
    }

    fn add(&mut self, cost: Bounds) {
        if self.is_in_call() { self.now.middle += cost } else { self.now.between += cost }
    }

    fn hold_up(&mut self, held_up: Bounds) {
        if self.is_in_call() { self.now.held_up += held_up } else { self.now.between += held_up }
    }

    fn close(&mut self) {
        let Some(begin_ns) = self.begin_ns.take() else { return };
        let costs = std::mem::take(&mut self.now);
        if self.is_told {
            self.over.push_back((begin_ns, costs));
            if self.over.len() > MOST_WAITING {
                self.over.pop_front();
            }
        } else {
            self.now.between = costs.between + costs.inside();
        }
    }
}

/// How many hits there were, and what they cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct HitSum {
    /// How many.
    pub hits: u64,
    /// All of them.
    pub cost: Bounds,
}

impl HitSum {
    fn add(&mut self, hits: u64, cost: Bounds) {
        self.hits += hits;
        self.cost += cost;
    }
}

/// See the [module](self).
#[derive(Debug)]
pub struct HitLedger {
    /// By node; there is one at least.
    prices: Vec<Prices>,
    sharing: f64,
    probes: Vec<PlannedProbe>,
    threads: FxHashMap<(u32, u32), ThreadLedger>,
    /// By process, in the order in which they were told.
    unrecorded: FxHashMap<u32, Vec<UnrecordedHits>>,
    /// Of all processes, by kind.
    pub sums: BTreeMap<HitKind, HitSum>,
    /// How often, and for how long, dmscope ran in the place of a rank.
    pub held_up: HitSum,
}

impl HitLedger {
    /// `costs`: of all nodes and moments; `unrecorded`: of the whole session; `sharing`: so many ranks share a CPU, and a hit of
    /// one may hold up all of them.
    pub fn new(costs: &[ProbeCosts], unrecorded: &[UnrecordedHits], sharing: f64) -> Self {
        let mut ledger = Self {
            prices: Vec::new(),
            sharing,
            probes: Vec::new(),
            threads: FxHashMap::default(),
            unrecorded: FxHashMap::default(),
            sums: BTreeMap::new(),
            held_up: HitSum::default(),
        };
        ledger.price(costs);
        for hits in unrecorded {
            ledger.unrecorded.entry(hits.pid).or_default().push(*hits);
            ledger.count_unrecorded(hits);
        }
        ledger
    }

    /// These are the prices from here on.
    pub fn price(&mut self, costs: &[ProbeCosts]) {
        let nodes = costs.iter().map(|costs| costs.node as usize + 1).max().unwrap_or(1);
        let of_node = |node: usize| {
            let prices = Prices::of(costs.iter().filter(|costs| costs.node as usize == node));
            if self.sharing > 1.0 { prices.shared(self.sharing) } else { prices }
        };
        self.prices = (0..nodes.min(MAX_NODES)).map(of_node).collect();
    }

    /// What hits cost where a process runs.
    pub fn prices(&self, pid: u32) -> &Prices {
        of_node(&self.prices, pid)
    }

    fn count_unrecorded(&mut self, hits: &UnrecordedHits) {
        let prices = of_node(&self.prices, hits.pid);
        let kinds = [
            (HitKind::Declined, hits.declined, prices.declined),
            (HitKind::Refused, hits.refused, prices.refused),
        ];
        for (kind, hits, price) in kinds.into_iter().filter(|(_, hits, _)| *hits > 0) {
            self.sums.entry(kind).or_default().add(hits, price.times(hits as f64));
        }
    }

    /// These probes are attached from here on.
    pub fn plan(&mut self, plan: &Plan) {
        for probe in plan.probes.iter().filter(|probe| probe.id < MOST_PROBES) {
            let at = probe.id as usize;
            if at >= self.probes.len() {
                self.probes.resize(at + 1, PlannedProbe::default());
            }
            self.probes[at] = planned(probe);
        }
    }

    /// Counts the hit that a record tells of.
    pub fn record(&mut self, raw: &RawRecord) {
        let Ok(Record { header, body }) = Record::decode(raw) else { return };
        let prices = of_node(&self.prices, header.pid);
        let probe = self.probes.get(header.probe as usize).copied().unwrap_or_default();
        let thread = self.threads.entry((header.pid, header.tid)).or_default();
        let (kind, cost) = match body {
            Body::Call { nested: false, .. } if probe.call != CallProbe::No => {
                (HitKind::CallResults, begin(thread, header.time_ns, probe, prices))
            }
            // Of the same hit.
            Body::Values { .. } if probe.is_fast => return,
            Body::Values { at_return, .. } => {
                let part = if at_return { &mut thread.now.exit } else { &mut thread.now.entry };
                *part += prices.value;
                (HitKind::CallValues, prices.value)
            }
            Body::Return { .. } => {
                thread.close();
                thread.now.between += prices.results.after;
                // With the entry it is one hit.
                return self.sums.entry(HitKind::CallResults).or_default().add(0, prices.results.after);
            }
            Body::Call { .. } | Body::Done => whole(thread, HitKind::Call, prices.call.whole()),
            Body::Copy { .. } if probe.is_fast => whole(thread, HitKind::Copy, FAST_COPY),
            Body::Copy { .. } | Body::Pack { .. } => whole(thread, HitKind::Copy, prices.copy.whole()),
            Body::Alloc { .. } if probe.is_fast => whole(thread, HitKind::Alloc, FAST_COPY),
            Body::Alloc { .. } => whole(thread, HitKind::Alloc, prices.alloc.whole()),
            Body::Free { .. } if probe.is_fast => whole(thread, HitKind::Copy, FAST_COPY),
            Body::Free { .. } => whole(thread, HitKind::Copy, prices.copy.whole()),
            Body::Work(_) | Body::Completion { .. } | Body::Queue(_) => {
                whole(thread, HitKind::Alloc, prices.alloc.whole())
            }
            Body::Cross { .. } | Body::Stream { .. } | Body::Map { .. } | Body::Unmap { .. } => {
                whole(thread, HitKind::CallValues, prices.system_call())
            }
            Body::Made { .. } if probe.is_fast => whole(thread, HitKind::CallValues, FAST_MADE),
            Body::Made { .. } => whole(thread, HitKind::CallValues, prices.value),
            Body::HeldUp { waited_ns, own_ns, moved, slept } => {
                let held_up = held_up(waited_ns as f64, own_ns as f64, moved, slept);
                thread.hold_up(held_up);
                return self.held_up.add(1, held_up);
            }
            Body::Remote { .. } | Body::Endpoint { .. } => return,
            Body::Fork { .. } | Body::Thread { .. } | Body::Exec | Body::Exit { .. } => return,
        };
        self.sums.entry(kind).or_default().add(1, cost);
    }

    /// What watching cost around the call that a thread began then.
    pub fn take(&mut self, (pid, tid): (u32, u32), begin_ns: u64) -> CallCosts {
        let Some(thread) = self.threads.get_mut(&(pid, tid)) else { return CallCosts::default() };
        let mut skipped = Bounds::default();
        while let Some((began_ns, costs)) = thread.over.pop_front() {
            if began_ns == begin_ns {
                return CallCosts { between: costs.between + skipped, ..costs };
            }
            // Nobody was told of it: what it cost was before this one.
            skipped += costs.between + costs.inside();
        }
        CallCosts { between: skipped, ..CallCosts::default() }
    }

    /// What hits without a record cost a process from one time to another, if they were evenly spread.
    pub fn unrecorded(&self, pid: u32, from_ns: u64, to_ns: u64) -> Bounds {
        let Some(all) = self.unrecorded.get(&pid) else { return Bounds::default() };
        let prices = self.prices(pid);
        let first = all.partition_point(|hits| hits.to_ns <= from_ns);
        let within = all[first..].iter().take_while(|hits| hits.from_ns < to_ns);
        within.fold(Bounds::default(), |sum, hits| {
            let length_ns = hits.to_ns.saturating_sub(hits.from_ns).max(1) as f64;
            let common_ns = hits.to_ns.min(to_ns).saturating_sub(hits.from_ns.max(from_ns)) as f64;
            let lost = Bounds { least_ns: 0.0, ..prices.call.whole() };
            let cost = prices.declined.times(hits.declined as f64)
                + prices.refused.times(hits.refused as f64)
                + lost.times(hits.lost as f64);
            sum + cost.times(common_ns / length_ns)
        })
    }
}

/// How much earlier a thread would have gone on without dmscope, which ran for `own_ns` on the processor where the thread was
/// while that waited for `waited_ns`. What others ran meanwhile they would have run without dmscope as well, and might have shared
/// what it left. One that slept need not have waited just then; for one that moved, it may have run at its new place too.
fn held_up(waited_ns: f64, own_ns: f64, moved: bool, slept: bool) -> Bounds {
    let likely_ns = waited_ns.min(own_ns);
    let of_others_ns = waited_ns - likely_ns;
    let least_ns = if moved || slept { 0.0 } else { (likely_ns - of_others_ns).max(0.0) };
    Bounds { least_ns, likely_ns, most_ns: if moved { waited_ns } else { likely_ns } }
}

fn planned(probe: &Probe) -> PlannedProbe {
    let answers = probe.results.as_ref().is_some_and(|results| results.answer.is_some());
    let call = match probe.class {
        ProbeClass::Call => CallProbe::Entry,
        ProbeClass::CallResults if answers => CallProbe::Answer,
        ProbeClass::CallResults => CallProbe::Both,
        _ => CallProbe::No,
    };
    let is_told =
        calls::row(&probe.function).is_some() && calls::lifecycle(&probe.function) != Lifecycle::Init;
    let looks = BufferLook::of(probe.results.as_ref());
    PlannedProbe { call, is_told, is_fast: probe.place == ProbePlace::Slot, looks }
}

/// A hit that is over when the thread goes on.
fn of_node(prices: &[Prices], pid: u32) -> &Prices {
    prices.get(node_of(pid)).unwrap_or(&prices[0])
}

fn whole(thread: &mut ThreadLedger, kind: HitKind, cost: Bounds) -> (HitKind, Bounds) {
    thread.add(cost);
    (kind, cost)
}

/// A call begins. Gives back what its entry, and the return up to its record, cost.
fn begin(thread: &mut ThreadLedger, time_ns: u64, probe: PlannedProbe, prices: &Prices) -> Bounds {
    thread.close();
    let parts = match probe.call {
        CallProbe::Entry if probe.is_fast => PartedPrice { entry: FAST_CALL, ..PartedPrice::default() },
        CallProbe::Entry => prices.call,
        _ => prices.results,
    };
    thread.now.between += parts.before;
    let look = if probe.looks == BufferLook::Never { Bounds::default() } else { prices.value };
    match (probe.call, probe.looks) {
        // What is recorded of it is recorded at its return.
        (CallProbe::Answer, _) => thread.now.between += parts.entry + parts.exit + look,
        (_, BufferLook::AtEntry) => {
            thread.now.entry += parts.entry + look;
            thread.now.exit += parts.exit;
        }
        _ => {
            thread.now.entry += parts.entry;
            thread.now.exit += parts.exit + look;
        }
    }
    thread.begin_ns = Some(time_ns);
    thread.is_told = probe.is_told;
    parts.before + parts.entry + parts.exit + look
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_at_a_buffer_is_paid_where_it_is_taken() {
        let of = |buffers| BufferLook::of(Some(&Results { buffers, ..Results::default() }));
        let sent = SentBuffers::Sent { buffer: 0, count: 1, datatype: 2, request: 6 };
        assert_eq!(
            [None, Some(sent), Some(SentBuffers::Started), Some(SentBuffers::Complete)].map(of),
            [BufferLook::Never, BufferLook::AtReturn, BufferLook::AtEntry, BufferLook::AtEntry]
        );
        let prices = Prices::default();
        let costs = |call, looks| {
            let mut thread = ThreadLedger::default();
            let probe = PlannedProbe { call, looks, ..PlannedProbe::default() };
            let all = begin(&mut thread, 1, probe, &prices);
            [thread.now.between, thread.now.entry, thread.now.exit, all].map(|cost| cost.likely_ns)
        };
        let more = |call, looks| {
            let (without, with) = (costs(call, BufferLook::Never), costs(call, looks));
            [0, 1, 2, 3].map(|at| (with[at] - without[at]).round())
        };
        let look = prices.value.likely_ns.round();
        assert!(look > 0.0);
        assert_eq!(more(CallProbe::Both, BufferLook::AtEntry), [0.0, look, 0.0, look]);
        assert_eq!(more(CallProbe::Both, BufferLook::AtReturn), [0.0, 0.0, look, look]);
        assert_eq!(more(CallProbe::Answer, BufferLook::AtEntry), [look, 0.0, 0.0, look]);
    }

    #[test]
    fn a_thread_is_held_up_for_as_long_as_dmscope_ran_while_it_waited() {
        assert_eq!(held_up(5000.0, 5000.0, false, false), Bounds::exactly(5000.0));
        // Some of it while it did not wait.
        assert_eq!(held_up(5000.0, 9000.0, false, false), Bounds::exactly(5000.0));
        // For somebody else as well, who might have run first anyway.
        assert_eq!(held_up(5000.0, 3000.0, false, false), Bounds::of(1000.0, 3000.0, 3000.0));
        assert_eq!(held_up(5000.0, 1000.0, false, false), Bounds::of(0.0, 1000.0, 1000.0));
    }

    #[test]
    fn of_a_thread_that_slept_or_moved_less_is_known() {
        assert_eq!(held_up(5000.0, 6000.0, false, true), Bounds::of(0.0, 5000.0, 5000.0));
        assert_eq!(held_up(5000.0, 2000.0, true, false), Bounds::of(0.0, 2000.0, 5000.0));
    }
}
