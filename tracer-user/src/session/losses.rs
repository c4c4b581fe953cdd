//! What rings had no room for, as inputs.

use std::collections::HashMap;

use analyzer::input::Loss;

use crate::kernel::DrainBatch;
use crate::kernel::SlotCounters;

/// Remembers what was lost before.
pub(super) struct LossTracker {
    known: HashMap<u32, SlotCounters>,
    /// End of the last batch, CLOCK_MONOTONIC.
    last_ns: u64,
}

impl LossTracker {
    /// Nothing was lost before `now_ns`.
    pub(super) fn new(now_ns: u64) -> Self {
        Self { known: HashMap::new(), last_ns: now_ns }
    }

    /// What was lost since the batch before this one. It comes ahead of the batch's records: it was lost before these.
    /// `sharers`: whose losses a slot counts. Of several it is not known whose they were: they are spread evenly,
    /// rounded up, so that nobody counts as complete and the sum is never less than what is missing.
    pub(super) fn of_batch(&mut self, batch: &DrainBatch, sharers: impl Fn(u32) -> Vec<u32>) -> Vec<Loss> {
        let from_ns = std::mem::replace(&mut self.last_ns, batch.end_ns);
        let mut losses = Vec::new();
        for &(slot, counters) in &batch.counters {
            let before = self.known.insert(slot, counters).unwrap_or_default();
            let movements = counters.lost_movements - before.lost_movements;
            let calls = counters.lost_calls - before.lost_calls;
            let state = counters.lost_state - before.lost_state;
            if movements + calls + state == 0 {
                continue;
            }
            let pids = sharers(slot);
            let [movements, calls, state] =
                [movements, calls, state].map(|lost| lost.div_ceil(pids.len().max(1) as u64));
            let loss = |pid| Loss { pid, from_ns, to_ns: batch.end_ns, movements, calls, state };
            losses.extend(pids.into_iter().map(loss));
        }
        losses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(end_ns: u64, lost_movements: u64, lost_state: u64) -> DrainBatch {
        let counters = SlotCounters { lost_movements, lost_state, ..SlotCounters::default() };
        DrainBatch { begin_ns: end_ns - 1, end_ns, counters: vec![(3, counters)], ..DrainBatch::default() }
    }

    #[test]
    fn what_was_lost_is_told_once_with_the_time_in_which_it_was_lost() {
        let mut losses = LossTracker::new(5);
        let owner = |slot| vec![slot + 100];
        assert_eq!(losses.of_batch(&batch(10, 0, 0), owner), []);
        let first = Loss { pid: 103, from_ns: 10, to_ns: 20, movements: 2, calls: 0, state: 1 };
        assert_eq!(losses.of_batch(&batch(20, 2, 1), owner), [first]);
        assert_eq!(losses.of_batch(&batch(30, 2, 1), owner), []);
        let second = Loss { pid: 103, from_ns: 30, to_ns: 40, movements: 0, calls: 0, state: 4 };
        assert_eq!(losses.of_batch(&batch(40, 2, 5), owner), [second]);
    }

    #[test]
    fn losses_of_a_shared_ring_make_everybody_incomplete_who_shares_it() {
        let mut losses = LossTracker::new(5);
        let lost = losses.of_batch(&batch(10, 4, 1), |_| vec![7, 8, 9]);
        let told: Vec<_> = lost.iter().map(|loss| (loss.pid, loss.movements, loss.state)).collect();
        assert_eq!(told, [(7, 2, 1), (8, 2, 1), (9, 2, 1)]);
    }
}
