//! Buffers of one call that overlap where it reads one and writes the other: MPI forbids that (MPI 4.0, 2.3 and 3.10), and which data a rank
//! gets or gives depends on how the library does it.

use std::ops::Range;

use super::found::FoundByCall;
use super::leaks::Origin;
use crate::tape::input::CodePlace;

/// What one call of one rank was given.
#[derive(Clone, Debug)]
pub(crate) struct AliasedBuffers {
    /// In MPI_COMM_WORLD.
    pub rank: u32,
    pub function: &'static str,
    return_address: u64,
    /// What it returns to, once that was looked up.
    pub place: Option<CodePlace>,
    /// How often.
    pub count: u64,
    /// Of the first time: how much is read, …
    pub read_bytes: u64,
    /// … how much of that is written as well, …
    pub overlap_bytes: u64,
    /// … and when the call was made, CLOCK_MONOTONIC.
    pub first_ns: u64,
    /// Each time, what the rank gave was its own part of what it got, which lies where it would be put anyway.
    pub is_own_part: bool,
}

/// Of all ranks.
#[derive(Debug, Default)]
pub(crate) struct Overlapping(FoundByCall<(u32, u64), AliasedBuffers>);

/// Two buffers of a call.
#[derive(Clone, Debug)]
pub(super) struct BuffersOfCall {
    pub rank: u32,
    pub origin: Origin,
    pub read: Range<u64>,
    pub written: Range<u64>,
    /// What is read is the rank's own part of what is written, and lies where it would be put anyway; or the other way round.
    pub is_own_part: bool,
    /// CLOCK_MONOTONIC.
    pub time_ns: u64,
}

impl Overlapping {
    /// A call is given buffers.
    pub(super) fn check(&mut self, call: &BuffersOfCall) {
        let (read, written) = (&call.read, &call.written);
        let (start, end) = (read.start.max(written.start), read.end.min(written.end));
        if start >= end {
            return;
        }
        let is_own_part = call.is_own_part;
        let return_address = call.origin.return_address;
        let again = |known: &mut AliasedBuffers| {
            known.count += 1;
            let is_news = known.is_own_part && !is_own_part;
            known.is_own_part &= is_own_part;
            is_news
        };
        self.0.note((call.rank, return_address), again, || AliasedBuffers {
            rank: call.rank,
            function: call.origin.row.name.as_str(),
            return_address,
            place: None,
            count: 1,
            read_bytes: read.end - read.start,
            overlap_bytes: end - start,
            first_ns: call.time_ns,
            is_own_part,
        });
    }

    /// All that was found.
    pub(crate) fn found(&self) -> impl Iterator<Item = &AliasedBuffers> {
        self.0.all()
    }

    /// See [`FoundByCall::take_new`].
    pub(super) fn take_new(&mut self) -> bool {
        self.0.take_new()
    }

    /// See [`FoundByCall::wants_places`].
    pub(super) fn wants_places(&self) -> bool {
        self.0.wants_places()
    }

    /// `place`: where a rank's return address is in the code.
    pub(super) fn find_places(&mut self, place: impl Fn(u32, u64) -> Option<CodePlace>) {
        self.0.find_places(|found| {
            found.place = found.place.or_else(|| place(found.rank, found.return_address))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpi::calls::row;

    fn found(calls: &[(Range<u64>, Range<u64>, bool)]) -> Vec<(u64, u64, bool)> {
        let mut overlapping = Overlapping::default();
        for (read, written, is_own_part) in calls {
            let origin = Origin { row: row("MPI_Allgather").expect("a call"), return_address: 0x10 };
            let (read, written, is_own_part) = (read.clone(), written.clone(), *is_own_part);
            overlapping.check(&BuffersOfCall { rank: 1, origin, read, written, is_own_part, time_ns: 5 });
        }
        overlapping.found().map(|found| (found.count, found.overlap_bytes, found.is_own_part)).collect()
    }

    #[test]
    fn only_bytes_that_are_in_both_count() {
        assert_eq!(found(&[(0..10, 10..20, false), (20..30, 10..20, false)]), []);
        assert_eq!(found(&[(0..10, 9..20, false), (0..10, 0..10, false)]), [(2, 1, false)]);
    }

    #[test]
    fn an_own_part_that_lies_where_it_is_put_is_told_apart() {
        assert_eq!(found(&[(10..20, 0..40, true)]), [(1, 10, true)]);
        assert_eq!(found(&[(10..20, 0..40, true), (0..10, 0..40, false)]), [(2, 10, false)]);
    }
}
