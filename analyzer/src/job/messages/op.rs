//! A send or a receive of one process, and one side of a message.

use std::num::NonZeroU64;

use super::ids::{CommId, MessageId};
use super::leaks::Origin;
use crate::mpi::calls::Does;
use crate::mpi::datatypes::Element;

/// A range of a process's memory. As small as it can be: every request has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MessageContent {
    /// In the process's space.
    pub addr: u64,
    /// Of a receive: at most.
    pub len_bytes: NonZeroU64,
    /// When the call was made that gives it to the library, CLOCK_MONOTONIC.
    pub since_ns: u64,
}

/// A message of one process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Op {
    pub(super) id: MessageId,
    pub(super) origin: Origin,
    pub(super) sends: bool,
    /// With the process's own number in it; `None`: not known.
    pub(super) place: Option<(CommId, u32)>,
    /// Its number in the communicator, its rank where that is not known; `None`: anybody.
    pub(super) peer: Option<u32>,
    pub(super) tag: i32,
    /// Where its content is, if that is followed and known.
    pub(super) content: Option<MessageContent>,
    /// It has no content.
    pub(super) is_empty: bool,
    /// What its elements are, if it has any and that is known.
    pub(super) element: Option<Element>,
}

/// What a send has in common with the receive that gets it.
#[derive(Clone, Copy, Debug)]
pub(super) struct SentContent {
    /// What whoever follows data calls it.
    pub(super) number: NonZeroU64,
    pub(super) len_bytes: NonZeroU64,
}

/// A send or a receive, as it waits for its other side.
#[derive(Clone, Copy, Debug)]
pub(super) struct Endpoint {
    pub(super) id: MessageId,
    pub(super) origin: Origin,
    /// Of a send whose content is known.
    pub(super) sent: Option<SentContent>,
    /// Of a send: when its call was made, CLOCK_MONOTONIC.
    pub(super) since_ns: u64,
    /// What its elements are, if it has any and that is known.
    pub(super) element: Option<Element>,
}

impl PartialEq for Endpoint {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Op {
    /// Whether both go the same way.
    pub(super) fn is_alike(&self, other: &Self) -> bool {
        (self.sends, self.peer, self.tag, self.place) == (other.sends, other.peer, other.tag, other.place)
    }

    /// Whether it is no message, but moves data to a window or from there.
    pub(super) fn is_one_sided(&self) -> bool {
        matches!(self.origin.row.does, Does::OneSided(_))
    }

    pub(super) fn side(&self) -> Endpoint {
        Endpoint { id: self.id, origin: self.origin, sent: None, since_ns: 0, element: self.element }
    }
}
