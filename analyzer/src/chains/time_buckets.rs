//! Counts over time in few buckets: their width doubles when the run outgrows them.

/// Buckets of a axis.
pub(crate) const BUCKETS: usize = 64;
/// First width: 2^20 ns, about a millisecond.
const FIRST_WIDTH_BITS: u32 = 20;

/// Which bucket a time is in, the same for all counts.
///
/// Buckets begin where the wall clock shows a multiple of their width: so they are the same on all nodes of a job, whenever
/// their sessions began, and a narrow one lies in one wide one.
#[derive(Clone, Debug)]
pub(crate) struct TimeAxis {
    begin_ns: Option<u64>,
    now_ns: u64,
    /// From here on there are not enough buckets; what is before is the usual case.
    until_ns: u64,
    width_bits: u32,
    /// What the wall clock shows when this one shows 0.
    wall_ns: u64,
    /// The bucket that the begin is in, from when the wall clock showed 0.
    first: u64,
    /// Buckets whose counts are not complete, one bit each.
    touched: u64,
    /// From this time on no count is complete.
    touched_from_ns: Option<u64>,
}

impl Default for TimeAxis {
    fn default() -> Self {
        Self {
            begin_ns: None,
            now_ns: 0,
            until_ns: 0,
            width_bits: FIRST_WIDTH_BITS,
            wall_ns: 0,
            first: 0,
            touched: 0,
            touched_from_ns: None,
        }
    }
}

/// Each time two buckets became one: whether the first one was the second of its pair.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Halvings {
    count: u32,
    odd: u64,
}

impl Halvings {
    fn add(&mut self, is_odd: bool) {
        self.odd |= u64::from(is_odd) << self.count;
        self.count += 1;
    }
}

impl Iterator for Halvings {
    type Item = bool;

    #[inline(always)]
    fn next(&mut self) -> Option<bool> {
        self.count = self.count.checked_sub(1)?;
        let is_odd = self.odd & 1 == 1;
        self.odd >>= 1;
        Some(is_odd)
    }
}

impl TimeAxis {
    /// The wall clock shows so much more than the clock of the session.
    pub fn set_wall_clock(&mut self, wall_ns: u64) {
        // What was counted stays where it is.
        if self.width_bits == FIRST_WIDTH_BITS && self.used() == 1 {
            self.wall_ns = wall_ns;
            self.settle();
        }
    }

    /// The clock goes on. Returns how many times all buckets must be halved, and how.
    #[inline(always)]
    pub fn advance(&mut self, time_ns: u64) -> Halvings {
        self.now_ns = self.now_ns.max(time_ns);
        if time_ns < self.until_ns { Halvings::default() } else { self.advance_far(time_ns) }
    }

    #[inline(never)]
    fn advance_far(&mut self, time_ns: u64) -> Halvings {
        self.begin_ns.get_or_insert(time_ns);
        let mut halvings = Halvings::default();
        self.settle();
        while self.whole(self.now_ns).saturating_sub(self.first) >= BUCKETS as u64 {
            let is_odd = self.first % 2 == 1;
            self.touched = halved_bits(self.touched, is_odd);
            halvings.add(is_odd);
            self.width_bits += 1;
            self.settle();
        }
        halvings
    }

    /// What follows from the begin and the width.
    fn settle(&mut self) {
        self.first = self.whole(self.begin_ns.unwrap_or(0));
        let end = u128::from(self.first + BUCKETS as u64) << self.width_bits;
        self.until_ns = u64::try_from(end).unwrap_or(u64::MAX).saturating_sub(self.wall_ns);
    }

    /// The bucket of a time, from when the wall clock showed 0.
    #[inline]
    fn whole(&self, time_ns: u64) -> u64 {
        self.bucket_of(time_ns, self.width_bits)
    }

    /// The same, of buckets that are so wide: all nodes number them like this.
    #[inline]
    pub fn bucket_of(&self, time_ns: u64, width_bits: u32) -> u64 {
        time_ns.saturating_add(self.wall_ns) >> width_bits
    }

    /// The number that all nodes give to a bucket.
    pub fn number_of(&self, bucket: usize) -> u64 {
        self.first.saturating_add(bucket as u64)
    }

    /// The bucket in which one lies that is so wide and that all nodes number so.
    pub fn bucket_around(&self, number: u64, width_bits: u32) -> usize {
        let begin = u128::from(number) << width_bits;
        let whole = u64::try_from(begin >> self.width_bits).unwrap_or(u64::MAX);
        (whole.saturating_sub(self.first) as usize).min(BUCKETS - 1)
    }

