//! Which of many mixes are far from all others, without comparing each with each.
//!
//! The definition: d(i) is the distance from i to its k-th nearest neighbour; i is far if d(i) is at
//! least a floor and above a multiple of the average of all d. Found in two steps, both exact:
//!
//! 1. *Who can be far at all.* A pivot is compared with everybody. By the triangle inequality whoever
//!    has k others within the floor as seen from the pivot is not far. Who is left is the next pivot.
//!    Ranks do few kinds of work, so few pivots settle everybody.
//! 2. *The average*, only if somebody can be far (or it is asked for). Mixes that are equal are
//!    compared once. Where too many differ, the average is bounded instead: d changes from one
//!    mix to another by no more than their distance. Pivots are added until the bounds decide.
//!
//! With thousands of members each pivot costs, and where many differ by chance, or belong to a small role, each of them would
//! be one. There the number of pivots has a bound. Where it is reached the average is that of some members, evenly spaced, and
//! only who is above that so many times is looked for, if that takes too long only who is farther: fewer are found, never more.

/// So many different mixes are compared each with each by default.
pub const MAX_COMPARED: usize = 2048;
/// More pivots than this do not pay.
const MAX_PIVOTS: usize = 256;
/// So many members may all be pivots: they are compared each with each at worst.
const MAX_EXACT: usize = 4096;
/// Of more, so many at a time …
const SOME_PIVOTS: usize = 8;
/// … and so many tell the average.
const SAMPLED: usize = 16;
/// Distances are sums of a few rounded numbers: what is this close to a bound is not decided by it.
const ROUNDING: f64 = 1e-9;

/// Counts of one member, by column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mix {
    /// In order of the columns; no count is 0.
    pub counts: Vec<(u32, u64)>,
    /// Sum of all counts.
    pub total: u64,
}

impl Mix {
    /// Share of a column.
    pub fn share(&self, column: u32) -> f64 {
        let at = self.counts.binary_search_by_key(&column, |c| c.0);
        at.map_or(0.0, |at| self.counts[at].1 as f64 / self.total as f64)
    }

    /// The same shares with the smallest counts that have them.
    fn reduced(&self) -> Self {
        let divisor = self.counts.iter().fold(self.total, |d, c| greatest_common_divisor(d, c.1)).max(1);
        let counts = self.counts.iter().map(|&(column, count)| (column, count / divisor)).collect();
        Self { counts, total: self.total / divisor }
    }
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// Manhattan distance of the shares. Computed with whole numbers and divided once, so that it does
/// not depend on the order of the columns.
pub fn distance(a: &Mix, b: &Mix) -> f64 {
    /// Below this, sums of products fit into 64 bits, which is faster and gives the same.
    const SMALL: u64 = 1 << 31;
    if a.total < SMALL && b.total < SMALL {
        return small_distance(a, b);
    }
    let apart =
        |x: u64, y: u64| (u128::from(x) * u128::from(b.total)).abs_diff(u128::from(y) * u128::from(a.total));
    let (mut i, mut j, mut sum) = (0, 0, 0u128);
    while let (Some(&(x, n)), Some(&(y, m))) = (a.counts.get(i), b.counts.get(j)) {
        sum = sum.saturating_add(match x.cmp(&y) {
            std::cmp::Ordering::Less => apart(n, 0),
            std::cmp::Ordering::Equal => apart(n, m),
            std::cmp::Ordering::Greater => apart(0, m),
        });
        i += usize::from(x <= y);
        j += usize::from(y <= x);
    }
    let rest_of_a = a.counts[i..].iter().map(|c| apart(c.1, 0));
    let rest_of_b = b.counts[j..].iter().map(|c| apart(0, c.1));
    let sum = rest_of_a.chain(rest_of_b).fold(sum, u128::saturating_add);
    sum as f64 / (u128::from(a.total) * u128::from(b.total)) as f64
}

fn small_distance(a: &Mix, b: &Mix) -> f64 {
    let apart = |x: u64, y: u64| (x * b.total).abs_diff(y * a.total);
    let (mut i, mut j, mut sum) = (0, 0, 0u64);
    while let (Some(&(x, n)), Some(&(y, m))) = (a.counts.get(i), b.counts.get(j)) {
        sum += match x.cmp(&y) {
            std::cmp::Ordering::Less => apart(n, 0),
            std::cmp::Ordering::Equal => apart(n, m),
            std::cmp::Ordering::Greater => apart(0, m),
        };
        i += usize::from(x <= y);
        j += usize::from(y <= x);
    }
    let rest_of_a: u64 = a.counts[i..].iter().map(|c| apart(c.1, 0)).sum();
    let rest_of_b: u64 = b.counts[j..].iter().map(|c| apart(0, c.1)).sum();
    (sum + rest_of_a + rest_of_b) as f64 / (a.total * b.total) as f64
}

/// What makes a member far.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Which neighbour.
    pub k: usize,
    /// d is at least this …
    pub floor: f64,
    /// … and above so many averages.
    pub factor: f64,
    /// See [`MAX_COMPARED`].
    pub max_compared: usize,
}

