//! Puts the records of many rings into one order.
//!
//! # Contract
//!
//! **Order.** Records are given out by (time, ring, position in the ring). Times never go
//! backwards, except for records given out as [`Input::LateRecord`]. Within a ring records
//! may be out of time order (threads on several CPUs write to it); they are sorted too.
//!
//! **Bound on lateness.** A record is held until the clock given to [`Sequencer::advance`] is
//! `lateness_bound_ns` past the record's time. As long as each record is pushed before
//! that, the output is the same however the pushes of different rings are interleaved,
//! and wherever calls of `advance` fall between them.
//!
//! **Late records.** A record pushed when a later one has already been given out is
//! given out at the next `advance`, ahead of everything else, as [`Input::LateRecord`], and
//! is counted. Nothing is ever dropped.
//!
//! **Streams.** What is received over TCP comes after what was sent, whose record may have a later time: it gets that of
//! the receive (see `causal_order`). Records wait for that for a tenth of a second at most, beyond the bound on lateness.
//!
//! **Queue pairs.** Behind records of RDMA verbs come those of what they move, which are made here (see `verbs`).
//!
//! **Memory.** What is held is bounded: the records of `lateness_bound_ns`, and at most
//! `max_held_records` after each `advance`, which gives out the oldest records early when
//! there are more. Records that come after that may be late, and then say so, but none is
//! lost: letting a ring fill up would lose them in the kernel. So the caller drains some
//! rings (a bounded batch), calls `advance`, and so on; [`Sequencer::is_full`] says when
//! a batch has become large enough.
//!
//! **Clock.** The sequencer has none. A clock that goes backwards is ignored.

use std::collections::VecDeque;

use super::causal_order::{CausalOrder, DEFAULT_MOST_WAIT_NS};
use super::input::Input;
use super::verbs::{QueuePairs, RdmaAddress, is_of_verbs};
use super::wire::{RawRecord, kind};

/// How long records are held by default: longer than a ring thread sleeps between two looks.
pub const DEFAULT_LATENESS_BOUND_NS: u64 = 20_000_000;
/// A record is given out so long after its time at most, by default, unless it is late.
pub const DEFAULT_MOST_HELD_NS: u64 = DEFAULT_LATENESS_BOUND_NS + DEFAULT_MOST_WAIT_NS;
/// How many records are held by default: about 90 MB.
pub const DEFAULT_MAX_HELD_RECORDS: usize = 1_000_000;

/// Merges rings; see the [module](self) for what it promises.
#[derive(Debug)]
pub struct Sequencer {
    lateness_bound_ns: u64,
    max_held_records: usize,
    rings: Vec<RingQueue>,
    late: Vec<RawRecord>,
    /// What was given out in order of time.
    causal: CausalOrder,
    queue_pairs: QueuePairs,
    held_records: usize,
    /// Time of the last record that was given out in order.
    released_ns: u64,
    /// Everything before this may be given out.
    horizon_ns: u64,
    late_records: u64,
    early_releases: u64,
    /// Of the records being given out; see [`order_key`].
    keys: Vec<u128>,
}

/// Records of one ring that are held, oldest first once sorted.
#[derive(Debug, Default)]
struct RingQueue {
    records: VecDeque<RawRecord>,
    unsorted: bool,
}

impl Default for Sequencer {
    fn default() -> Self {
        Self::new(DEFAULT_LATENESS_BOUND_NS, DEFAULT_MAX_HELD_RECORDS)
    }
}

impl Sequencer {
    /// A sequencer without rings: they come into being when something is pushed.
    pub fn new(lateness_bound_ns: u64, max_held_records: usize) -> Self {
        Self {
            lateness_bound_ns,
            max_held_records,
            rings: Vec::new(),
            late: Vec::new(),
            causal: CausalOrder::default(),
            queue_pairs: QueuePairs::default(),
            held_records: 0,
            released_ns: 0,
            horizon_ns: 0,
            late_records: 0,
            early_releases: 0,
            keys: Vec::new(),
        }
    }

