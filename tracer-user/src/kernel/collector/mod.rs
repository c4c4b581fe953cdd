//! From rings to the session: one thread that only copies.
//!
//! It looks at all rings, again and again (every millisecond while one fills quickly, less often
//! otherwise: a look may take a core away from a rank, and its peers wait for that rank), and hands
//! over what it found as a [`DrainBatch`]. A ring is full in less time than the scheduler may make a thread wait beside
//! ranks that poll, so it asks for short slices. It never waits for the session: when too much is under way, it leaves records in their rings; a full ring drops
//! new records, and the kernel part counts them. So back-pressure ends in counted loss, never
//! in a blocked job.

pub(super) mod reader;
mod spare_room;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use analyzer::wire::RawRecord;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};

use crate::host::clock::monotonic_ns;
use crate::host::placement;
use crate::kernel::fast::{FastReaders, FastRing};
use crate::kernel::rings::{Counters, KernelRing, SlotCounters};
use reader::RingReader;
use spare_room::SpareRoom;

/// Records that may wait for the session, all rings together.
const MAX_WAITING_RECORDS: usize = 1 << 20;
/// While a ring fills quickly.
const BUSY_PAUSE: Duration = Duration::from_millis(1);
/// While records come, but few.
const CALM_PAUSE: Duration = Duration::from_millis(8);
const IDLE_PAUSE: Duration = Duration::from_millis(20);
/// The longest where threads record without the kernel: they fill a ring in some ten milliseconds.
const FAST_PAUSE: Duration = Duration::from_millis(4);
/// So many empty batches are passed on after one that was not, so that its records can be put in order; then only some are.
const TOLD_EMPTY_DRAINS: u32 = 4;
const EMPTY_DRAIN_PERIOD: Duration = Duration::from_millis(50);

/// What was found when all rings were drained once.
#[derive(Default)]
pub struct DrainBatch {
    /// CLOCK_MONOTONIC before the first ring was drained: every older record is in this batch or an earlier one.
    pub begin_ns: u64,
    /// CLOCK_MONOTONIC after the last one.
    pub end_ns: u64,
    /// Records by slot, in the order of their ring.
    pub records: Vec<(u32, Vec<RawRecord>)>,
    /// Counters by slot, read after the rings: what was lost before any of these records is in them.
    pub counters: Vec<(u32, SlotCounters)>,
    /// Bytes that are no record of this version.
    pub unreadable: u64,
}

/// The reading thread has ended by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the thread that reads the rings has failed: nothing is recorded any more")]
pub struct ReaderFailed;

/// The reading thread.
pub struct Collector {
    batches: Receiver<DrainBatch>,
    new_rings: Sender<NewRing>,
    spares: Arc<SpareRoom>,
    waiting: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Collector {
    /// Starts the thread on the given CPUs (empty: wherever the scheduler likes).
    ///
    /// # Errors
    /// No thread to be had.
    pub fn start(counters: Arc<Counters>, cpus: Vec<u32>) -> std::io::Result<Self> {
        let (batch_sender, batches) = unbounded();
        let (new_rings, ring_receiver) = unbounded();
        let spares = Arc::new(SpareRoom::new());
        let waiting = Arc::new(AtomicUsize::new(0));
        let stop = Arc::new(AtomicBool::new(false));
        let link = Link {
            batches: batch_sender,
            new_rings: ring_receiver,
            spares: Arc::clone(&spares),
            waiting: Arc::clone(&waiting),
            stop: Arc::clone(&stop),
            counters,
        };
        let thread = std::thread::Builder::new().name("dms-rings".into()).spawn(move || {
            placement::stay_on(&cpus);
            placement::run_early();
            Worker { link, readers: Vec::new(), unread: Vec::new(), fast: FastReaders::new() }.run();
        })?;
        Ok(Self { batches, new_rings, spares, waiting, stop, thread: Some(thread) })
    }

    /// Reads this ring too, from now on.
    pub fn add(&self, ring: KernelRing) {
        // The thread ends only with self.
        let _ = self.new_rings.send(NewRing::Kernel(ring));
    }

    /// The same of a process that records by itself.
    pub fn add_fast(&self, ring: FastRing) {
        let _ = self.new_rings.send(NewRing::Fast(Box::new(ring)));
    }

    /// Much is about to come: the thread, which may be taking its time, looks at all rings now.
    pub fn look_now(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }

    /// The next batch, if one comes in time.
    ///
    /// # Errors
    /// The thread has ended: nothing comes any more.
    pub fn next(&self, timeout: Duration) -> Result<Option<DrainBatch>, ReaderFailed> {
        let batch = match self.batches.recv_timeout(timeout) {
            Ok(batch) => batch,
            Err(RecvTimeoutError::Timeout) => return Ok(None),
            Err(RecvTimeoutError::Disconnected) => return Err(ReaderFailed),
        };
        self.waiting.fetch_sub(batch.record_count(), Ordering::Relaxed);
        Ok(Some(batch))
    }

    /// Room that a batch's records had: the next ones find a place without asking for memory.
    pub fn give_back(&self, records: Vec<RawRecord>) {
        self.spares.give(records);
    }

    /// Drains the rings a last time, ends the thread, and gives what is left.
    pub fn finish(&mut self) -> Vec<DrainBatch> {
        self.stop.store(true, Ordering::Release);
        let mut rest = Vec::new();
        while let Ok(batch) = self.batches.recv() {
            self.waiting.fetch_sub(batch.record_count(), Ordering::Relaxed);
            rest.push(batch);
        }
        self.join();
        rest
    }

    fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.join();
    }
}