/// A member that is far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Far {
    /// Its number.
    pub member: usize,
    /// To its k-th nearest neighbour …
    pub distance: f64,
    /// … which is this one; among equals by number.
    pub neighbour: usize,
}

/// Average of all d.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Average {
    /// Nobody needed it.
    NotNeeded,
    /// All were compared.
    Exactly(f64),
    /// At least the first, at most the second.
    Between(f64, f64),
    /// Of some of them.
    OfSome(f64),
}

impl Average {
    /// As one number, the middle if it is only bounded.
    pub fn value(self) -> f64 {
        match self {
            Self::NotNeeded => 0.0,
            Self::Exactly(value) | Self::OfSome(value) => value,
            Self::Between(low, high) => f64::midpoint(low, high),
        }
    }

    /// Whether a distance is above so many averages; `None` if the bounds do not tell.
    fn is_below(self, distance: f64, factor: f64) -> Option<bool> {
        match self {
            Self::NotNeeded => None,
            Self::Exactly(value) | Self::OfSome(value) => Some(distance > factor * value),
            Self::Between(_, high) if distance > factor * high + ROUNDING => Some(true),
            Self::Between(low, _) if distance < factor * low - ROUNDING => Some(false),
            Self::Between(..) => None,
        }
    }
}

/// The members that are far, and the average that this rests on.
pub fn far_members(mixes: &[Mix], rule: &Rule, average_wanted: bool) -> (Vec<Far>, Average) {
    if mixes.len() < 2 {
        return (Vec::new(), Average::Exactly(0.0));
    }
    let mut pivots = Pivots::new(mixes, rule);
    let most = if mixes.len() <= MAX_EXACT { usize::MAX } else { SOME_PIVOTS };
    let Some(candidates) = pivots.candidates(rule.floor, most) else { return far_of_many(mixes, rule) };
    if candidates.is_empty() && !average_wanted {
        return (Vec::new(), Average::NotNeeded);
    }
    let average = average(&mut pivots, &candidates);
    let is_far = |far: &Far| average.is_below(far.distance, rule.factor) == Some(true);
    (candidates.into_iter().filter(is_far).collect(), average)
}

/// The same where there are too many to compare them all.
fn far_of_many(mixes: &[Mix], rule: &Rule) -> (Vec<Far>, Average) {
    /// The largest distance that there is.
    const MOST: f64 = 2.0;
    let mut pivots = Pivots::new(mixes, rule);
    let sampled = (0..SAMPLED).map(|at| at * mixes.len() / SAMPLED);
    sampled.for_each(|member| drop(pivots.add(member)));
    let average = Average::OfSome(pivots.pivots.iter().sum::<f64>() / SAMPLED as f64);
    let mut least = rule.floor.max(rule.factor * average.value());
    while least <= MOST {
        if let Some(candidates) = Pivots::new(mixes, rule).candidates(least, SOME_PIVOTS) {
            let is_far = |far: &Far| average.is_below(far.distance, rule.factor) == Some(true);
            return (candidates.into_iter().filter(is_far).collect(), average);
        }
        least *= 2.0;
    }
    (Vec::new(), average)
}

