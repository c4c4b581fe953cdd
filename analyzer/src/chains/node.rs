//! One operation of a chain that is not finished.

use super::{Movement, NodeId, PathId};
use crate::groups::OpInstance;
use crate::memory::SpaceId;
use crate::names::{BufferId, ContextId, Kind, SiteId, Symbol, SymbolId};
use crate::options::MAX_CONTEXT_WINDOW;
use crate::process::{CallId, WhoId};

/// What is kept of a movement.
#[derive(Clone, Copy)]
pub struct Moved {
    pub time_ns: u64,
    pub source: u64,
    pub destination: u64,
    pub len_bytes: u64,
    pub process: u32,
    pub pid: u32,
    pub tid: u32,
    pub who: WhoId,
    pub site: SiteId,
    pub source_buffer: BufferId,
    pub destination_buffer: BufferId,
    /// Space of the destination, if its bytes are known.
    pub space: SpaceId,
    pub remote: Option<u32>,
    pub call: CallId,
    pub kind: Kind,
}

impl Moved {
    pub fn of(m: &Movement) -> Self {
        Self {
            time_ns: m.time_ns,
            source: m.source.addr,
            destination: m.destination.addr,
            len_bytes: m.len_bytes,
            process: m.process,
            pid: m.pid,
            tid: m.tid,
            who: m.who,
            site: m.site,
            source_buffer: m.source.buffer,
            destination_buffer: m.destination.buffer,
            space: m.destination.at.map_or(SpaceId::NONE, |at| at.space),
            remote: m.remote,
            call: m.call,
            kind: m.kind,
        }
    }
}

#[derive(Clone)]
pub struct Node {
    pub moved: Moved,
    /// Number of this operation in the job.
    pub op: u64,
    pub segments: u32,
    pub parent: NodeId,
    pub root: NodeId,
    pub depth: u8,
    pub crosses: bool,
    pub live_bytes: u64,
    /// 1 while live, and 1 for each pending child.
    pub pending: u32,
    /// Threads' windows and roots' contexts that hold it.
    pub refs: u32,
    pub had_child: bool,
    /// Some operation read bytes of it, whether or not it became a child.
    pub read: bool,
    /// Its thread went on to something else: it can not become a pack any more.
    pub closed: bool,
    /// Begins where the tool could not see what was before.
    pub begin_edge: bool,
    /// Ends where the tool stopped looking.
    pub end_edge: bool,
    /// Range of all that it wrote.
    pub low: u64,
    pub high: u64,
    pub context: ContextId,
    pub before: [NodeId; MAX_CONTEXT_WINDOW],
    pub after: [ContextId; MAX_CONTEXT_WINDOW],
    pub after_len: u8,
    pub symbol: SymbolId,
    pub path: PathId,
}

impl Node {
    pub fn symbol_parts(&self) -> Symbol {
        let m = &self.moved;
        Symbol {
            site: m.site,
            kind: m.kind,
            pack: self.segments >= 2,
            crosses: self.crosses,
            source: m.source_buffer,
            destination: m.destination_buffer,
        }
    }

    pub fn instance(&self) -> OpInstance {
        let m = &self.moved;
        OpInstance {
            context: self.context,
            segments: self.segments,
            who: m.who,
            call: m.call,
            pid: m.pid,
            tid: m.tid,
            time_ns: m.time_ns,
            source: m.source,
            destination: m.destination,
            destination_buffer: m.destination_buffer,
            len_bytes: m.len_bytes,
        }
    }
}
