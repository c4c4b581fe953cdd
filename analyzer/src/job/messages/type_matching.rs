//! Messages whose elements are something else where they are received (type matching: MPI 4.0, 3.3.1): numbers of one kind are
//! read as numbers of another, and nothing fails.

use super::found::FoundByCall;
use super::op::Endpoint;
use crate::mpi::datatypes::Element;
use crate::tape::input::CodePlace;

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
pub(crate) struct TypeMatching(FoundByCall<[(u32, u64, Element); 2], TypeMismatch>);

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
        let again = |known: &mut TypeMismatch| {
            known.count += 1;
            false
        };
        let key = [sender.key(), receiver.key()];
        self.0.note(key, again, || TypeMismatch { sender, receiver, count: 1, first_ns: time_ns });
    }

    /// All that was found.
    pub fn found(&self) -> impl Iterator<Item = &TypeMismatch> {
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
            for end in [&mut found.sender, &mut found.receiver] {
                end.place = end.place.or_else(|| place(end.rank, end.return_address));
            }
        });
    }
}