/// The average as exactly as it is needed to decide about the candidates.
fn average(pivots: &mut Pivots<'_>, candidates: &[Far]) -> Average {
    let classes = Classes::of(pivots.mixes);
    if classes.mixes.len() <= pivots.rule.max_compared {
        return Average::Exactly(classes.average(pivots.rule.k));
    }
    let is_many = pivots.mixes.len() > MAX_EXACT;
    let most = if is_many { SAMPLED } else { MAX_PIVOTS };
    loop {
        let average = pivots.average();
        let decided = |far: &Far| average.is_below(far.distance, pivots.rule.factor).is_some();
        if candidates.iter().all(decided) {
            return average;
        }
        if !pivots.refine(most) && !is_many {
            return Average::Exactly(classes.average(pivots.rule.k));
        } else if pivots.pivots.len() >= most {
            return Average::OfSome(pivots.pivots.iter().sum::<f64>() / pivots.pivots.len() as f64);
        }
    }
}

/// Members that everybody was compared with.
struct Pivots<'a> {
    mixes: &'a [Mix],
    rule: &'a Rule,
    /// Pivots so far, each with its d.
    pivots: Vec<f64>,
    /// By member: the nearest pivot and how far it is.
    nearest: Vec<(usize, f64)>,
}

impl<'a> Pivots<'a> {
    fn new(mixes: &'a [Mix], rule: &'a Rule) -> Self {
        Self { mixes, rule, pivots: Vec::new(), nearest: vec![(0, f64::INFINITY); mixes.len()] }
    }

    /// Makes a member a pivot: its distances to all, and the same sorted, itself left out.
    fn add(&mut self, pivot: usize) -> (Vec<f64>, Vec<f64>) {
        let own = &self.mixes[pivot];
        let distances: Vec<f64> = self.mixes.iter().map(|mix| distance(own, mix)).collect();
        let mut sorted = distances.clone();
        sorted.remove(pivot);
        sorted.sort_unstable_by(f64::total_cmp);
        let number = self.pivots.len();
        self.pivots.push(sorted[self.rule.k.min(sorted.len()) - 1]);
        for (nearest, &distance) in self.nearest.iter_mut().zip(&distances) {
            if distance < nearest.1 {
                *nearest = (number, distance);
            }
        }
        (distances, sorted)
    }

    /// Everybody whose d is at least so much, in order, exactly; `None`: that would take more pivots than `most`.
    fn candidates(&mut self, least: f64, most: usize) -> Option<Vec<Far>> {
        let mut open: Vec<usize> = (0..self.mixes.len()).collect();
        let mut candidates = Vec::new();
        while let Some(&pivot) = open.first() {
            if self.pivots.len() >= most {
                return None;
            }
            let (distances, sorted) = self.add(pivot);
            let d = sorted[self.rule.k.min(sorted.len()) - 1];
            if d >= least {
                candidates.push(Far {
                    member: pivot,
                    distance: d,
                    neighbour: self.neighbour(pivot, &distances),
                });
            }
            let others = sorted.len();
            open.retain(|&member| {
                let reach = least - ROUNDING - distances[member];
                // Within reach of the pivot are at least these, the member itself and the pivot left out.
                let near = sorted.partition_point(|&x| x <= reach).saturating_sub(1);
                member != pivot && near < self.rule.k.min(others)
            });
        }
        candidates.sort_unstable_by_key(|far| far.member);
        Some(candidates)
    }

    /// The k-th nearest neighbour; among equals by number.
    fn neighbour(&self, member: usize, distances: &[f64]) -> usize {
        let mut others: Vec<usize> = (0..distances.len()).filter(|&j| j != member).collect();
        others.sort_unstable_by(|&a, &b| distances[a].total_cmp(&distances[b]).then(a.cmp(&b)));
        others[self.rule.k.min(others.len()) - 1]
    }

    /// Bounds of the average: d differs from a pivot's by no more than the distance to it.
    fn average(&self) -> Average {
        let n = self.mixes.len() as f64;
        let bound = |sign: f64| {
            let d = |&(pivot, distance): &(usize, f64)| (self.pivots[pivot] + sign * distance).max(0.0);
            self.nearest.iter().map(d).sum::<f64>() / n
        };
        Average::Between(bound(-1.0), bound(1.0))
    }

    /// Makes a pivot of the member that is farthest from all pivots; false if that does not pay.
    fn refine(&mut self, most: usize) -> bool {
        let farthest =
            (0..self.nearest.len()).max_by(|&a, &b| self.nearest[a].1.total_cmp(&self.nearest[b].1));
        let worth = farthest.filter(|&m| self.nearest[m].1 > 0.0 && self.pivots.len() < most);
        worth.map(|member| self.add(member)).is_some()
    }
}

