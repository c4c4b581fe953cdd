//! A send or a receive of one process, and one side of a message.

use std::num::NonZeroU64;

use super::ids::{CommId, MessageId};
use super::leaks::Origin;
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

/// A send or a receive, as it waits for its other side.
#[derive(Clone, Copy, Debug)]
pub(super) struct Endpoint {
    pub(super) id: MessageId,
    pub(super) origin: Origin,
    /// What whoever follows data calls it: of a send whose content is known.
    pub(super) number: Option<NonZeroU64>,
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

    pub(super) fn side(&self) -> Endpoint {
        Endpoint { id: self.id, origin: self.origin, number: None, since_ns: 0, element: self.element }
    }
}
