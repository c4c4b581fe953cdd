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
//! a batch has become large enough. Records stay where they were read to; that room is given back by
//! [`Sequencer::take_spare`] when all of a piece is given out. Of a piece with a record of a time that never comes, as a
//! hostile process may write it, the rest is freed: there is never room for more than twice `max_held_records` after an
//! `advance`.
//!
//! **Clock.** The sequencer has none. A clock that goes backwards is ignored.

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

/// What is given out. Nearly all of it is records in order, which need not be copied.
#[derive(Debug)]
pub enum Sequenced<'a> {
    /// The next record.
    Record(&'a RawRecord),
    /// A late record, or one that waited for what was sent on its stream.
    Input(Input),
}

/// Merges rings; see the [module](self) for what it promises.
#[derive(Debug)]
pub struct Sequencer {
    lateness_bound_ns: u64,
    max_held_records: usize,
    /// By ring when records are given out, then as they came.
    runs: Vec<RecordRun>,
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
    /// Room of runs of which nothing is left.
    spares: Vec<Vec<RawRecord>>,
}

/// Records of one ring that came together, in order of time.
#[derive(Debug)]
struct RecordRun {
    ring: u16,
    records: Vec<RawRecord>,
    /// So many were given out.
    given: usize,
    /// Time of the first one that was not, if there is one.
    next_ns: u64,
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
            runs: Vec::new(),
            late: Vec::new(),
            causal: CausalOrder::default(),
            queue_pairs: QueuePairs::default(),
            held_records: 0,
            released_ns: 0,
            horizon_ns: 0,
            late_records: 0,
            early_releases: 0,
            keys: Vec::new(),
            spares: Vec::new(),
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

    /// Takes the next records of a ring.
    pub fn push(&mut self, ring: u16, mut records: Vec<RawRecord>) {
        let (mut last_ns, mut first_ns, mut sorted) = (0, u64::MAX, true);
        for time_ns in records.iter().map(RawRecord::time_ns) {
            sorted &= last_ns <= time_ns;
            first_ns = first_ns.min(time_ns);
            last_ns = time_ns;
        }
        if first_ns < self.released_ns {
            self.take_late(&mut records);
        }
        if records.is_empty() {
            return self.spares.push(records);
        }
        if !sorted {
            // Stable, so that records of one time keep the order of the ring.
            records.sort_by_key(RawRecord::time_ns);
        }
        self.held_records += records.len();
        let next_ns = records[0].time_ns();
        self.runs.push(RecordRun { ring, records, given: 0, next_ns });
    }

    #[cold]
    fn take_late(&mut self, records: &mut Vec<RawRecord>) {
        let released_ns = self.released_ns;
        for record in records.extract_if(.., |record| record.time_ns() < released_ns) {
            self.late_records += 1;
            if is_of_verbs(record.kind()) {
                self.queue_pairs.lose(Some(record.pid()), released_ns);
            }
            self.late.push(record);
        }
    }

    /// Room that records had which were pushed and are given out, a piece at a time, empty.
    pub fn take_spare(&mut self) -> Option<Vec<RawRecord>> {
        self.spares.pop()
    }