/// Members with equal shares together.
struct Classes {
    mixes: Vec<Mix>,
    /// Members of each.
    sizes: Vec<usize>,
    /// By member.
    class: Vec<usize>,
}

impl Classes {
    fn of(members: &[Mix]) -> Self {
        let mut classes = Self { mixes: Vec::new(), sizes: Vec::new(), class: Vec::new() };
        let mut known = rustc_hash::FxHashMap::default();
        for member in members {
            let reduced = member.reduced();
            let next = known.len();
            let class = *known.entry(reduced.counts.clone()).or_insert(next);
            if class == next {
                classes.mixes.push(reduced);
                classes.sizes.push(0);
            }
            classes.sizes[class] += 1;
            classes.class.push(class);
        }
        classes
    }

    /// Average of d over all members, in their order.
    fn average(&self, k: usize) -> f64 {
        let d = self.all_d(k);
        self.class.iter().map(|&class| d[class]).sum::<f64>() / self.class.len() as f64
    }

    /// d of each class.
    fn all_d(&self, k: usize) -> Vec<f64> {
        let n = self.mixes.len();
        let k = k.min(self.class.len() - 1);
        // Half of all pairs, row by row.
        let mut half: Vec<f64> = Vec::with_capacity(n * (n + 1) / 2);
        for i in 0..n {
            half.extend((0..=i).map(|j| distance(&self.mixes[i], &self.mixes[j])));
        }
        let at = |i: usize, j: usize| half[i.max(j) * (i.max(j) + 1) / 2 + i.min(j)];
        let mut row: Vec<(f64, usize)> = Vec::with_capacity(n);
        let d = |i: usize| {
            row.clear();
            row.extend((0..n).map(|j| (at(i, j), self.sizes[j] - usize::from(i == j))));
            weighted_nth(&mut row, k)
        };
        (0..n).map(d).collect()
    }
}

