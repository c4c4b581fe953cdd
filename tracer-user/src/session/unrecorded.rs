//! Hits that left no record, as inputs: for times without them.

use std::collections::BTreeMap;

use analyzer::input::UnrecordedHits;

use crate::kernel::{DrainBatch, SlotCounters};

/// How often it is told: each time ends a frame of the tape.
const PERIOD_NS: u64 = 500_000_000;

/// Remembers what was told before.
#[derive(Default)]
pub(super) struct UnrecordedTracker {
    /// By slot: what was told, when, and what the slot counts now.
    known: BTreeMap<u32, Told>,
}

#[derive(Clone, Copy, Default)]
struct Told {
    at_ns: u64,
    counters: SlotCounters,
    now: SlotCounters,
}

impl UnrecordedTracker {
    /// What is to be told after a batch. `sharers`: whose hits a slot counts; of several they are spread evenly.
    pub(super) fn of_batch(
        &mut self,
        batch: &DrainBatch,
        sharers: impl Fn(u32) -> Vec<u32>,
    ) -> Vec<UnrecordedHits> {
        for &(slot, counters) in &batch.counters {
            let first = Told { at_ns: batch.begin_ns, ..Told::default() };
            self.known.entry(slot).or_insert(first).now = counters;
        }
        self.tell(batch.end_ns, PERIOD_NS, sharers)
    }

    /// All that was not told yet.
    pub(super) fn rest(&mut self, now_ns: u64, sharers: impl Fn(u32) -> Vec<u32>) -> Vec<UnrecordedHits> {
        self.tell(now_ns, 0, sharers)
    }

    fn tell(
        &mut self,
        now_ns: u64,
        period_ns: u64,
        sharers: impl Fn(u32) -> Vec<u32>,
    ) -> Vec<UnrecordedHits> {
        let mut told = Vec::new();
        for (slot, known) in &mut self.known {
            let Told { at_ns, counters: before, now } = *known;
            if now_ns < at_ns.saturating_add(period_ns) {
                continue;
            }
            (known.at_ns, known.counters) = (now_ns, now);
            let pids = sharers(*slot);
            let share = |hits: u64| hits.div_ceil(pids.len().max(1) as u64);
            let lost = share(now.lost() - before.lost());
            let declined = share(now.declined - before.declined);
            let refused = share(now.refused - before.refused);
            if lost + declined + refused > 0 {
                let hits =
                    |&pid| UnrecordedHits { pid, from_ns: at_ns, to_ns: now_ns, lost, declined, refused };
                told.extend(pids.iter().map(hits));
            }
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(end_ns: u64, declined: u64) -> DrainBatch {
        let counters = SlotCounters { declined, ..SlotCounters::default() };
        DrainBatch { begin_ns: end_ns - 1, end_ns, counters: vec![(3, counters)], ..DrainBatch::default() }
    }

    #[test]
    fn hits_without_a_record_are_told_once_in_a_while_and_at_the_end() {
        let mut tracker = UnrecordedTracker::default();
        let owner = |slot| vec![slot + 100];
        assert_eq!(tracker.of_batch(&batch(1, 2), owner), []);
        let hits = UnrecordedHits { pid: 103, from_ns: 0, to_ns: PERIOD_NS, ..UnrecordedHits::default() };
        assert_eq!(tracker.of_batch(&batch(PERIOD_NS, 70), owner), [UnrecordedHits { declined: 70, ..hits }]);
        assert_eq!(tracker.of_batch(&batch(PERIOD_NS + 5, 71), owner), []);
        let rest = UnrecordedHits { from_ns: PERIOD_NS, to_ns: PERIOD_NS + 9, declined: 1, ..hits };
        assert_eq!(tracker.rest(PERIOD_NS + 9, owner), [rest]);
        assert_eq!(tracker.rest(PERIOD_NS + 10, owner), []);
    }
}