    /// Gives out, in order, every record older than `now_ns` less the bound on lateness.
    pub fn advance(&mut self, now_ns: u64, mut out: impl FnMut(Sequenced<'_>)) {
        self.horizon_ns = self.horizon_ns.max(now_ns.saturating_sub(self.lateness_bound_ns));
        self.release_late(&mut out);
        let surplus = self.held_records.saturating_sub(self.max_held_records);
        let due = self.collect_keys(self.horizon_ns);
        if due < surplus {
            self.collect_keys(u64::MAX);
            self.early_releases += (surplus - due) as u64;
        }
        self.release(due.max(surplus), &mut out);
        self.causal.advance(self.horizon_ns, &mut |input| out(Sequenced::Input(input)));
    }

    /// Gives out everything: no more records will come, or none that must be in order.
    pub fn finish(&mut self, mut out: impl FnMut(Sequenced<'_>)) {
        self.release_late(&mut out);
        self.collect_keys(u64::MAX);
        self.release(self.held_records, &mut out);
        self.causal.finish(&mut |input| out(Sequenced::Input(input)));
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

    fn release_late(&mut self, out: &mut impl FnMut(Sequenced<'_>)) {
        for record in self.late.drain(..) {
            out(Sequenced::Input(Input::LateRecord(record)));
        }
    }

    /// Collects the keys of the records before `end_ns` (of all of them if that is the last
    /// moment there is); returns how many.
    fn collect_keys(&mut self, end_ns: u64) -> usize {
        self.keys.clear();
        self.runs.sort_by_key(|run| run.ring);
        let is_due = |time_ns| time_ns < end_ns || end_ns == u64::MAX;
        for (index, run) in self.runs.iter().enumerate().filter(|(_, run)| is_due(run.next_ns)) {
            let times = run.records.iter().map(RawRecord::time_ns).enumerate().skip(run.given);
            let due = times.take_while(|(_, time_ns)| is_due(*time_ns));
            self.keys.extend(due.map(|(at, time_ns)| order_key(time_ns, index, at)));
        }
        self.keys.len()
    }

    /// Gives out the first `count` records whose keys were collected.
    fn release(&mut self, count: usize, out: &mut impl FnMut(Sequenced<'_>)) {
        // They are in order run by run, which this makes use of.
        self.keys.sort();
        let Self { runs, causal, queue_pairs, .. } = self;
        for &key in self.keys.iter().take(count) {
            let (index, at) = place_of(key);
            let run = &mut runs[index];
            run.given = at + 1;
            run.next_ns = run.records.get(at + 1).map_or(u64::MAX, RawRecord::time_ns);
            let record = &run.records[at];
            self.released_ns = record.time_ns();
            put_in_causal_order(causal, record, out);
            match record.kind() {
                of if is_of_verbs(of) => {
                    queue_pairs.take(record, &mut |made| put_in_causal_order(causal, &made, out));
                }
                kind::EXIT | kind::EXEC => queue_pairs.forget_process(record.pid()),
                _ => {}
            }
        }
        self.held_records -= count.min(self.keys.len());
        for mut run in runs.extract_if(.., |run| run.given == run.records.len()) {
            run.records.clear();
            self.spares.push(run.records);
        }
        if self.room() > self.max_held_records.saturating_mul(2) {
            self.runs.iter_mut().for_each(RecordRun::free_given);
        }
    }

    /// Records for which there is room, held or given out.
    fn room(&self) -> usize {
        self.runs.iter().map(|run| run.records.capacity()).sum()
    }
}

impl RecordRun {
    /// Keeps only what is still to be given out.
    fn free_given(&mut self) {
        self.records.drain(..self.given);
        self.records.shrink_to_fit();
        self.given = 0;
    }
}

#[inline]
fn put_in_causal_order(causal: &mut CausalOrder, record: &RawRecord, out: &mut impl FnMut(Sequenced<'_>)) {
    if causal.lets_pass(record.kind()) {
        out(Sequenced::Record(record));
    } else {
        let input = Input::Record(*record);
        causal.push(input, record.time_ns(), &mut |input| out(Sequenced::Input(input)));
    }
}

/// Orders by time, then by run and by the place in it, which are those of the record. One number, because those are sorted
/// without branches: twice as fast as a heap of the runs' heads.
fn order_key(time_ns: u64, run: usize, at: usize) -> u128 {
    u128::from(time_ns) << 64 | (run as u128) << 32 | at as u128
}

fn place_of(key: u128) -> (usize, usize) {
    ((key as u64 >> 32) as usize, key as u32 as usize)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A record that can be told from all others by `ring` and `serial`.
    fn record(time_ns: u64, ring: u16, serial: u64) -> RawRecord {
        RawRecord::from_words(&[time_ns, u64::from(ring), serial]).expect("three words are a record")
    }

    /// Keeps what is given out.
    fn keep(out: &mut Vec<Input>) -> impl FnMut(Sequenced<'_>) {
        |sequenced| {
            out.push(match sequenced {
                Sequenced::Record(record) => Input::Record(*record),
                Sequenced::Input(input) => input,
            });
        }
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

    /// Pushes the rings' records, each time up to three from the ring that the next choice names, and
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
            let end = (next[ring] + 1 + choice % 3).min(rings[ring].len());
            sequencer.push(ring as u16, rings[ring][next[ring]..end].to_vec());
            next[ring] = end;
            if choice % 2 == 0 {
                let oldest_to_come =
                    (0..rings.len()).flat_map(|r| &rings[r][next[r]..]).map(RawRecord::time_ns);
                let now_ns = oldest_to_come.min().unwrap_or(u64::MAX).saturating_add(bound_ns);
                sequencer.advance(now_ns, keep(&mut out));
            }
        }
        sequencer.finish(keep(&mut out));
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
                        sequencer.push(ring as u16, vec![*record]);
                    }
                }
                sequencer.advance(clock.next().unwrap_or(0), keep(&mut out));
                prop_assert!(sequencer.held_records() <= max_held);
            }
            sequencer.finish(keep(&mut out));
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
        sequencer.push(0, vec![record(1_000, 0, 0)]);
        sequencer.advance(1_100, keep(&mut out));
        assert!(out.is_empty());
        sequencer.advance(1_101, keep(&mut out));
        assert_eq!(out, [Input::Record(record(1_000, 0, 0))]);
    }

    #[test]
    fn a_record_behind_one_given_out_is_late_and_comes_first() {
        let mut sequencer = Sequencer::new(10, 100);
        let mut out = Vec::new();
        sequencer.push(0, vec![record(50, 0, 0)]);
        sequencer.advance(100, keep(&mut out));
        sequencer.push(1, vec![record(49, 1, 0)]);
        sequencer.push(1, vec![record(50, 1, 1)]);
        sequencer.push(0, vec![record(60, 0, 1)]);
        sequencer.advance(200, keep(&mut out));
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
            sequencer.push(0, vec![record(time_ns, 0, 0)]);
        }
        assert!(sequencer.is_full());
        sequencer.advance(50, keep(&mut out));
        assert_eq!(times(&out), [10, 20]);
        assert_eq!((sequencer.held_records(), sequencer.early_releases()), (2, 2));
    }

    #[test]
    fn what_was_given_out_takes_no_room_behind_records_of_times_that_never_come() {
        let mut sequencer = Sequencer::new(10, 1_000);
        let mut given = 0;
        for look in 0..100_u64 {
            let mut records = vec![record(100 * look, 0, 0); 500];
            records.push(record(u64::MAX - 1, 0, look));
            sequencer.push(0, records);
            sequencer.advance(100 * look + 50, |_| given += 1);
            assert!(sequencer.room() <= 2_000, "{}", sequencer.room());
        }
        assert_eq!((given, sequencer.held_records()), (50_000, 100));
        sequencer.finish(|_| given += 1);
        assert_eq!((given, sequencer.held_records(), sequencer.late_records()), (50_100, 0, 0));
    }

    #[test]
    fn a_clock_that_goes_backwards_is_ignored() {
        let mut sequencer = Sequencer::new(0, 10);
        sequencer.advance(100, |_| ());
        sequencer.advance(5, |_| ());
        assert_eq!(sequencer.horizon_ns(), 100);
    }
}