/// The k-th smallest number (from 1) where each stands for as many as its weight says.
fn weighted_nth(numbers: &mut [(f64, usize)], k: usize) -> f64 {
    let (mut rest, mut k) = (numbers, k);
    loop {
        if rest.len() == 1 {
            return rest[0].0;
        }
        let middle = rest.len() / 2;
        rest.select_nth_unstable_by(middle, |a, b| a.0.total_cmp(&b.0));
        let (below, above) = rest.split_at_mut(middle);
        let weight: usize = below.iter().map(|x| x.1).sum();
        if k <= weight {
            rest = below;
        } else {
            k -= weight;
            rest = above;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The definition, each compared with each.
    fn by_definition(mixes: &[Mix], rule: &Rule) -> (Vec<Far>, f64) {
        let n = mixes.len();
        let nearest = |i: usize| {
            let mut others: Vec<(f64, usize)> =
                (0..n).filter(|&j| j != i).map(|j| (distance(&mixes[i], &mixes[j]), j)).collect();
            others.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            others[rule.k.min(others.len()) - 1]
        };
        let all: Vec<(f64, usize)> = (0..n).map(nearest).collect();
        let average = all.iter().map(|d| d.0).sum::<f64>() / n as f64;
        let far = |(member, &(distance, neighbour)): (usize, &(f64, usize))| {
            let far = distance > rule.factor * average && distance >= rule.floor;
            far.then_some(Far { member, distance, neighbour })
        };
        (all.iter().enumerate().filter_map(far).collect(), average)
    }

    fn mix(counts: &[u64]) -> Mix {
        let counts: Vec<(u32, u64)> =
            counts.iter().enumerate().filter(|c| *c.1 > 0).map(|(i, &c)| (i as u32, c)).collect();
        Mix { total: counts.iter().map(|c| c.1).sum(), counts }
    }

    /// Members of a few roles, more or less like each other, and now and then one of its own.
    fn mixes() -> impl Strategy<Value = Vec<Mix>> {
        let role = prop::collection::vec(0..40u64, 4);
        let noise = prop_oneof![4 => Just(0u64), 2 => 0..3u64, 1 => 0..60u64];
        let member = (0..3usize, prop::collection::vec(noise, 4), 1..4u64);
        (prop::collection::vec(role, 3), prop::collection::vec(member, 2..70)).prop_map(|(roles, members)| {
            let one = |(role, noise, times): &(usize, Vec<u64>, u64)| {
                let counts: Vec<u64> =
                    roles[*role].iter().zip(noise).map(|(a, b)| (a + b) * times + 1).collect();
                mix(&counts)
            };
            members.iter().map(one).collect()
        })
    }

    proptest! {
        #[test]
        fn the_far_ones_are_those_of_the_definition(
            mixes in mixes(),
            divisor in 1..6usize,
            floor in prop_oneof![Just(0.0), Just(0.05), Just(0.2), Just(0.5)],
            factor in prop_oneof![Just(1.0), Just(1.5), Just(5.0)],
            max_compared in prop_oneof![Just(0), Just(4), Just(MAX_COMPARED)],
        ) {
            let k = (mixes.len() / divisor).max(1);
            let rule = Rule { k, floor, factor, max_compared };
            let (want, average) = by_definition(&mixes, &rule);
            let (found, found_average) = far_members(&mixes, &rule, true);
            prop_assert_eq!(&found, &want);
            match found_average {
                Average::Exactly(value) => prop_assert_eq!(value, average),
                Average::Between(low, high) => {
                    prop_assert!(low - ROUNDING <= average && average <= high + ROUNDING);
                }
                other => prop_assert!(false, "{other:?} of a few"),
            }
            prop_assert_eq!(far_members(&mixes, &rule, false).0, want);
        }

        #[test]
        fn a_distance_does_not_depend_on_the_order_of_columns_or_sides(
            a in prop::collection::vec(0..1_000_000u64, 8),
            b in prop::collection::vec(0..1_000_000u64, 8),
        ) {
            let (x, y) = (mix(&a), mix(&b));
            prop_assume!(x.total > 0 && y.total > 0);
            let back = |v: &[u64]| mix(&v.iter().rev().copied().collect::<Vec<_>>());
            prop_assert_eq!(distance(&x, &y), distance(&back(&b), &back(&a)));
            let plain: f64 = (0..8).map(|i| (x.share(i) - y.share(i)).abs()).sum();
            prop_assert!((distance(&x, &y) - plain).abs() < 1e-12);
        }
    }

    #[test]
    fn few_roles_are_settled_by_few_pivots() {
        let ranks: Vec<Mix> = (0..4096u64)
            .map(|i| if i % 4 == 0 { mix(&[5000 + i % 7, 100, 0]) } else { mix(&[100, 5000 + i % 5, 900]) })
            .collect();
        let rule = Rule { k: ranks.len() / 4, floor: 0.2, factor: 5.0, max_compared: MAX_COMPARED };
        let mut pivots = Pivots::new(&ranks, &rule);
        // The role of a quarter lacks one neighbour: each of its members is looked at.
        assert_eq!(pivots.candidates(rule.floor, usize::MAX).map(|found| found.len()), Some(1024));
        let rule = Rule { k: 1000, ..rule };
        let mut pivots = Pivots::new(&ranks, &rule);
        assert_eq!(pivots.candidates(rule.floor, usize::MAX), Some(Vec::new()));
        assert_eq!(pivots.pivots.len(), 2);
    }

    /// Counts that differ by chance as much as the floor, or more; one member does something of its own.
    #[test]
    fn one_of_its_own_is_found_among_thousands_that_differ_by_chance_and_nobody_else() {
        let mut seed = 7u64;
        let mut below = |most: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % most
        };
        let mut ranks: Vec<Mix> = (0..1 << 16).map(|_| mix(&[9, 9, 9, 9].map(|n| n + below(9)))).collect();
        let rule = Rule { k: ranks.len() / 4, floor: 0.05, factor: 5.0, max_compared: MAX_COMPARED };
        assert!(
            Pivots::new(&ranks, &rule).candidates(rule.floor, SOME_PIVOTS).is_none(),
            "they are too many"
        );
        assert_eq!(far_members(&ranks, &rule, false).0, []);
        ranks[4711] = mix(&[1, 1, 1, 1, 90]);
        let far: Vec<usize> = far_members(&ranks, &rule, false).0.iter().map(|far| far.member).collect();
        assert_eq!(far, [4711]);
    }

    #[test]
    fn counts_beyond_all_bounds_have_distances_too() {
        let (a, b) = (mix(&[u64::MAX / 2, 1]), mix(&[1, u64::MAX / 2]));
        assert!((distance(&a, &b) - 2.0).abs() < 1e-9);
    }
}
