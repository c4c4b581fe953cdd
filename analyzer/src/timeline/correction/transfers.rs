//! How long messages and collective calls take, from the tape itself: where one side certainly waited, the time from the last
//! that it waited for to its end is all transfer.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

/// Samples from which something is said at all.
const ENOUGH: u64 = 5;
/// Parts of a factor of two that are told apart.
const STEPS: f64 = 8.0;
const BUCKETS: usize = 64 * STEPS as usize;

/// Durations, counted by their logarithm.
#[derive(Clone, Debug, Default)]
pub struct DurationHistogram {
    counts: Vec<u32>,
    all: u64,
}

impl DurationHistogram {
    /// One more.
    pub fn add(&mut self, ns: f64) {
        if self.counts.is_empty() {
            self.counts = vec![0; BUCKETS];
        }
        let bucket = (ns.max(1.0).log2() * STEPS) as usize;
        self.counts[bucket.min(BUCKETS - 1)] += 1;
        self.all += 1;
    }

    /// This part of all are less.
    fn quantile_ns(&self, part: f64) -> f64 {
        let wanted = (self.all as f64 * part) as u64;
        let mut seen = 0;
        let bucket = self.counts.iter().position(|count| {
            seen += u64::from(*count);
            seen > wanted
        });
        ((bucket.unwrap_or(0) as f64 + 0.5) / STEPS).exp2()
    }

    /// What can be said of the next one; nothing of too few.
    pub fn times(&self) -> Option<TransferTimes> {
        (self.all >= ENOUGH).then(|| TransferTimes {
            least_ns: 0.5 * self.quantile_ns(0.02),
            typical_ns: self.quantile_ns(0.5),
            most_ns: 2.0 * self.quantile_ns(0.95),
        })
    }
}

/// How long something takes: hardly ever less, half of all times, hardly ever more.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
#[allow(missing_docs)]
pub struct TransferTimes {
    pub least_ns: f64,
    pub typical_ns: f64,
    pub most_ns: f64,
}

/// What takes about as long as others of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransferKind {
    /// A message, by the logarithm of its length.
    Message(u8),
    /// A send that waits for its receive.
    Release(u8),
    /// A collective call, by name and the logarithm of its members.
    Collective(&'static str, u8),
    /// What another rank does for an epoch of a window, by the name of the call that waits for it.
    Epoch(&'static str),
    /// What a call takes that waits for nobody, by name.
    Local(&'static str),
}

/// The logarithm of a length; 0: none, or it is not known.
pub fn size_class(bytes: Option<u64>) -> u8 {
    bytes.map_or(0, |bytes| (64 - bytes.leading_zeros()) as u8)
}

/// What was learnt of a tape.
#[derive(Clone, Debug, Default)]
pub struct Transfers {
    histograms: FxHashMap<TransferKind, DurationHistogram>,
    /// Sends of these lengths were seen to end before their receives began.
    eager: BTreeSet<u8>,
}

impl Transfers {
    /// One more.
    pub fn add(&mut self, kind: TransferKind, ns: f64) {
        self.histograms.entry(kind).or_default().add(ns);
    }

    /// One was seen that did not.
    pub fn see_eager(&mut self, class: u8) {
        self.eager.insert(class);
    }

    /// What is known of its kind.
    pub fn times(&self, kind: TransferKind) -> Option<TransferTimes> {
        self.histograms.get(&kind)?.times()
    }

    /// All that can be said now.
    pub fn known(&self) -> KnownTransfers {
        let times = self.histograms.iter().filter_map(|(kind, all)| Some((*kind, all.times()?)));
        KnownTransfers { times: times.collect(), eager: self.eager.clone() }
    }
}

/// What was learnt, for whoever asks for each call.
#[derive(Clone, Debug, Default)]
pub struct KnownTransfers {
    times: FxHashMap<TransferKind, TransferTimes>,
    eager: BTreeSet<u8>,
}

impl KnownTransfers {
    /// A send of this length does not wait for its receive.
    pub fn is_eager(&self, class: u8) -> bool {
        self.eager.contains(&class)
    }

    /// What is known of its kind.
    pub fn times(&self, kind: TransferKind) -> Option<TransferTimes> {
        self.times.get(&kind).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_said_of_a_few() {
        let mut transfers = Transfers::default();
        let kind = TransferKind::Message(size_class(Some(8)));
        (1..ENOUGH).for_each(|_| transfers.add(kind, 1000.0));
        assert_eq!(transfers.times(kind), None);
        transfers.add(kind, 1000.0);
        let times = transfers.times(kind).expect("enough");
        assert!((times.typical_ns / 1000.0 - 1.0).abs() < 0.1, "{times:?}");
        assert!(times.least_ns < 600.0 && times.most_ns > 1800.0, "{times:?}");
    }

    #[test]
    fn lengths_are_classed_by_their_logarithm() {
        assert_eq!([None, Some(0), Some(1), Some(7), Some(8)].map(size_class), [0, 0, 1, 3, 4]);
        assert_eq!(size_class(Some(u64::MAX)), 64);
    }
}