    /// Queue pairs of RDMA verbs that are set up after a moment are seen from their beginning; addresses of this machine.
    pub fn begin_queue_pairs(&mut self, time_ns: u64, addresses: Vec<RdmaAddress>) {
        self.queue_pairs.begin(time_ns, addresses);
    }

    /// Something was not seen up to a moment, of one process or of all: in which order queue pairs move data is not known.
    pub fn lose_queue_pairs(&mut self, pid: Option<u32>, until_ns: u64) {
        self.queue_pairs.lose(pid, until_ns);
    }

    /// Takes the next record of a ring. Rings are numbered from 0, without large holes.
    pub fn push(&mut self, ring: u16, record: RawRecord) {
        if record.time_ns() < self.released_ns {
            self.late_records += 1;
            if is_of_verbs(record.kind()) {
                self.queue_pairs.lose(Some(record.pid()), self.released_ns);
            }
            self.late.push(record);
            return;
        }
        let index = usize::from(ring);
        if index >= self.rings.len() {
            self.rings.resize_with(index + 1, RingQueue::default);
        }
        self.rings[index].push(record);
        self.held_records += 1;
    }

    /// Gives out, in order, every record older than `now_ns` less the bound on lateness.
    pub fn advance(&mut self, now_ns: u64, mut out: impl FnMut(Input)) {
        self.horizon_ns = self.horizon_ns.max(now_ns.saturating_sub(self.lateness_bound_ns));
        self.release_late(&mut out);
        let surplus = self.held_records.saturating_sub(self.max_held_records);
        let due = self.collect_keys(self.horizon_ns);
        if due < surplus {
            self.collect_keys(u64::MAX);
            self.early_releases += (surplus - due) as u64;
        }
        self.release(due.max(surplus), &mut out);
        self.causal.advance(self.horizon_ns, &mut out);
    }

    /// Gives out everything: no more records will come, or none that must be in order.
    pub fn finish(&mut self, mut out: impl FnMut(Input)) {
        self.release_late(&mut out);
        self.collect_keys(u64::MAX);
        self.release(self.held_records, &mut out);
        self.causal.finish(&mut out);
    }

    /// Whether it is time for [`Sequencer::advance`] even if there is more to read.
    pub fn is_full(&self) -> bool {
        self.held_records + self.late.len() >= self.max_held_records
    }

    /// Every record before this time has been given out, or will be marked late.
    pub fn horizon_ns(&self) -> u64 {
        self.causal.waits_since().map_or(self.horizon_ns, |since_ns| since_ns.min(self.horizon_ns))
    }

    /// Records pushed and not yet given out.
    pub fn held_records(&self) -> usize {
        self.held_records + self.late.len() + self.causal.len()
    }

    /// Records that came after a later one had been given out.
    pub fn late_records(&self) -> u64 {
        self.late_records
    }

    /// Records given out before their time, to keep within `max_held_records`.
    pub fn early_releases(&self) -> u64 {
        self.early_releases
    }

    fn release_late(&mut self, out: &mut impl FnMut(Input)) {
        for record in self.late.drain(..) {
            out(Input::LateRecord(record));
        }
    }

    /// Collects the keys of the records before `end_ns` (of all of them if that is the last
    /// moment there is); returns how many.
    fn collect_keys(&mut self, end_ns: u64) -> usize {
        self.keys.clear();
        for (index, ring) in self.rings.iter_mut().enumerate() {
            ring.sort();
            let times = ring.records.iter().map(RawRecord::time_ns);
            let due = times.take_while(|time_ns| *time_ns < end_ns || end_ns == u64::MAX);
            self.keys.extend(due.map(|time_ns| order_key(time_ns, index)));
        }
        self.keys.len()
    }

    /// Gives out the first `count` records whose keys were collected.
    fn release(&mut self, count: usize, out: &mut impl FnMut(Input)) {
        self.keys.sort_unstable();
        for key in self.keys.drain(..).take(count) {
            // Each ring is sorted, so its next record is the one that the key is of.
            let Some(record) = self.rings[ring_of(key)].records.pop_front() else { continue };
            self.released_ns = record.time_ns();
            self.held_records -= 1;
            self.causal.push_record(record, out);
            match record.kind() {
                of if is_of_verbs(of) => {
                    self.queue_pairs.take(&record, &mut |made| self.causal.push_record(made, out));
                }
                kind::EXIT | kind::EXEC => self.queue_pairs.forget_process(record.pid()),
                _ => {}
            }
        }
    }
}