    /// Counts of a bucket that is so wide and that all nodes number so are not complete.
    pub fn touch_around(&mut self, number: u64, width_bits: u32) {
        let end = u128::from(number.saturating_add(1)) << width_bits;
        let last = u64::try_from((end - 1) >> self.width_bits).unwrap_or(u64::MAX).saturating_sub(self.first);
        for bucket in self.bucket_around(number, width_bits)..=(last as usize).min(BUCKETS - 1) {
            self.touched |= 1 << bucket;
        }
    }

    /// How wide buckets are: so many bits of the number of nanoseconds.
    pub fn width_bits(&self) -> u32 {
        self.width_bits
    }

    /// Buckets whose counts are not complete, and from when on none is.
    pub fn touched(&self) -> (impl Iterator<Item = usize> + use<>, Option<u64>) {
        let touched = self.touched;
        ((0..BUCKETS).filter(move |bucket| touched >> bucket & 1 == 1), self.touched_from_ns)
    }

    /// Bucket of a time; what is before the begin is in the first.
    #[inline]
    pub fn bucket(&self, time_ns: u64) -> usize {
        (self.whole(time_ns).saturating_sub(self.first) as usize).min(BUCKETS - 1)
    }

    /// Counts over this stretch of time are not complete.
    pub fn touch(&mut self, from_ns: u64, to_ns: u64) {
        for bucket in self.bucket(from_ns)..=self.bucket(to_ns.max(from_ns)) {
            self.touched |= 1 << bucket;
        }
    }

    /// No count is complete from this time on.
    pub fn touch_from(&mut self, time_ns: u64) {
        self.touched_from_ns = Some(self.touched_from_ns.map_or(time_ns, |t| t.min(time_ns)));
    }

    /// Whether counts from a bucket on are not complete.
    pub fn is_touched_from(&self, bucket: usize) -> bool {
        self.touched >> bucket != 0 || self.touched_from_ns.is_some()
    }

    /// Buckets in use.
    pub fn used(&self) -> usize {
        self.bucket(self.now_ns) + 1
    }

    /// When a bucket begins.
    pub fn bucket_begin_ns(&self, bucket: usize) -> u64 {
        let begin_ns = self.begin_ns.unwrap_or(0);
        let whole = u128::from(self.first + bucket as u64) << self.width_bits;
        u64::try_from(whole).unwrap_or(u64::MAX).saturating_sub(self.wall_ns).max(begin_ns)
    }

    /// The latest time seen.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }
}

/// Counts by bucket.
#[derive(Clone, Debug)]
pub(crate) struct Buckets {
    /// Counted last: at hand, as long as it is the same.
    bucket: u32,
    /// What `all` does not know yet of it.
    count: u32,
    /// The last bucket that `all` has counts in.
    last: u32,
    all: Box<[u64; BUCKETS]>,
}

/// In place of the bucket that was counted last: nothing was counted since all were taken.
const NO_BUCKET: u32 = u32::MAX;

impl Default for Buckets {
    fn default() -> Self {
        Self { bucket: NO_BUCKET, count: 0, last: 0, all: Box::new([0; BUCKETS]) }
    }
}

impl Buckets {
    /// Counts one; returns whether it is the first since all were taken.
    #[inline]
    pub fn add(&mut self, bucket: usize) -> bool {
        let is_same = bucket == self.bucket as usize && self.count < u32::MAX;
        let is_first = if is_same { false } else { self.go_to(bucket) };
        self.count += 1;
        is_first
    }

    /// Counts so many; returns the same.
    pub fn add_many(&mut self, bucket: usize, count: u64) -> bool {
        let is_first = self.go_to(bucket);
        self.all[bucket] = self.all[bucket].saturating_add(count);
        is_first
    }

    #[inline(never)]
    fn go_to(&mut self, bucket: usize) -> bool {
        let is_first = self.bucket == NO_BUCKET;
        self.settle();
        self.bucket = bucket as u32;
        self.last = self.last.max(self.bucket);
        is_first
    }

    fn settle(&mut self) {
        if let Some(all) = self.all.get_mut(self.bucket as usize) {
            *all = all.saturating_add(u64::from(std::mem::take(&mut self.count)));
        }
    }

    /// Takes what was counted, by bucket.
    pub fn take(&mut self) -> Vec<(usize, u64)> {
        self.settle();
        let used = &mut self.all[..=self.last as usize];
        let counted = used.iter_mut().enumerate().filter(|(_, count)| **count > 0);
        let taken = counted.map(|(bucket, count)| (bucket, std::mem::take(count))).collect();
        (self.bucket, self.last) = (NO_BUCKET, 0);
        taken
    }

