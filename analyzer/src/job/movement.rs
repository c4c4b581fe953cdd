//! Data movements with their places resolved.

use super::ids::{CallSiteId, SpaceId, ThreadId, WhoId};
use super::names::{BufferId, Kind, SiteId};

/// One side of a movement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Side {
    /// In the address space of the process that holds it.
    pub addr: u64,
    pub buffer: BufferId,
    /// Where its bytes are; none: only the name is known.
    pub space: SpaceId,
    pub start: u64,
    pub end: u64,
}

/// A data movement, its places resolved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Movement {
    pub thread: ThreadId,
    pub process: u32,
    pub pid: u32,
    pub tid: u32,
    pub who: WhoId,
    pub time_ns: u64,
    pub site: SiteId,
    pub kind: Kind,
    pub source: Side,
    pub destination: Side,
    pub len_bytes: u64,
    /// Pieces that the record itself tells of.
    pub segments: u32,
    /// The other process of a cross-memory operation.
    pub remote: Option<u32>,
    pub call: CallSiteId,
}
