//! Reading the rings of processes that record by themselves.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use analyzer::wire::RawRecord;
use injector::{CounterClock, CounterPair, RecordLosses, RecordedPart, SharedRings, counter};

use super::decoder::CallDecoder;

/// A ring that is found filled up to no more than this part can wait longer for the next time.
const FEW: u64 = 64;
/// A process stops recording when nobody has looked for so long: we may be dead.
const TRUST: Duration = Duration::from_secs(2);
const RENEWAL: Duration = Duration::from_millis(50);

/// The rings of one process, not yet read by anyone.
#[derive(Debug)]
pub struct FastRing {
    /// Whose losses they count as, and where its other records come from.
    pub(super) slot: u32,
    pub(super) shared: SharedRings,
    pub(super) decoder: CallDecoder,
    /// Until when its process was told to record; 0: it was not.
    pub(super) until: u64,
    /// Nothing comes any more once what is there was read.
    pub(super) is_closed: Arc<AtomicBool>,
}

/// All of them.
pub(in crate::kernel) struct FastReaders {
    rings: Vec<OpenRing>,
    clock: Option<CounterClock>,
    renewed: Option<Instant>,
    /// Lost before a ring was closed, by slot.
    lost_before: BTreeMap<u32, RecordLosses>,
}

struct OpenRing {
    ring: FastRing,
    /// Until when its process was told to record.
    until: u64,
    /// It was found to have stopped recording in between.
    gaps: u64,
}

impl FastReaders {
    pub fn new() -> Self {
        Self { rings: Vec::new(), clock: None, renewed: None, lost_before: BTreeMap::new() }
    }

    pub fn add(&mut self, ring: FastRing) {
        self.clock.get_or_insert_with(CounterClock::begin);
        self.rings.push(OpenRing { until: ring.until, ring, gaps: 0 });
        self.renewed = None;
    }

    /// Nobody records without the kernel.
    pub fn is_empty(&self) -> bool {
        self.rings.is_empty()
    }

    /// Tells all processes that somebody reads. One that had stopped meanwhile has lost something.
    pub fn renew(&mut self) {
        let Some(clock) = &self.clock else { return };
        if self.renewed.is_some_and(|renewed| renewed.elapsed() < RENEWAL) {
            return;
        }
        self.renewed = Some(Instant::now());
        let until = counter().saturating_add(clock.steps(TRUST));
        for open in &mut self.rings {
            let switch = open.ring.shared.switch();
            let is_off = switch.is_off(RecordedPart::Copies) && switch.is_off(RecordedPart::Calls);
            let has_stopped = open.until != 0 && counter() > open.until && !is_off;
            open.gaps += u64::from(has_stopped);
            open.until = if is_off { 0 } else { until };
            switch.record_until(until);
        }
    }

    /// What is in all rings, by slot; and whether one of them fills quickly.
    pub fn drain(
        &mut self,
        records: &mut Vec<(u32, Vec<RawRecord>)>,
        mut spare: impl FnMut() -> Vec<RawRecord>,
    ) -> bool {
        let Some(clock) = &mut self.clock else { return false };
        let mut fills = false;
        // Before: what comes after the look is not to be missed.
        let closed: Vec<bool> =
            self.rings.iter().map(|open| open.ring.is_closed.load(Ordering::Acquire)).collect();
        for OpenRing { ring, .. } in &mut self.rings {
            let decoder = &ring.decoder;
            let begin = || {
                clock.advance(CounterPair::read());
                (*clock, spare())
            };
            let drained =
                ring.shared.drain(begin, |(clock, decoded), call| decoder.decode(call, clock, decoded));
            let Some((drained, (_, decoded))) = drained else { continue };
            fills |= drained.fullest > ring.shared.ring_records() / FEW;
            if !decoded.is_empty() {
                records.push((ring.slot, decoded));
            }
        }
        self.close(&closed);
        fills
    }

    /// Forgets those from which nothing comes any more.
    fn close(&mut self, closed: &[bool]) {
        let mut is_closed = closed.iter().copied();
        for mut open in self.rings.extract_if(.., |_| is_closed.next().unwrap_or(false)) {
            self.lost_before.entry(open.ring.slot).or_default().add(open.lost());
        }
    }

    /// What was lost so far, by slot.
    pub fn lost(&mut self) -> BTreeMap<u32, RecordLosses> {
        let mut lost = self.lost_before.clone();
        for open in &mut self.rings {
            lost.entry(open.ring.slot).or_default().add(open.lost());
        }
        lost
    }
}

impl OpenRing {
    fn lost(&mut self) -> RecordLosses {
        let mut lost = self.ring.shared.lost();
        lost.calls = lost.calls.saturating_add(self.gaps);
        lost
    }
}
