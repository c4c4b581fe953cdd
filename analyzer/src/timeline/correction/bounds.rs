//! Numbers that are known within bounds.

use std::ops::{Add, AddAssign, Sub};

use serde::{Deserialize, Serialize};

/// A duration, or how much earlier or later something is, ns: at least, probably, and at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bounds {
    /// Not less.
    pub least_ns: f64,
    /// Most likely.
    pub likely_ns: f64,
    /// Not more.
    pub most_ns: f64,
}

impl Bounds {
    /// Known exactly.
    pub const fn exactly(ns: f64) -> Self {
        Self { least_ns: ns, likely_ns: ns, most_ns: ns }
    }

    /// These three, put into order.
    pub fn of(least_ns: f64, likely_ns: f64, most_ns: f64) -> Self {
        let (least_ns, most_ns) = (least_ns.min(most_ns), most_ns.max(least_ns));
        Self { least_ns, likely_ns: likely_ns.clamp(least_ns, most_ns), most_ns }
    }

    /// So many times as much; not negative.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        Self {
            least_ns: self.least_ns * factor,
            likely_ns: self.likely_ns * factor,
            most_ns: self.most_ns * factor,
        }
    }

    /// No more than there was.
    #[must_use]
    pub fn at_most(self, ns: f64) -> Self {
        self.min(Self::exactly(ns))
    }

    /// Whichever of both is later, bound by bound.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            least_ns: self.least_ns.max(other.least_ns),
            likely_ns: self.likely_ns.max(other.likely_ns),
            most_ns: self.most_ns.max(other.most_ns),
        }
    }

    /// Whichever of both is earlier, bound by bound.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        Self {
            least_ns: self.least_ns.min(other.least_ns),
            likely_ns: self.likely_ns.min(other.likely_ns),
            most_ns: self.most_ns.min(other.most_ns),
        }
    }

    /// Whichever is possible if either is: the likely one is that of `self`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self::of(self.least_ns.min(other.least_ns), self.likely_ns, self.most_ns.max(other.most_ns))
    }

    /// How far the bounds are apart.
    pub fn width_ns(self) -> f64 {
        self.most_ns - self.least_ns
    }

    /// Whether a number is within.
    pub fn contains(self, ns: f64) -> bool {
        (self.least_ns..=self.most_ns).contains(&ns)
    }

    /// The three numbers, each as if all costs were as high, as likely, and as low as they can be: a duration from
    /// `earlier` to `later` by the clock, of which these are the shifts.
    pub fn duration(measured_ns: f64, earlier: Self, later: Self) -> Self {
        let each = [
            measured_ns + later.least_ns - earlier.least_ns,
            measured_ns + later.likely_ns - earlier.likely_ns,
            measured_ns + later.most_ns - earlier.most_ns,
        ];
        let least_ns = each.into_iter().fold(f64::INFINITY, f64::min);
        let most_ns = each.into_iter().fold(f64::NEG_INFINITY, f64::max);
        Self { least_ns, likely_ns: each[1], most_ns }
    }
}

impl Add for Bounds {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            least_ns: self.least_ns + other.least_ns,
            likely_ns: self.likely_ns + other.likely_ns,
            most_ns: self.most_ns + other.most_ns,
        }
    }
}

impl AddAssign for Bounds {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Bounds {
    type Output = Self;

    /// Less what is known within bounds itself: the least is that without the most.
    fn sub(self, other: Self) -> Self {
        Self {
            least_ns: self.least_ns - other.most_ns,
            likely_ns: self.likely_ns - other.likely_ns,
            most_ns: self.most_ns - other.least_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_away_is_taken_away_with_its_own_bounds() {
        let rest = Bounds::exactly(100.0) - Bounds::of(10.0, 20.0, 40.0);
        assert_eq!(rest, Bounds::of(60.0, 80.0, 90.0));
        assert_eq!(rest.width_ns(), 30.0);
        assert!(rest.contains(60.0) && !rest.contains(91.0));
    }

    #[test]
    fn bounds_are_in_order_whatever_they_are_made_of() {
        assert_eq!(Bounds::of(5.0, 9.0, 1.0), Bounds { least_ns: 1.0, likely_ns: 5.0, most_ns: 5.0 });
        let either = Bounds::of(1.0, 2.0, 3.0).or(Bounds::of(0.0, 7.0, 9.0));
        assert_eq!(either, Bounds::of(0.0, 2.0, 9.0));
    }
}
