//! What watching costs the job, measured on its machine: for whoever takes that out of its times again.

use serde::{Deserialize, Serialize};

/// What hits of probes cost, measured with functions of dmscope's own at a moment of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeCosts {
    /// The node, among those of a job on several.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub node: u32,
    /// CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// CPUs that the job may use; 0: not known.
    #[serde(default)]
    pub job_cpus: u32,
    /// What is known of the processor time that dmscope takes from ranks.
    #[serde(default, skip_serializing_if = "OwnTime::is_unknown")]
    pub own_time: OwnTime,
    /// Each kind of hit, in each state of the cache that was tried.
    pub hits: Vec<HitPrice>,
    /// The kernel's own accounts of the BPF programs since they were loaded, where it keeps them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub program_runs: Vec<ProgramRuns>,
}

/// Processor time of dmscope itself, where a job could have used it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OwnTime {
    /// Nothing is known of it.
    #[default]
    Unknown,
    /// Each rank's record tells when it was held up.
    Recorded,
    /// dmscope has processors of its own.
    Apart,
}

impl OwnTime {
    /// Whether nothing is known.
    pub fn is_unknown(&self) -> bool {
        *self == Self::Unknown
    }
}

/// What one kind of hit costs the thread that makes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HitPrice {
    /// What was hit.
    pub kind: HitKind,
    /// So much of its own data the thread worked through between two hits.
    pub between_bytes: u32,
    /// So many were measured.
    pub hits: u32,
    /// Up to the time that the first record says, ns.
    pub before: Quantiles,
    /// From there to the time that the last one says; without a second record nothing.
    pub inside: Quantiles,
    /// From there until the thread goes on. Of a hit that leaves no record this is all of it.
    pub after: Quantiles,
}

/// How a cost is distributed, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quantiles {
    /// One of twenty is less.
    pub p5: u32,
    /// A quarter is less.
    pub p25: u32,
    /// Half is less.
    pub p50: u32,
    /// A quarter is more.
    pub p75: u32,
    /// One of twenty is more.
    pub p95: u32,
}

impl Quantiles {
    /// Of measured values, in any order.
    pub fn of(mut values: Vec<u32>) -> Self {
        values.sort_unstable();
        let at = |percent: usize| {
            let last = values.len().saturating_sub(1);
            values.get(last * percent / 100).copied().unwrap_or(0)
        };
        Self { p5: at(5), p25: at(25), p50: at(50), p75: at(75), p95: at(95) }
    }
}

/// A kind of hit, by what it costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HitKind {
    /// A copy that leaves a record.
    Copy,
    /// The entry of an MPI call.
    Call,
    /// Entry and return of an MPI call whose results are recorded.
    CallResults,
    /// The same, with one record of what an argument points to at the return.
    CallValues,
    /// An allocation that leaves a record: entry and return.
    Alloc,
    /// One that does not.
    Declined,
    /// A polling call that is followed to its return, and says no: it leaves no record.
    Refused,
}

/// Runs of one BPF program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramRuns {
    /// Its name.
    pub program: String,
    /// How often it ran.
    pub runs: u64,
    /// How long in all, without the trap.
    pub run_ns: u64,
}

/// Hits of a process that left no record, of a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnrecordedHits {
    /// The process.
    pub pid: u32,
    /// They were made after this, CLOCK_MONOTONIC …
    pub from_ns: u64,
    /// … and before this.
    pub to_ns: u64,
    /// Records that found no room.
    pub lost: u64,
    /// Allocations and releases that were not worth a record.
    pub declined: u64,
    /// Polling calls that were followed to their return, and said no.
    pub refused: u64,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_values_in_any_order() {
        let values = (0..=100).rev().collect();
        assert_eq!(Quantiles::of(values), Quantiles { p5: 5, p25: 25, p50: 50, p75: 75, p95: 95 });
        assert_eq!(Quantiles::of(Vec::new()), Quantiles::default());
        assert_eq!(Quantiles::of(vec![7]), Quantiles { p5: 7, p25: 7, p50: 7, p75: 7, p95: 7 });
    }
}
