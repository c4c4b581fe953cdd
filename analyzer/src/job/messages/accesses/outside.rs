//! Accesses that go past an end of the memory that their target has in the window.

use std::ops::Range;

use super::access::OneSidedAccess;
use crate::job::messages::found::FoundByCall;
use crate::mpi::calls::WindowAccess;
use crate::tape::input::CodePlace;

/// What one call of one rank did outside of windows.
#[derive(Clone, Debug)]
pub(crate) struct OutsideAccess {
    /// In MPI_COMM_WORLD.
    pub rank: u32,
    pub function: &'static str,
    return_address: u64,
    /// What it returns to, once that was looked up.
    pub place: Option<CodePlace>,
    /// It changes memory; otherwise it reads.
    pub is_written: bool,
    /// How often.
    pub count: u64,
    /// Of the first time: whose memory it was, in MPI_COMM_WORLD, …
    pub target: u32,
    /// … how much of it is in the window, …
    pub window_bytes: u64,
    /// … where in the window the access begins, …
    pub offset_bytes: i64,
    /// … how long it is, …
    pub len_bytes: u64,
    /// … and when its call was made, CLOCK_MONOTONIC.
    pub first_ns: u64,
}

/// Of all windows.
#[derive(Debug, Default)]
pub(super) struct OutsideAccesses(FoundByCall<(u32, u64), OutsideAccess>);

impl OutsideAccesses {
    /// An access to bytes of the memory that a target has in a window, so many in all; `target`: in MPI_COMM_WORLD.
    pub fn check(
        &mut self,
        access: &OneSidedAccess,
        range: &Range<i64>,
        window_bytes: u64,
        target: impl FnOnce() -> u32,
    ) {
        let is_inside = range.start >= 0 && range.end.cast_unsigned() <= window_bytes;
        if is_inside {
            return;
        }
        let return_address = access.origin.return_address;
        let again = |known: &mut OutsideAccess| {
            known.count += 1;
            false
        };
        self.0.note((access.rank, return_address), again, || OutsideAccess {
            rank: access.rank,
            function: access.origin.row.name.as_str(),
            return_address,
            place: None,
            is_written: access.kind != WindowAccess::Get,
            count: 1,
            target: target(),
            window_bytes,
            offset_bytes: range.start,
            len_bytes: access.len_bytes,
            first_ns: access.time_ns,
        });
    }

    /// All that was found.
    pub fn found(&self) -> impl Iterator<Item = &OutsideAccess> {
        self.0.all()
    }

    /// See [`FoundByCall::take_new`].
    pub fn take_new(&mut self) -> bool {
        self.0.take_new()
    }

    /// See [`FoundByCall::wants_places`].
    pub fn wants_places(&self) -> bool {
        self.0.wants_places()
    }

    /// `place`: where a rank's return address is in the code.
    pub fn find_places(&mut self, place: impl Fn(u32, u64) -> Option<CodePlace>) {
        self.0.find_places(|found| {
            found.place = found.place.or_else(|| place(found.rank, found.return_address))
        });
    }
}
