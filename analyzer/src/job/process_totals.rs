//! Counts of one process, as people are shown them.

/// Kinds of records: the highest number and one more.
pub(crate) const KINDS: usize = 22;

/// All counts of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProcessTotals {
    pub movements: u64,
    pub bytes: u64,
    /// MPI calls.
    pub calls: u64,
    pub empty_movements: u64,
    /// Written ranges of its own memory that are live: as many as there are now.
    pub live_buffers: u64,
    /// By kind.
    pub records: [u64; KINDS],
}

impl ProcessTotals {
    /// All but those of records.
    pub fn numbers(&self) -> [u64; 5] {
        [self.movements, self.bytes, self.calls, self.empty_movements, self.live_buffers]
    }

    /// The same, to be changed.
    pub fn numbers_mut(&mut self) -> [&mut u64; 5] {
        [
            &mut self.movements,
            &mut self.bytes,
            &mut self.calls,
            &mut self.empty_movements,
            &mut self.live_buffers,
        ]
    }

    /// Adds what is more in `now` than in `before`.
    pub fn add_difference(&mut self, now: &Self, before: &Self) {
        let add = |((to, now), before): ((&mut u64, &u64), &u64)| {
            *to = to.wrapping_add(now.wrapping_sub(*before));
        };
        self.numbers_mut().into_iter().zip(&now.numbers()).zip(&before.numbers()).for_each(add);
        self.records.iter_mut().zip(&now.records).zip(&before.records).for_each(add);
        self.live_buffers = now.live_buffers;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_that_begin_anew_are_added_and_what_is_live_is_not() {
        let told =
            |movements, live_buffers| ProcessTotals { movements, live_buffers, ..ProcessTotals::default() };
        let mut all = ProcessTotals::default();
        all.add_difference(&told(5, 3), &ProcessTotals::default());
        all.add_difference(&told(7, 2), &told(5, 3));
        // Another session of whoever counts.
        all.add_difference(&told(1, 1), &ProcessTotals::default());
        assert_eq!(all, told(8, 1));
    }
}