    /// Two buckets become one. `is_odd`: the first one is the second of its pair.
    pub fn halve(&mut self, is_odd: bool) {
        self.settle();
        let shift = u32::from(is_odd);
        if self.bucket != NO_BUCKET {
            self.bucket = (self.bucket + shift) / 2;
        }
        self.last = (self.last + shift) / 2;
        let mut halved = [0; BUCKETS];
        for (at, count) in self.all.iter().enumerate() {
            let half: &mut u64 = &mut halved[(at + shift as usize) / 2];
            *half = half.saturating_add(*count);
        }
        *self.all = halved;
    }

    /// Counts from a bucket on.
    pub fn since(&self, bucket: usize) -> u64 {
        let now = if self.bucket as usize >= bucket { u64::from(self.count) } else { 0 };
        let before = self.all.get(bucket..=self.last as usize).unwrap_or_default();
        before.iter().fold(now, |sum, count| sum.saturating_add(*count))
    }
}

fn halved_bits(bits: u64, is_odd: bool) -> u64 {
    let bits = u128::from(bits) << u32::from(is_odd);
    (0..=BUCKETS / 2).filter(|i| bits >> (2 * i) & 3 != 0).fold(0, |all, i| all | 1 << i)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_growing_run_keeps_its_counts_in_the_right_half() {
        let mut axis = TimeAxis::default();
        let mut buckets = Buckets::default();
        axis.advance(1000);
        for i in 0..1000u64 {
            let time_ns = 1000 + i * 1_000_000;
            for is_odd in axis.advance(time_ns) {
                buckets.halve(is_odd);
            }
            buckets.add(axis.bucket(time_ns));
        }
        let half = axis.used() / 2;
        let begin_ns = axis.bucket_begin_ns(half);
        let want = (0..1000u64).filter(|i| 1000 + i * 1_000_000 >= begin_ns).count() as u64;
        assert_eq!((buckets.since(0), buckets.since(half)), (1000, want));
        assert!(axis.used() > 32);
    }

    proptest! {
        #[test]
        fn however_wide_buckets_become_a_time_is_in_the_one_that_the_wall_clock_says(
            wall_ns in 0u64..1 << 40,
            begin_ns in 0u64..1 << 40,
            steps in prop::collection::vec(0u64..1 << 32, 1..60),
        ) {
            let (mut axis, mut buckets, mut times) = (TimeAxis::default(), Buckets::default(), vec![]);
            axis.advance(begin_ns);
            axis.set_wall_clock(wall_ns);
            let mut now_ns = begin_ns;
            for step in steps {
                now_ns += step;
                for is_odd in axis.advance(now_ns) {
                    buckets.halve(is_odd);
                }
                buckets.add(axis.bucket(now_ns));
                times.push(now_ns);
            }
            let bucket = |time_ns: u64| {
                ((time_ns + wall_ns) >> axis.width_bits) - ((begin_ns + wall_ns) >> axis.width_bits)
            };
            for from in 0..BUCKETS {
                let since = times.iter().filter(|time_ns| bucket(**time_ns) >= from as u64).count() as u64;
                prop_assert_eq!(buckets.since(from), since, "from {} of {:?}", from, axis);
            }
            for time_ns in times {
                let begin_ns = axis.bucket_begin_ns(axis.bucket(time_ns));
                prop_assert!(begin_ns <= time_ns && axis.bucket(begin_ns) == axis.bucket(time_ns));
            }
        }
    }

    #[test]
    fn times_that_run_wild_end_in_a_bucket() {
        let mut axis = TimeAxis::default();
        axis.advance(1 << 40);
        axis.advance(u64::MAX);
        axis.advance(0);
        assert_eq!(axis.bucket(0), 0);
        assert!(axis.bucket(u64::MAX) < BUCKETS);
        axis.touch(u64::MAX, 0);
        assert!(axis.is_touched_from(axis.bucket(u64::MAX)));
    }

    #[test]
    fn a_loss_stays_where_it_was_when_buckets_get_wider() {
        let mut axis = TimeAxis::default();
        axis.advance(0);
        axis.advance(60 << FIRST_WIDTH_BITS);
        axis.touch(10 << FIRST_WIDTH_BITS, 11 << FIRST_WIDTH_BITS);
        axis.advance(100 << FIRST_WIDTH_BITS);
        assert!(axis.is_touched_from(5) && !axis.is_touched_from(6));
    }

    #[test]
    fn a_loss_stays_where_it_was_when_the_first_bucket_is_the_second_of_its_pair() {
        let mut axis = TimeAxis::default();
        axis.advance(1 << FIRST_WIDTH_BITS);
        axis.touch(64 << FIRST_WIDTH_BITS, 64 << FIRST_WIDTH_BITS);
        axis.advance(100 << FIRST_WIDTH_BITS);
        assert!(axis.is_touched_from(32) && !axis.is_touched_from(33));
    }
}
