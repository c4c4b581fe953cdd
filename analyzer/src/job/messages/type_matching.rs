//! Messages whose elements are something else where they are received (type matching: MPI 4.0, 3.3.1): numbers of one kind are
//! read as numbers of another, and nothing fails.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::op::Endpoint;
use crate::mpi::datatypes::Element;
use crate::tape::input::CodePlace;

/// Pairs of calls of two ranks that are told apart.
const MOST: usize = 1 << 10;

/// Messages between two calls of two ranks.
#[derive(Clone, Debug)]
pub(crate) struct TypeMismatch {
    pub sender: TypedCall,
    pub receiver: TypedCall,
    /// How many there were.
    pub count: u64,
    /// When the first was sent, CLOCK_MONOTONIC.
    pub first_ns: u64,
}

/// One end of them.
#[derive(Clone, Debug)]
pub(crate) struct TypedCall {
    /// In MPI_COMM_WORLD.
    pub rank: u32,
    pub function: &'static str,
    pub element: Element,
    /// In the process's space.
    return_address: u64,
    /// What it returns to, once that was looked up.
    pub place: Option<CodePlace>,
}

impl TypedCall {
    fn of(end: &Endpoint, element: Element) -> Self {
        Self {
            rank: end.id.call.rank,
            function: &end.origin.row.name,
            element,
            return_address: end.origin.return_address,
            place: None,
        }
    }

    fn key(&self) -> (u32, u64, Element) {
        (self.rank, self.return_address, self.element)
    }
}

/// All of a job.
#[derive(Debug, Default)]
pub(crate) struct TypeMatching {
    found: BTreeMap<[(u32, u64, Element); 2], TypeMismatch>,
    /// Some of which it was not looked up where they were called.
    wants_places: bool,
    /// Something was found that nobody has asked for yet.
    is_new: bool,
}

impl TypeMatching {
    /// A message was received.
    #[inline]
    pub(super) fn compare(&mut self, send: &Endpoint, receive: &Endpoint) {
        if let Some((sent, received)) = send.element.zip(receive.element)
            && !sent.can_be_read_as(received)
        {
            self.note(TypedCall::of(send, sent), TypedCall::of(receive, received), send.since_ns);
        }
    }

    fn note(&mut self, sender: TypedCall, receiver: TypedCall, time_ns: u64) {
        let is_full = self.found.len() >= MOST;
        match self.found.entry([sender.key(), receiver.key()]) {
            Entry::Occupied(mut known) => known.get_mut().count += 1,
            Entry::Vacant(_) if is_full => {}
            Entry::Vacant(free) => {
                free.insert(TypeMismatch { sender, receiver, count: 1, first_ns: time_ns });
                (self.wants_places, self.is_new) = (true, true);
            }
        }
    }

    /// All that was found.
    pub fn found(&self) -> impl Iterator<Item = &TypeMismatch> {
        self.found.values()
    }

    /// Whether something was found since the last call.
    pub(super) fn take_new(&mut self) -> bool {
        std::mem::take(&mut self.is_new)
    }

    /// Whether there are calls of which it was not looked up where they were made.
    pub(super) fn wants_places(&self) -> bool {
        self.wants_places
    }

    /// Looks that up; `place`: where a rank's return address is in the code.
    pub(super) fn find_places(&mut self, place: impl Fn(u32, u64) -> Option<CodePlace>) {
        self.wants_places = false;
        for found in self.found.values_mut() {
            for end in [&mut found.sender, &mut found.receiver] {
                end.place = end.place.or_else(|| place(end.rank, end.return_address));
            }
        }
    }
}
