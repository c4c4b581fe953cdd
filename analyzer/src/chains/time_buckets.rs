//! Counts over time in few buckets: their width doubles when the run outgrows them.

/// Buckets of a axis.
pub(crate) const BUCKETS: usize = 64;
/// First width: 2^20 ns, about a millisecond.
const FIRST_WIDTH_BITS: u32 = 20;

/// Which bucket a time is in, the same for all counts.
#[derive(Clone, Debug)]
pub(crate) struct TimeAxis {
    begin_ns: Option<u64>,
    now_ns: u64,
    /// From here on there are not enough buckets; what is before is the usual case.
    until_ns: u64,
    width_bits: u32,
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
            touched: 0,
            touched_from_ns: None,
        }
    }
}

impl TimeAxis {
    /// The clock goes on. Returns how many times all buckets must be halved.
    #[inline(always)]
    pub fn advance(&mut self, time_ns: u64) -> u32 {
        self.now_ns = self.now_ns.max(time_ns);
        if time_ns < self.until_ns { 0 } else { self.advance_far(time_ns) }
    }

    fn advance_far(&mut self, time_ns: u64) -> u32 {
        let begin = *self.begin_ns.get_or_insert(time_ns);
        let mut halvings = 0;
        while (self.now_ns.saturating_sub(begin) >> self.width_bits) >= BUCKETS as u64 {
            self.width_bits += 1;
            self.touched = halved_bits(self.touched);
            halvings += 1;
        }
        self.until_ns = begin.saturating_add((BUCKETS as u64) << self.width_bits);
        halvings
    }

    /// Bucket of a time; what is before the begin is in the first.
    pub fn bucket(&self, time_ns: u64) -> usize {
        let since = time_ns.saturating_sub(self.begin_ns.unwrap_or(time_ns));
        ((since >> self.width_bits) as usize).min(BUCKETS - 1)
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
        self.begin_ns.unwrap_or(0).saturating_add((bucket as u64) << self.width_bits)
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

impl Default for Buckets {
    fn default() -> Self {
        Self { bucket: 0, count: 0, last: 0, all: Box::new([0; BUCKETS]) }
    }
}

impl Buckets {
    /// Counts one.
    #[inline]
    pub fn add(&mut self, bucket: usize) {
        if bucket != self.bucket as usize || self.count == u32::MAX {
            self.settle();
            self.bucket = bucket as u32;
        }
        self.count += 1;
    }

    fn settle(&mut self) {
        self.all[self.bucket as usize] += u64::from(std::mem::take(&mut self.count));
        self.last = self.last.max(self.bucket);
    }

    /// Two buckets become one.
    pub fn halve(&mut self) {
        self.settle();
        self.bucket /= 2;
        self.last /= 2;
        for i in 0..BUCKETS / 2 {
            self.all[i] = self.all[2 * i] + self.all[2 * i + 1];
        }
        self.all[BUCKETS / 2..].fill(0);
    }

    /// Counts from a bucket on.
    pub fn since(&self, bucket: usize) -> u64 {
        let now = if self.bucket as usize >= bucket { u64::from(self.count) } else { 0 };
        let before = self.all.get(bucket..=self.last as usize).unwrap_or_default();
        now + before.iter().sum::<u64>()
    }
}

fn halved_bits(bits: u64) -> u64 {
    (0..32).filter(|i| bits >> (2 * i) & 3 != 0).fold(0, |all, i| all | 1 << i)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_growing_run_keeps_its_counts_in_the_right_half() {
        let mut axis = TimeAxis::default();
        let mut buckets = Buckets::default();
        axis.advance(1000);
        for i in 0..1000u64 {
            let time_ns = 1000 + i * 1_000_000;
            for _ in 0..axis.advance(time_ns) {
                buckets.halve();
            }
            buckets.add(axis.bucket(time_ns));
        }
        let half = axis.used() / 2;
        let begin_ns = axis.bucket_begin_ns(half);
        let want = (0..1000u64).filter(|i| 1000 + i * 1_000_000 >= begin_ns).count() as u64;
        assert_eq!((buckets.since(0), buckets.since(half)), (1000, want));
        assert!(axis.used() > 32);
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
}
