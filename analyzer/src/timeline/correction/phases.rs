//! Times by phase: what each rank does from one collective call of all ranks to the next, or from one call of a function to the
//! next.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Serialize;

use super::bounds::Bounds;
use super::call_step::TimedCall;
use super::solver::SolvedCall;
use super::summary::ComparedTime;
use super::waits::Moment;
use crate::tape::input::CodePlace;

/// Which calls begin a phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PhaseMark {
    /// Collective calls of all ranks.
    Collectives,
    /// Calls of this function.
    Function(String),
}

impl PhaseMark {
    fn is_at(&self, call: &TimedCall, ranks: usize) -> bool {
        match self {
            Self::Collectives => call.entered.iter().any(|entered| entered.members as usize == ranks),
            Self::Function(name) => call.name == name,
        }
    }
}

/// The call that begins a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct PhaseBegin {
    /// Its function.
    pub function: &'static str,
    /// Where it is made, if that is known.
    pub place: Option<CodePlace>,
}

/// A phase.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PhaseTimes {
    /// Where it begins; none: with a rank's first call.
    pub begin: Option<PhaseBegin>,
    /// What it takes each rank, in order.
    pub ranks: Vec<PhaseOfRank>,
}

impl PhaseTimes {
    /// The rank that it takes longest.
    pub fn longest(&self) -> Option<&PhaseOfRank> {
        self.ranks.iter().max_by_key(|rank| (rank.time.measured_ns, Reverse(rank.rank)))
    }
}

/// What a phase takes a rank: of one with several threads, the one that was seen first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PhaseOfRank {
    /// In MPI_COMM_WORLD.
    pub rank: u32,
    /// How often it is in it.
    pub times: u64,
    /// All of that.
    #[serde(flatten)]
    pub time: ComparedTime,
    /// What watching cost it there, also while it waited.
    pub cost: Bounds,
}

/// The phase that a rank is in.
#[derive(Clone, Copy, Debug)]
struct PhaseUnderWay {
    tid: u32,
    begin: Option<PhaseBegin>,
    first: Moment,
    last: Moment,
    cost: Bounds,
}

/// See the [module](self).
#[derive(Debug)]
pub struct PhaseAnalysis {
    mark: PhaseMark,
    ranks: usize,
    under_way: BTreeMap<u32, PhaseUnderWay>,
    sums: BTreeMap<Option<PhaseBegin>, BTreeMap<u32, PhaseOfRank>>,
}

impl PhaseAnalysis {
    /// For a job of so many ranks.
    pub fn new(mark: PhaseMark, ranks: usize) -> Self {
        Self { mark, ranks, under_way: BTreeMap::new(), sums: BTreeMap::new() }
    }

    /// Takes the next call of a thread.
    pub fn add(&mut self, call: &SolvedCall) {
        let SolvedCall { step, begin, end, before, .. } = call;
        let (rank, tid) = (step.id.rank, step.id.tid);
        let phase = |begins| PhaseUnderWay {
            tid,
            begin: begins,
            first: *begin,
            last: *begin,
            cost: Bounds::default(),
        };
        let current = self.under_way.entry(rank).or_insert_with(|| phase(None));
        if current.tid != tid {
            return;
        }
        if before.is_some() {
            current.cost += step.costs.between;
        }
        if self.mark.is_at(step, self.ranks) {
            current.last = *begin;
            let next = phase(Some(PhaseBegin { function: step.name, place: step.place }));
            let over = std::mem::replace(current, next);
            sum_up(&mut self.sums, rank, &over);
        }
        current.cost += step.costs.inside();
        current.last = *end;
    }

    /// All phases, what takes its rank longest first; when all calls were added.
    pub fn finish(&mut self) -> Vec<PhaseTimes> {
        for (rank, last) in std::mem::take(&mut self.under_way) {
            sum_up(&mut self.sums, rank, &last);
        }
        let phases = std::mem::take(&mut self.sums).into_iter();
        let phases = phases.map(|(begin, ranks)| PhaseTimes { begin, ranks: ranks.into_values().collect() });
        let mut phases: Vec<PhaseTimes> = phases.collect();
        phases.sort_by_key(|phase| (Reverse(phase.longest().map(|rank| rank.time.measured_ns)), phase.begin));
        phases
    }
}

fn sum_up(
    sums: &mut BTreeMap<Option<PhaseBegin>, BTreeMap<u32, PhaseOfRank>>,
    rank: u32,
    over: &PhaseUnderWay,
) {
    // A rank whose first call begins a phase was in none before.
    if over.begin.is_none() && over.first == over.last {
        return;
    }
    let sum = sums.entry(over.begin).or_default().entry(rank).or_default();
    (sum.rank, sum.times) = (rank, sum.times + 1);
    sum.time.add(over.first, over.last);
    sum.cost += over.cost;
}
