//! One figure measured several times.

use serde::Serialize;

/// The runs of one figure, in the order in which they were made.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// Adds the figure of a run.
    pub fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    /// How many runs there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if nothing was measured.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The figures of all runs, in the order in which they were made.
    pub fn values(&self) -> &[f64] {
        &self.0
    }

    /// The middle run; of an even number, the mean of the two in the middle. NaN of none.
    pub fn median(&self) -> f64 {
        let sorted = self.sorted();
        let middle = sorted.len() / 2;
        match sorted.len() {
            0 => f64::NAN,
            n if n % 2 == 1 => sorted[middle],
            _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
        }
    }

    /// Bounds that hold the true median of what is measured with a probability of 95% or more, whatever its distribution
    /// (order statistics: a run lies on either side of the true median with probability one half). Six runs are the
    /// fewest that can tell.
    pub fn median_bounds(&self) -> Option<(f64, f64)> {
        const EACH_SIDE: f64 = 0.025;
        let sorted = self.sorted();
        // Probability that at most so many runs are on one side.
        let (mut outside, mut probability) = (0, 0.5_f64.powi(sorted.len() as i32));
        let mut below = probability;
        while below <= EACH_SIDE {
            outside += 1;
            probability *= (sorted.len() - outside + 1) as f64 / outside as f64;
            below += probability;
        }
        let first = outside.checked_sub(1)?;
        Some((sorted[first], sorted[sorted.len() - outside]))
    }

    /// The smallest run that at least `percent` of all runs do not exceed. NaN of none.
    pub fn percentile(&self, percent: f64) -> f64 {
        let sorted = self.sorted();
        let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.max(1) - 1).copied().unwrap_or(f64::NAN)
    }

    /// The smallest run. NaN of none.
    pub fn min(&self) -> f64 {
        self.0.iter().copied().fold(f64::NAN, f64::min)
    }

    /// The largest run. NaN of none.
    pub fn max(&self) -> f64 {
        self.0.iter().copied().fold(f64::NAN, f64::max)
    }

    /// Run by run: these divided by `base`, of the same pairs.
    pub fn over(&self, base: &Self) -> Self {
        self.0.iter().zip(&base.0).map(|(value, base)| value / base).collect()
    }

    fn sorted(&self) -> Vec<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted
    }
}

impl FromIterator<f64> for Samples {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between_the_two_in_the_middle() {
        assert_eq!(Samples::from_iter([4.0, 1.0, 3.0, 2.0]).median(), 2.5);
        assert_eq!(Samples::from_iter([9.0, 1.0, 2.0]).median(), 2.0);
        assert!(Samples::default().median().is_nan());
    }

    #[test]
    fn bounds_of_the_median_are_those_of_the_tables_of_the_sign_test() {
        let bounds = |runs: u32| (1..=runs).map(f64::from).collect::<Samples>().median_bounds();
        assert_eq!(bounds(0), None);
        assert_eq!(bounds(5), None);
        assert_eq!(bounds(6), Some((1.0, 6.0)));
        assert_eq!(bounds(9), Some((2.0, 8.0)));
        assert_eq!(bounds(20), Some((6.0, 15.0)));
        assert_eq!(bounds(100), Some((40.0, 61.0)));
    }

    #[test]
    fn a_percentile_is_a_run_that_was_measured() {
        let samples: Samples = (1..=200).map(f64::from).collect();
        assert_eq!(samples.percentile(99.0), 198.0);
        assert_eq!(samples.percentile(50.0), 100.0);
        assert_eq!(samples.percentile(0.0), 1.0);
    }

    #[test]
    fn ratios_are_those_of_pairs_not_of_medians() {
        let base = Samples::from_iter([1.0, 2.0, 4.0]);
        assert_eq!(Samples::from_iter([2.0, 2.0, 4.0]).over(&base).values(), [2.0, 1.0, 1.0]);
    }
}
