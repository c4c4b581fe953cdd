//! What hits cost, from what was measured when the tape was recorded.

use super::bounds::Bounds;
use crate::tape::costs::{HitKind, HitPrice, ProbeCosts, Quantiles};

/// A thread that works on so much of its own data between two hits is the likely one.
const LIKELY_BYTES: u32 = 256 << 10;

/// What a hit costs, part by part.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PartedPrice {
    /// Until the time that its record says.
    pub before: Bounds,
    /// From there until the call goes on.
    pub entry: Bounds,
    /// From where it is over to the time that the last record says.
    pub exit: Bounds,
    /// From there until the thread goes on.
    pub after: Bounds,
}

impl PartedPrice {
    /// All of it.
    pub fn whole(&self) -> Bounds {
        self.before + self.entry + self.exit + self.after
    }
}

/// What each kind of hit costs on one node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prices {
    /// Nothing was measured: they are those of some machine.
    pub are_assumed: bool,
    /// A copy.
    pub copy: PartedPrice,
    /// The entry of a call.
    pub call: PartedPrice,
    /// Entry and return.
    pub results: PartedPrice,
    /// A record more.
    pub value: Bounds,
    /// An allocation.
    pub alloc: PartedPrice,
    /// An allocation that left no record.
    pub declined: Bounds,
    /// A polling call that said no.
    pub refused: Bounds,
    /// So many CPUs the job may use; 0: not known.
    pub job_cpus: u32,
}

impl Default for Prices {
    /// Where none were recorded: from what the cheapest place costs on a fast machine to what a place costs that the kernel
    /// runs step by step on a slow one.
    fn default() -> Self {
        let hit = Bounds::of(200.0, 700.0, 5000.0);
        let half = hit.times(0.5);
        let nothing = Bounds::default();
        let entry = PartedPrice { before: half, entry: half, exit: nothing, after: nothing };
        let both = PartedPrice { before: half, entry: half, exit: half, after: half };
        Self {
            are_assumed: true,
            copy: entry,
            call: entry,
            results: both,
            value: Bounds::of(50.0, 150.0, 1000.0),
            alloc: both,
            declined: hit,
            refused: hit.times(2.0),
            job_cpus: 0,
        }
    }
}

impl Prices {
    /// Of what was measured at different moments of a session.
    pub fn of<'a>(measured: impl IntoIterator<Item = &'a ProbeCosts>) -> Self {
        let measured: Vec<&ProbeCosts> =
            measured.into_iter().filter(|costs| !costs.hits.is_empty()).collect();
        if measured.is_empty() {
            return Self::default();
        }
        let all: Vec<&HitPrice> = measured.iter().flat_map(|costs| &costs.hits).collect();
        let call = entry_price(&all, HitKind::Call);
        let results = both_price(&all, HitKind::CallResults, call.entry);
        let values = both_price(&all, HitKind::CallValues, call.entry);
        Self {
            are_assumed: false,
            copy: entry_price(&all, HitKind::Copy),
            call,
            results,
            value: one_more(results.whole(), values.whole()),
            alloc: alloc_price(&all),
            declined: part(&all, HitKind::Declined, |price| price.after),
            refused: part(&all, HitKind::Refused, |price| price.after),
            job_cpus: measured.iter().map(|costs| costs.job_cpus).max().unwrap_or(0),
        }
    }

    /// Where ranks share CPUs: a hit may cost its rank so many times as much, since others are held up by theirs there.
    #[must_use]
    pub fn shared(self, ranks: f64) -> Self {
        let bounds = |cost: Bounds| Bounds { most_ns: cost.most_ns * ranks, ..cost };
        let parts = |price: PartedPrice| PartedPrice {
            before: bounds(price.before),
            entry: bounds(price.entry),
            exit: bounds(price.exit),
            after: bounds(price.after),
        };
        Self {
            copy: parts(self.copy),
            call: parts(self.call),
            results: parts(self.results),
            value: bounds(self.value),
            alloc: parts(self.alloc),
            declined: bounds(self.declined),
            refused: bounds(self.refused),
            ..self
        }
    }

    /// A record of a system call: no trap, but a look at the job's memory.
    pub fn system_call(&self) -> Bounds {
        Bounds::of(0.0, 2.0 * self.value.likely_ns, 4.0 * self.value.most_ns)
    }
}

