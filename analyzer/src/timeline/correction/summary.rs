//! What the calls add up to: by rank, by function, in all.

use rustc_hash::FxHashMap;
use serde::Serialize;

use super::bounds::Bounds;
use super::solver::SolvedCall;
use super::waits::Moment;

/// Time as it was, and as it would have been.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ComparedTime {
    /// As measured.
    pub measured_ns: u64,
    /// Without watching.
    pub corrected: Bounds,
}

impl ComparedTime {
    /// Adds what is between two moments of a thread.
    pub(super) fn add(&mut self, from: Moment, to: Moment) {
        let measured_ns = to.at_ns.saturating_sub(from.at_ns);
        self.measured_ns += measured_ns;
        self.corrected += Bounds::duration(measured_ns as f64, from.shift, to.shift);
    }
}

/// A rank.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RankTimes {
    /// In MPI_COMM_WORLD.
    pub rank: u32,
    /// MPI calls.
    pub calls: u64,
    /// From its first call to the end of its last.
    #[serde(flatten)]
    pub time: ComparedTime,
    /// Of that, in MPI calls.
    pub in_calls: ComparedTime,
    /// What watching it cost the rank, also while it waited.
    pub cost: Bounds,
    /// Threads of it that made calls.
    pub threads: u32,
}

/// A function of MPI.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FunctionTimes {
    /// Its name; none: outside of MPI.
    pub function: Option<&'static str>,
    /// How often it was called.
    pub calls: u64,
    /// All of that.
    #[serde(flatten)]
    pub time: ComparedTime,
    /// What watching cost there.
    pub cost: Bounds,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    first: Moment,
    last: Moment,
}

impl Span {
    fn time(&self) -> ComparedTime {
        let mut time = ComparedTime::default();
        time.add(self.first, self.last);
        time
    }
}

/// Adds up.
#[derive(Debug, Default)]
pub struct TimesSummary {
    ranks: FxHashMap<u32, RankTimes>,
    /// By rank and thread.
    spans: FxHashMap<(u32, u32), Span>,
    functions: FxHashMap<&'static str, FunctionTimes>,
    outside: Option<FunctionTimes>,
    /// Calls of which it is not known what they waited for.
    pub open_calls: u64,
    /// Calls that were not seen to return.
    pub without_end: u64,
    /// Calls.
    pub calls: u64,
}

impl TimesSummary {
    /// Adds a call.
    pub fn add(&mut self, call: &SolvedCall) {
        let SolvedCall { step, begin, end, before, .. } = call;
        self.calls += 1;
        self.open_calls += u64::from(call.is_open);
        self.without_end += u64::from(step.end_ns.is_none());
        let mut is_new = false;
        let span = self.spans.entry((step.id.rank, step.id.tid)).or_insert_with(|| {
            is_new = true;
            Span { first: *begin, last: *end }
        });
        span.last = *end;
        let rank = self.ranks.entry(step.id.rank).or_default();
        (rank.rank, rank.threads) = (step.id.rank, rank.threads + u32::from(is_new));
        rank.calls += 1;
        rank.in_calls.add(*begin, *end);
        let between = if is_new { Bounds::default() } else { step.costs.between };
        rank.cost += between + step.costs.inside();
        let function = self.functions.entry(step.name).or_default();
        (function.function, function.calls) = (Some(step.name), function.calls + 1);
        function.time.add(*begin, *end);
        function.cost += step.costs.inside();
        if let Some(before) = before {
            let outside = self.outside.get_or_insert_default();
            outside.time.add(*before, *begin);
            outside.cost += between;
        }
    }

    /// Ranks, in order; of one with several threads, the longest counts.
    pub fn ranks(&self) -> Vec<RankTimes> {
        let mut longest: FxHashMap<u32, ComparedTime> = FxHashMap::default();
        for ((rank, _), span) in &self.spans {
            let (time, longest) = (span.time(), longest.entry(*rank).or_default());
            if time.measured_ns >= longest.measured_ns {
                *longest = time;
            }
        }
        let time = |rank: u32| longest.get(&rank).copied().unwrap_or_default();
        let ranks = self.ranks.values().map(|rank| RankTimes { time: time(rank.rank), ..rank.clone() });
        let mut ranks: Vec<RankTimes> = ranks.collect();
        ranks.sort_by_key(|rank| rank.rank);
        ranks
    }

    /// Functions, what took longest first; what is outside of MPI is among them.
    pub fn functions(&self) -> Vec<FunctionTimes> {
        let mut functions: Vec<FunctionTimes> =
            self.functions.values().chain(&self.outside).cloned().collect();
        functions.sort_by_key(|function| (std::cmp::Reverse(function.time.measured_ns), function.function));
        functions
    }

    /// From the first call of all to the end of the last one.
    pub fn total(&self) -> ComparedTime {
        let first = self.spans.values().map(|span| span.first).min_by_key(|moment| moment.at_ns);
        let Some(first) = first else { return ComparedTime::default() };
        let last = self.spans.values().map(|span| span.last.at_ns).max().unwrap_or(first.at_ns);
        // Without watching another may be the last.
        let ends = self.spans.values().map(|span| {
            let measured_ns = span.last.at_ns.saturating_sub(first.at_ns) as f64;
            Bounds::exactly(measured_ns) + span.last.shift
        });
        let corrected = ends.reduce(Bounds::max).unwrap_or_default();
        ComparedTime { measured_ns: last.saturating_sub(first.at_ns), corrected }
    }
}
