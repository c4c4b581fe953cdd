//! One operation of a chain that is not finished.
//!
//! Kept in arrays by how often they are looked at: most records touch a few nodes that no
//! cache holds any more, and each of their lines costs as much as all the rest of the work.

use super::group::OpInstance;
use super::ids::{NodeId, PathId};
use crate::chains::op_names::OpNames;
use crate::chains::op_names::{ShapeId, SymbolId};
use crate::job::ids::SpaceId;
use crate::job::ids::ThreadId;
use crate::job::ids::{CallSiteId, WhoId};
use crate::job::movement::{Movement, Side};

/// What may be said of a node, yes or no.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks(u8);

impl Marks {
    pub const CROSSES: Self = Self(1);
    pub const HAD_CHILD: Self = Self(2);
    /// Its thread went on to something else: it can not become a pack any more.
    pub const CLOSED: Self = Self(8);
    /// Begins where the tool could not see what was before.
    pub const BEGIN_EDGE: Self = Self(16);
    /// Ends where the tool stopped looking.
    pub const END_EDGE: Self = Self(32);
    /// It may have gone on unseen.
    pub const TAINTED: Self = Self(64);
    /// It stands for an operation of another node.
    pub const ELSEWHERE: Self = Self(4);
    /// What is behind it is a chain of its own.
    pub const CUT: Self = Self(128);

    #[inline]
    pub fn has(self, mark: Self) -> bool {
        self.0 & mark.0 != 0
    }

    /// A node of this job's node that something was linked to.
    #[inline]
    pub fn is_passed(self) -> bool {
        self.0 & (Self::HAD_CHILD.0 | Self::ELSEWHERE.0) == Self::HAD_CHILD.0
    }

    #[inline]
    pub fn set(&mut self, mark: Self) {
        self.0 |= mark.0;
    }

    /// With a mark, if `given`.
    #[inline]
    pub fn with(self, mark: Self, given: bool) -> Self {
        if given { Self(self.0 | mark.0) } else { self }
    }
}

/// What is looked at whenever something becomes of a node: one line of the cache.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub struct Node {
    /// Number of this operation in the job.
    pub op: u64,
    pub time_ns: u64,
    pub live_bytes: u64,
    pub parent: NodeId,
    pub root: NodeId,
    /// 1 while live, and 1 for each pending child.
    pub pending: u32,
    pub segments: u32,
    pub process: u32,
    pub who: WhoId,
    pub call: CallSiteId,
    pub shape: ShapeId,
    pub path: PathId,
    pub depth: u8,
    pub marks: Marks,
}

const _: () = assert!(size_of::<Node>() == 64);

impl Node {
    #[inline]
    pub fn symbol(&self, names: &mut OpNames) -> SymbolId {
        names.shape_symbol(self.shape, self.segments >= 2, self.marks.has(Marks::CROSSES))
    }
}

/// What is asked for only where a node becomes an example, or ends by age.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub struct Details {
    pub source: u64,
    pub destination: u64,
    pub len_bytes: u64,
    /// Range of all that it wrote.
    pub low: u64,
    pub high: u64,
    pub pid: u32,
    pub tid: u32,
    pub thread: ThreadId,
    /// Space of the destination, if its bytes are known.
    pub space: SpaceId,
    /// Index of the other process of a cross-memory operation; [`NO_REMOTE`]: of none.
    remote: u32,
}

const NO_REMOTE: u32 = u32::MAX;

const _: () = assert!(size_of::<Details>() == 64);

impl Details {
    pub fn of(m: &Movement) -> Self {
        Self {
            source: m.source.addr,
            destination: m.destination.addr,
            len_bytes: m.len_bytes,
            low: m.destination.start,
            high: m.destination.end,
            pid: m.pid,
            tid: m.tid,
            thread: m.thread,
            space: m.destination.space,
            remote: m.remote.unwrap_or(NO_REMOTE),
        }
    }

    /// Of something that wrote into a stream elsewhere.
    pub fn of_stream(to: &Side) -> Self {
        Self {
            source: 0,
            destination: to.addr,
            len_bytes: to.end - to.start,
            low: to.start,
            high: to.end,
            pid: 0,
            tid: 0,
            thread: ThreadId::NONE,
            space: to.space,
            remote: NO_REMOTE,
        }
    }

    /// Index of the other process of a cross-memory operation.
    pub fn remote(&self) -> Option<u32> {
        (self.remote != NO_REMOTE).then_some(self.remote)
    }
}

/// All that is known of an operation, as groups take it.
pub fn instance(node: &Node, details: &Details, names: &OpNames) -> OpInstance {
    OpInstance {
        context: names.shape_context(node.shape),
        who: node.who,
        pid: details.pid,
        tid: details.tid,
        time_ns: node.time_ns,
        source: details.source,
        destination: details.destination,
        destination_buffer: names.shape_parts(node.shape).destination,
        len_bytes: details.len_bytes,
    }
}