/// Of all states of the cache and all moments: the lower quartile where it is least, the upper one where it is most.
/// The mean is not asked for: what interrupts a hit would have interrupted the job as well.
fn part(all: &[&HitPrice], kind: HitKind, of: impl Fn(&HitPrice) -> Quantiles) -> Bounds {
    let own: Vec<(u32, Quantiles)> =
        all.iter().filter(|price| price.kind == kind).map(|price| (price.between_bytes, of(price))).collect();
    let likely: Vec<f64> =
        own.iter().filter(|(bytes, _)| *bytes == LIKELY_BYTES).map(|(_, part)| f64::from(part.p50)).collect();
    let all_likely: Vec<f64> = own.iter().map(|(_, part)| f64::from(part.p50)).collect();
    let likely = if likely.is_empty() { all_likely } else { likely };
    if likely.is_empty() {
        return Bounds::default();
    }
    let least_ns = own.iter().map(|(_, part)| f64::from(part.p25)).fold(f64::INFINITY, f64::min);
    let most_ns = own.iter().map(|(_, part)| f64::from(part.p75)).fold(0.0, f64::max);
    Bounds::of(least_ns, likely.iter().sum::<f64>() / likely.len() as f64, most_ns)
}

fn entry_price(all: &[&HitPrice], kind: HitKind) -> PartedPrice {
    PartedPrice {
        before: part(all, kind, |price| price.before),
        entry: part(all, kind, |price| price.after),
        ..PartedPrice::default()
    }
}

/// Of the time between the records of entry and return, `entry` is what an entry alone takes after its record.
fn both_price(all: &[&HitPrice], kind: HitKind, entry: Bounds) -> PartedPrice {
    let inside = part(all, kind, |price| price.inside);
    let share = if inside.likely_ns > 0.0 { (entry.likely_ns / inside.likely_ns).min(1.0) } else { 0.0 };
    PartedPrice {
        before: part(all, kind, |price| price.before),
        entry: inside.times(share),
        exit: inside.times(1.0 - share),
        after: part(all, kind, |price| price.after),
    }
}

/// The record comes at the return: it is before most of what is called `before`.
fn alloc_price(all: &[&HitPrice]) -> PartedPrice {
    PartedPrice {
        before: part(all, HitKind::Alloc, |price| price.before),
        after: part(all, HitKind::Alloc, |price| price.after),
        ..PartedPrice::default()
    }
}

fn one_more(without: Bounds, with: Bounds) -> Bounds {
    let likely_ns = (with.likely_ns - without.likely_ns).max(0.0);
    Bounds::of(0.5 * likely_ns, likely_ns, 2.0 * likely_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantiles(p50: u32) -> Quantiles {
        Quantiles { p5: p50 - 20, p25: p50 - 10, p50, p75: p50 + 10, p95: p50 + 500 }
    }

    fn price(kind: HitKind, between_bytes: u32, [before, inside, after]: [u32; 3]) -> HitPrice {
        let [before, inside, after] = [before, inside, after].map(quantiles);
        HitPrice { kind, between_bytes, hits: 100, before, inside, after }
    }

    #[test]
    fn the_price_of_a_part_lies_between_the_quartiles_of_all_states_and_moments() {
        let costs = |all: &[[u32; 3]]| ProbeCosts {
            hits: [4 << 10, LIKELY_BYTES, 4 << 20]
                .into_iter()
                .zip(all)
                .map(|(bytes, parts)| price(HitKind::Copy, bytes, *parts))
                .collect(),
            ..ProbeCosts::default()
        };
        let before = costs(&[[300, 20, 100], [400, 20, 150], [900, 20, 300]]);
        let after = costs(&[[310, 20, 100], [500, 20, 150], [800, 20, 300]]);
        let prices = Prices::of([&before, &after]);
        assert_eq!(prices.copy.before, Bounds::of(290.0, 450.0, 910.0));
        assert_eq!(prices.copy.entry, Bounds::of(90.0, 150.0, 310.0));
        assert!(!prices.are_assumed && Prices::of([]).are_assumed);
    }

    #[test]
    fn what_is_between_two_records_is_divided_by_what_an_entry_takes() {
        let hits = vec![
            price(HitKind::Call, LIKELY_BYTES, [400, 20, 300]),
            price(HitKind::CallResults, LIKELY_BYTES, [400, 900, 200]),
            price(HitKind::CallValues, LIKELY_BYTES, [400, 1050, 200]),
        ];
        let prices = Prices::of([&ProbeCosts { hits, ..ProbeCosts::default() }]);
        let [entry, exit] = [prices.results.entry, prices.results.exit].map(|part| part.likely_ns.round());
        assert_eq!([entry, exit], [300.0, 600.0]);
        assert_eq!(prices.results.whole().likely_ns.round(), 1500.0);
        assert_eq!(prices.value, Bounds::of(75.0, 150.0, 300.0));
    }
}