impl DrainBatch {
    fn record_count(&self) -> usize {
        self.records.iter().map(|(_, records)| records.len()).sum()
    }
}

/// A ring that is to be read as well.
enum NewRing {
    Kernel(KernelRing),
    Fast(Box<FastRing>),
}

/// What the thread shares with the rest.
struct Link {
    batches: Sender<DrainBatch>,
    new_rings: Receiver<NewRing>,
    spares: Arc<SpareRoom>,
    waiting: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    counters: Arc<Counters>,
}

struct Worker {
    link: Link,
    readers: Vec<RingReader>,
    unread: Vec<UnreadRing>,
    fast: FastReaders,
}

/// A ring that could not be mapped. Until it is full, the kernel part takes what nobody reads for recorded.
struct UnreadRing {
    slot: u32,
    /// How often it could not be looked at.
    looks: u64,
}

impl UnreadRing {
    /// Whatever was written since the last look is lost; how much it was is not known.
    fn look(&mut self, counted: SlotCounters) -> (u32, SlotCounters) {
        self.looks += 1;
        let lost = |counted| counted + self.looks;
        let counters = SlotCounters {
            lost_movements: lost(counted.lost_movements),
            lost_calls: lost(counted.lost_calls),
            lost_state: lost(counted.lost_state),
            ..counted
        };
        (self.slot, counters)
    }
}

impl Worker {
    fn run(mut self) {
        let mut pause = BUSY_PAUSE;
        let (mut empty_drains, mut told) = (0, Instant::now());
        loop {
            let last = self.link.stop.load(Ordering::Acquire);
            self.take_new_rings();
            self.fast.renew();
            let mut fills = false;
            let began = Instant::now();
            let found = if last || self.link.waiting.load(Ordering::Relaxed) < MAX_WAITING_RECORDS {
                let batch;
                (batch, fills) = self.drain();
                let found = batch.record_count();
                empty_drains = if found > 0 || batch.unreadable > 0 { 0 } else { empty_drains + 1 };
                if last || empty_drains <= TOLD_EMPTY_DRAINS || told.elapsed() >= EMPTY_DRAIN_PERIOD {
                    told = Instant::now();
                    self.link.waiting.fetch_add(found, Ordering::Relaxed);
                    if self.link.batches.send(batch).is_err() {
                        return;
                    }
                }
                found
            } else {
                0
            };
            if last {
                return;
            }
            pause = match found {
                0 => (pause * 2).min(IDLE_PAUSE),
                _ if fills => BUSY_PAUSE,
                _ => (pause * 2).min(CALM_PAUSE),
            };
            pause = pause.min(if self.fast.is_empty() { IDLE_PAUSE } else { FAST_PAUSE });
            // It is served early, and takes at most half of a processor.
            let rest = pause.max(began.elapsed());
            let rests = Instant::now();
            std::thread::park_timeout(rest);
            if rests.elapsed() < rest {
                pause = BUSY_PAUSE;
            }
        }
    }

    fn take_new_rings(&mut self) {
        while let Ok(ring) = self.link.new_rings.try_recv() {
            self.add(ring);
        }
    }

    fn add(&mut self, ring: NewRing) {
        match ring {
            NewRing::Fast(ring) => self.fast.add(*ring),
            NewRing::Kernel(ring) => {
                let slot = ring.slot;
                match RingReader::new(ring) {
                    Ok(reader) => self.readers.push(reader),
                    Err(_) => self.unread.push(UnreadRing { slot, looks: 0 }),
                }
            }
        }
    }

    /// What is in the rings, and whether one of them fills quickly.
    fn drain(&mut self) -> (DrainBatch, bool) {
        let begin_ns = monotonic_ns();
        // One that is told of before then and not read in this pass would have older records in the next one.
        self.take_new_rings();
        let mut unreadable = 0;
        let mut records = Vec::new();
        let mut fills = false;
        for reader in &mut self.readers {
            let (found, bad) = reader.take(|| self.link.spares.take());
            unreadable += bad;
            if let Some(found) = found {
                fills |= found.len() > reader.few_records();
                records.push((reader.slot(), found));
            }
        }
        let spare = || self.link.spares.take();
        fills |= self.fast.drain(&mut records, spare);
        let Self { link, readers, unread, fast } = self;
        let lost = fast.lost();
        let counted = |slot| {
            let kernel = link.counters.read(slot);
            let fast = lost.get(&slot).copied().unwrap_or_default();
            SlotCounters {
                lost_movements: kernel.lost_movements + fast.movements,
                lost_calls: kernel.lost_calls + fast.calls,
                ..kernel
            }
        };
        let mut counters: Vec<_> = readers.iter().map(|r| (r.slot(), counted(r.slot()))).collect();
        counters.extend(unread.iter_mut().map(|ring| ring.look(counted(ring.slot))));
        (DrainBatch { begin_ns, end_ns: monotonic_ns(), records, counters, unreadable }, fills)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_to_a_ring_that_nobody_reads_is_lost_at_every_look() {
        let mut ring = UnreadRing { slot: 3, looks: 0 };
        let counted = SlotCounters { lost_movements: 5, declined: 7, ..SlotCounters::default() };
        let mut look = || ring.look(counted).1;
        let (first, second) = (look(), look());
        let told = |c: SlotCounters| (c.lost_movements, c.lost_calls, c.lost_state, c.declined);
        assert_eq!((told(first), told(second)), ((6, 1, 1, 7), (7, 2, 2, 7)));
    }
}