/// Orders by time, then by ring. One number, because those are sorted without branches: twice as
/// fast as a heap of the rings' heads.
fn order_key(time_ns: u64, ring: usize) -> u128 {
    u128::from(time_ns) << 16 | ring as u128
}

fn ring_of(key: u128) -> usize {
    usize::from(key as u16)
}

impl RingQueue {
    fn push(&mut self, record: RawRecord) {
        self.unsorted |= self.records.back().is_some_and(|last| record.time_ns() < last.time_ns());
        self.records.push_back(record);
    }

    /// Stable, so that records of one time keep the order of the ring.
    fn sort(&mut self) {
        if self.unsorted {
            self.records.make_contiguous().sort_by_key(RawRecord::time_ns);
            self.unsorted = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A record that can be told from all others by `ring` and `serial`.
    fn record(time_ns: u64, ring: u16, serial: u64) -> RawRecord {
        RawRecord::from_words(&[time_ns, u64::from(ring), serial]).expect("three words are a record")
    }

    fn times(inputs: &[Input]) -> Vec<u64> {
        inputs
            .iter()
            .filter_map(|input| match input {
                Input::Record(record) => Some(record.time_ns()),
                _ => None,
            })
            .collect()
    }

    fn late(inputs: &[Input]) -> usize {
        inputs.iter().filter(|input| matches!(input, Input::LateRecord(_))).count()
    }

    /// What each ring will be pushed, its own order, and the order of the pushes.
    type Rings = Vec<Vec<RawRecord>>;

    /// Up to five rings whose records are at most `disorder_ns` out of order.
    fn rings(disorder_ns: u64) -> impl Strategy<Value = Rings> {
        let ring = prop::collection::vec((0_u64..30, 0..=disorder_ns), 0..60);
        prop::collection::vec(ring, 1..6).prop_map(|rings| {
            let numbered = rings.into_iter().enumerate();
            numbered
                .map(|(ring, steps)| {
                    let mut clock = 1_000;
                    let make = |(serial, (step, back)): (usize, (u64, u64))| {
                        clock += step;
                        record(clock - back, ring as u16, serial as u64)
                    };
                    steps.into_iter().enumerate().map(make).collect()
                })
                .collect()
        })
    }

    /// All records by (time, ring, position): what the contract promises.
    fn in_order(rings: &Rings) -> Vec<Input> {
        let mut all: Vec<_> = rings
            .iter()
            .enumerate()
            .flat_map(|(ring, records)| {
                records.iter().enumerate().map(move |(position, r)| ((r.time_ns(), ring, position), *r))
            })
            .collect();
        all.sort_by_key(|(key, _)| *key);
        all.into_iter().map(|(_, record)| Input::Record(record)).collect()
    }

    /// Pushes the rings' records, each time from the ring that the next choice names, and
    /// advances the clock as far as the bound allows after every push whose choice is even.
    fn run_within_bound(rings: &Rings, bound_ns: u64, choices: &[usize]) -> Vec<Input> {
        let mut sequencer = Sequencer::new(bound_ns, usize::MAX);
        let mut next = vec![0; rings.len()];
        let mut out = Vec::new();
        let mut choices = choices.iter().copied().cycle();
        loop {
            let open: Vec<_> = (0..rings.len()).filter(|ring| next[*ring] < rings[*ring].len()).collect();
            let (Some(choice), false) = (choices.next(), open.is_empty()) else { break };
            let ring = open[choice % open.len()];
            sequencer.push(ring as u16, rings[ring][next[ring]]);
            next[ring] += 1;
            if choice % 2 == 0 {
                let oldest_to_come =
                    (0..rings.len()).flat_map(|r| &rings[r][next[r]..]).map(RawRecord::time_ns);
                let now_ns = oldest_to_come.min().unwrap_or(u64::MAX).saturating_add(bound_ns);
                sequencer.advance(now_ns, |input| out.push(input));
            }
        }
        sequencer.finish(|input| out.push(input));
        assert_eq!(sequencer.late_records(), 0);
        out
    }

    proptest! {
        #[test]
        fn any_interleaving_within_the_bound_gives_the_same_order(
            rings in rings(20),
            choices in prop::collection::vec(0_usize..1000, 1..200),
            bound_ns in 0_u64..100,
        ) {
            prop_assert_eq!(run_within_bound(&rings, bound_ns, &choices), in_order(&rings));
        }

        #[test]
        fn nothing_is_lost_and_the_late_are_counted_whatever_the_clock_does(
            rings in rings(200),
            clock in prop::collection::vec(0_u64..3_000, 1..40),
            max_held in 0_usize..50,
        ) {
            let mut sequencer = Sequencer::new(10, max_held);
            let mut out = Vec::new();
            let mut clock = clock.into_iter().cycle();
            let longest = rings.iter().map(Vec::len).max().unwrap_or(0);
            for position in 0..longest {
                for (ring, records) in rings.iter().enumerate() {
                    if let Some(record) = records.get(position) {
                        sequencer.push(ring as u16, *record);
                    }
                }
                sequencer.advance(clock.next().unwrap_or(0), |input| out.push(input));
                prop_assert!(sequencer.held_records() <= max_held);
            }
            sequencer.finish(|input| out.push(input));
            prop_assert_eq!(sequencer.held_records(), 0);
            prop_assert!(times(&out).is_sorted());
            prop_assert_eq!(sequencer.late_records() as usize, late(&out));
            let identity = |record: &RawRecord| (record.pid(), record.words()[2], record.time_ns());
            let mut given: Vec<_> = out
                .iter()
                .filter_map(|input| match input {
                    Input::Record(record) | Input::LateRecord(record) => Some(identity(record)),
                    _ => None,
                })
                .collect();
            given.sort_unstable();
            let mut pushed: Vec<_> = rings.iter().flatten().map(identity).collect();
            pushed.sort_unstable();
            prop_assert_eq!(given, pushed);
        }
    }

    #[test]
    fn a_record_is_held_until_the_bound_has_passed() {
        let mut sequencer = Sequencer::new(100, 10);
        let mut out = Vec::new();
        sequencer.push(0, record(1_000, 0, 0));
        sequencer.advance(1_100, |input| out.push(input));
        assert!(out.is_empty());
        sequencer.advance(1_101, |input| out.push(input));
        assert_eq!(out, [Input::Record(record(1_000, 0, 0))]);
    }

    #[test]
    fn a_record_behind_one_given_out_is_late_and_comes_first() {
        let mut sequencer = Sequencer::new(10, 100);
        let mut out = Vec::new();
        sequencer.push(0, record(50, 0, 0));
        sequencer.advance(100, |input| out.push(input));
        sequencer.push(1, record(49, 1, 0));
        sequencer.push(1, record(50, 1, 1));
        sequencer.push(0, record(60, 0, 1));
        sequencer.advance(200, |input| out.push(input));
        let expected = [
            Input::Record(record(50, 0, 0)),
            Input::LateRecord(record(49, 1, 0)),
            Input::Record(record(50, 1, 1)),
            Input::Record(record(60, 0, 1)),
        ];
        assert_eq!(out, expected);
        assert_eq!(sequencer.late_records(), 1);
    }

    #[test]
    fn too_many_records_are_given_out_early_and_counted() {
        let mut sequencer = Sequencer::new(1_000, 2);
        let mut out = Vec::new();
        for time_ns in [30, 10, 20, 40] {
            sequencer.push(0, record(time_ns, 0, 0));
        }
        assert!(sequencer.is_full());
        sequencer.advance(50, |input| out.push(input));
        assert_eq!(times(&out), [10, 20]);
        assert_eq!((sequencer.held_records(), sequencer.early_releases()), (2, 2));
    }

    #[test]
    fn a_clock_that_goes_backwards_is_ignored() {
        let mut sequencer = Sequencer::new(0, 10);
        sequencer.advance(100, |_| ());
        sequencer.advance(5, |_| ());
        assert_eq!(sequencer.horizon_ns(), 100);
    }
}
