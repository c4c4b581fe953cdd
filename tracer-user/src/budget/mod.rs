//! Keeping what watching costs the job below a budget: pure decisions.
//!
//! What a probe costs is known before ([`HitCosts`], calibrated on this machine), how often it is hit is counted.
//! Every process has an allowance ([`Governor`]) that grows with time, a share of it, and that hits use up. While
//! there is some left, everything is watched. When one process has used up its own, the [`bundles`] of the most expensive
//! probes ([`choose`]) are detached from all processes until the allowance is whole again. So a job that is quiet is
//! watched all the time, and one that moves millions of small messages in bursts, all of its processes at the same
//! time: within a burst chains are complete.

mod accounts;
mod bundles;
mod choice;
mod governor;
mod status;

use analyzer::plan::{Probe, ProbeClass, ProbePlace};
use analyzer::wire::kind;

pub use accounts::{HitAccounts, Unrecorded};
pub use bundles::{Bundle, bundles, links_by_file};
pub use choice::{Choice, ProbeUse, choose};
pub use governor::{Action, Governor};
pub use status::BudgetStatus;

/// Largest part of the job's time that watching may take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// 0.01: one percent.
    pub share: f64,
}

/// What one hit costs the process that makes it, ns of its time.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct HitCosts {
    /// A copy that leaves a record.
    pub copy_ns: f64,
    /// An MPI call that leaves a record.
    pub call_ns: f64,
    /// An allocation that leaves a record: entry and return.
    pub alloc_ns: f64,
    /// An allocation or release that is not worth a record.
    pub declined_ns: f64,
    /// A hit of a process that is not watched.
    pub stranger_ns: f64,
}

impl Default for HitCosts {
    /// Measured on a virtual machine; where calibration is not possible.
    fn default() -> Self {
        Self { copy_ns: 700.0, call_ns: 750.0, alloc_ns: 1100.0, declined_ns: 600.0, stranger_ns: 550.0 }
    }
}

impl HitCosts {
    /// Of a record that a hit leaves besides its own.
    pub fn record_ns(&self) -> f64 {
        (self.call_ns - self.declined_ns).max(0.0)
    }

    /// Of a system call that is seen: no trap, but a record, and a look at the job's memory that costs about as much.
    pub fn system_call_ns(&self) -> f64 {
        2.0 * self.record_ns()
    }

    /// Of a polling call that is followed to its return.
    pub fn refused_ns(&self) -> f64 {
        self.alloc_ns
    }

    /// What a record of a probe tells to have been spent: a hit is paid for once, with its return if the class has one.
    pub fn of_record(&self, class_ns: f64, record_kind: u16) -> f64 {
        match record_kind {
            kind::RETURN => 0.0,
            kind::VALUES | kind::MADE => self.record_ns(),
            _ => class_ns,
        }
    }

    /// Of one hit of this probe that leaves a record.
    pub fn of_probe(&self, probe: &Probe) -> f64 {
        /// Of a copy that is recorded without the kernel, with the cache lines of its record: it is much the same everywhere.
        const FAST_COPY_NS: f64 = 15.0;
        /// Of an MPI call, with all its arguments.
        const FAST_CALL_NS: f64 = 25.0;
        match (probe.place, probe.class) {
            (ProbePlace::Slot, ProbeClass::Call) => FAST_CALL_NS,
            (ProbePlace::Slot, _) => FAST_COPY_NS,
            _ => self.of(probe.class),
        }
    }

    /// Of one hit of a probe of a class that leaves a record.
    pub fn of(&self, class: ProbeClass) -> f64 {
        match class {
            ProbeClass::Copy | ProbeClass::Pack | ProbeClass::Unpack | ProbeClass::Free => self.copy_ns,
            // It leaves none by itself.
            ProbeClass::VerbsBuild => self.copy_ns,
            ProbeClass::Call | ProbeClass::PollSuccess | ProbeClass::VerbsQueue => self.call_ns,
            ProbeClass::Alloc | ProbeClass::PollReturn => self.alloc_ns,
            ProbeClass::Error | ProbeClass::VerbsPost | ProbeClass::VerbsPoll => self.alloc_ns,
            // A call, and a return like that of an allocation.
            ProbeClass::CallResults => self.call_ns + (self.alloc_ns - self.declined_ns).max(0.0),
        }
    }
}

/// By how much the job is held up by what one process has spent, and all of them together, ns.
///
/// While a rank is held up by a probe, another may wait for its message, and be held up by probes of its own when that
/// comes: of a ping-pong, both partners' costs are in the way of each message. So what a process spends counts twice
/// where there is more than one. Where processes share processors, every hit of one holds up the others there.
pub fn held_up_ns(own_ns: f64, all_ns: f64, processes: usize, cpus: usize) -> f64 {
    if processes > 1 { (2.0 * own_ns).max(all_ns / cpus.max(1) as f64) } else { own_ns }
}

/// Whether probes of a class can be out for a while. What a process's memory looks like must be known all the time, and
/// errors are rare.
pub fn can_pause(class: ProbeClass) -> bool {
    !is_of_heap(class) && class != ProbeClass::Error
}

/// Whether probes of a class watch the allocator.
pub fn is_of_heap(class: ProbeClass) -> bool {
    matches!(class, ProbeClass::Alloc | ProbeClass::Free)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hit_is_paid_for_once_however_many_records_it_leaves() {
        let costs = HitCosts::default();
        let call_ns = costs.of(ProbeClass::CallResults);
        let spent = |kinds: &[u16]| kinds.iter().map(|kind| costs.of_record(call_ns, *kind)).sum::<f64>();
        assert_eq!(spent(&[kind::CALL, kind::RETURN]), call_ns);
        assert_eq!(spent(&[kind::CALL, kind::VALUES, kind::RETURN]), call_ns + costs.record_ns());
        assert!(costs.record_ns() < costs.copy_ns / 2.0);
    }

    #[test]
    fn hits_count_for_all_that_they_hold_up() {
        assert_eq!(held_up_ns(5.0, 5.0, 1, 1), 5.0);
        // Partners on processors of their own; four ranks, and one of 64 alone, that share them.
        assert_eq!(held_up_ns(5.0, 10.0, 2, 64), 10.0);
        assert_eq!(held_up_ns(5.0, 20.0, 4, 1), 20.0);
        assert_eq!(held_up_ns(5.0, 5.0, 64, 2), 10.0);
        assert_eq!(held_up_ns(0.0, 20.0, 4, 0), 20.0);
    }
}
