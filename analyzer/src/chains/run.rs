//! Consecutive copies of a thread that are one operation so far.

use super::ids::NodeId;
use crate::job::ids::SpaceId;
use crate::job::movement::Movement;
use crate::job::names::{Kind, SiteId};

/// How the copies of one operation lie.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    Unknown,
    Gather,
    Scatter,
}

/// Consecutive copies of a thread at one site that are one operation so far.
#[derive(Clone, Copy)]
pub struct CoalescedCopy {
    pub(super) node: NodeId,
    pub(super) parent: NodeId,
    pub(super) next_source: u64,
    pub(super) next_destination: u64,
    pub(super) site: SiteId,
    pub(super) kind: Kind,
    /// Space of the destination.
    pub(super) space: SpaceId,
    pub(super) remote: Option<u32>,
    pub(super) layout: Layout,
}

impl CoalescedCopy {
    /// A movement that may be the first piece of an operation.
    pub fn new(m: &Movement, node: NodeId, parent: NodeId) -> Self {
        Self {
            node,
            parent,
            next_source: m.source.addr.wrapping_add(m.len_bytes),
            next_destination: m.destination.addr.wrapping_add(m.len_bytes),
            site: m.site,
            kind: m.kind,
            space: m.destination.space,
            remote: m.remote,
            layout: Layout::Unknown,
        }
    }

    /// Whether a movement of the same thread does the same work, wherever its data is.
    pub(super) fn is_same_work(&self, m: &Movement) -> bool {
        self.site == m.site
            && self.kind == m.kind
            && self.space == m.destination.space
            && self.remote == m.remote
    }
}
