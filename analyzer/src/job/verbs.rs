//! RDMA verbs: what is posted and completed is counted; and which process is at the end of which queue pair.

use rustc_hash::FxHashMap;

use crate::tape::verbs::operation;
use crate::tape::wire::{Body, WorkSegment};

/// Numbers of [`VerbsCounts`].
pub(crate) const COUNTS: usize = size_of::<VerbsCounts>() / size_of::<u64>();

/// Work requests and completions of RDMA verbs, and what they move. The numbers go around rather than fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct VerbsCounts {
    /// Work requests posted to send queues: sends, RDMA writes and reads, atomics.
    pub sends: u64,
    /// Of all of their segments.
    pub sent_bytes: u64,
    /// Of `sends`: RDMA writes.
    pub writes: u64,
    /// Of `sends`: RDMA reads.
    pub reads: u64,
    /// Of `sends`: atomic operations.
    pub atomics: u64,
    /// Work requests posted to receive queues, shared ones among them.
    pub receives: u64,
    /// Completions polled.
    pub completions: u64,
    /// Of `completions`: those that tell of an error.
    pub failed: u64,
    /// Of what was moved: it is known from which process to which.
    #[serde(default)]
    pub linked_bytes: u64,
    /// Seen at one end alone, and not known where it goes or comes from.
    #[serde(default)]
    pub unlinked_bytes: u64,
}

impl VerbsCounts {
    /// Counts what a record tells of verbs.
    pub(super) fn take(&mut self, body: &Body) {
        match *body {
            Body::Work(WorkSegment { receive: true, segment, .. }) => {
                self.receives += u64::from(segment == 0)
            }
            Body::Work(WorkSegment { operation, len_bytes, segment, .. }) => {
                self.sent_bytes = self.sent_bytes.wrapping_add(len_bytes.into());
                if segment > 0 {
                    return;
                }
                self.sends += 1;
                match operation {
                    operation::RDMA_WRITE | operation::RDMA_WRITE_WITH_IMMEDIATE => self.writes += 1,
                    operation::RDMA_READ => self.reads += 1,
                    operation::COMPARE_AND_SWAP | operation::FETCH_AND_ADD => self.atomics += 1,
                    _ => {}
                }
            }
            Body::Completion { status, .. } => {
                self.completions += 1;
                self.failed += u64::from(status != 0);
            }
            _ => {}
        }
    }

    /// Bytes went from one known process to another.
    pub(super) fn count_linked(&mut self, bytes: u64) {
        self.linked_bytes = self.linked_bytes.wrapping_add(bytes);
    }

    /// Bytes went somewhere or came from somewhere.
    pub(super) fn count_unlinked(&mut self, bytes: u64) {
        self.unlinked_bytes = self.unlinked_bytes.wrapping_add(bytes);
    }

    /// Of bytes that were counted as going somewhere or coming from somewhere it is known where, after all.
    pub(crate) fn find(&mut self, bytes: u64) {
        self.linked_bytes = self.linked_bytes.wrapping_add(bytes);
        self.unlinked_bytes = self.unlinked_bytes.wrapping_sub(bytes);
    }

    /// All of them, in an order of their own.
    pub(crate) fn numbers_mut(&mut self) -> [&mut u64; COUNTS] {
        [
            &mut self.sends,
            &mut self.sent_bytes,
            &mut self.writes,
            &mut self.reads,
            &mut self.atomics,
            &mut self.receives,
            &mut self.completions,
            &mut self.failed,
            &mut self.linked_bytes,
            &mut self.unlinked_bytes,
        ]
    }

    /// The same.
    pub(crate) fn numbers(mut self) -> [u64; COUNTS] {
        self.numbers_mut().map(|number| *number)
    }
}

/// Most queue pairs that are known.
const MAX_ENDPOINTS: usize = 1 << 16;

/// Which process has which queue pair, by the name that both of its ends know.
#[derive(Debug, Default)]
pub(super) struct Endpoints(FxHashMap<u64, u32>);

impl Endpoints {
    pub(super) fn add(&mut self, name: u64, pid: u32) {
        if self.0.len() < MAX_ENDPOINTS || self.0.contains_key(&name) {
            self.0.insert(name, pid);
        }
    }

    pub(super) fn process(&self, name: u64) -> Option<u32> {
        self.0.get(&name).copied()
    }

    pub(super) fn forget(&mut self, pid: u32) {
        if !self.0.is_empty() {
            self.0.retain(|_, of| *of != pid);
        }
    }
}

/// Bytes that an RDMA operation moves to memory of another process, or from there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RemoteBytes {
    pub addr: u64,
    pub remote: u64,
    /// Name of the other end's queue pair.
    pub peer: u64,
    /// What goes to it, and where that was when this was posted; 0: not known.
    pub stream: u64,
    pub position: u32,
    pub len_bytes: u32,
    pub write: bool,
    pub atomic: bool,
}

impl RemoteBytes {
    /// What a record tells of them, if it does.
    pub(crate) fn of(body: &Body) -> Option<Self> {
        let &Body::Remote { addr, remote, peer, stream, position, len_bytes, write, atomic, .. } = body
        else {
            return None;
        };
        Some(Self { addr, remote, peer, stream, position, len_bytes, write, atomic })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tape::wire::CallContext;

    fn work(operation: u8, segment: u8, receive: bool) -> Body {
        Body::Work(WorkSegment {
            len_bytes: 10,
            operation,
            segment,
            segments: 2,
            receive,
            ..WorkSegment::default()
        })
    }

    fn completion(status: u32) -> Body {
        let context = CallContext::default();
        Body::Completion {
            number: 1,
            queue: 2,
            len_bytes: 3,
            operation: 0,
            status,
            took_ns: 4,
            idle_ns: 0,
            context,
        }
    }

    #[test]
    fn what_is_posted_and_completed_is_counted_by_what_it_does() {
        let mut counts = VerbsCounts::default();
        let kinds = [(2, false), (0, false), (4, false), (6, false), (0, true)];
        let all: Vec<Body> =
            kinds.iter().flat_map(|(of, receive)| [work(*of, 0, *receive), work(*of, 1, *receive)]).collect();
        all.iter().chain(&[completion(0), completion(12)]).for_each(|body| counts.take(body));
        assert_eq!(counts.numbers(), [4, 80, 1, 1, 1, 1, 2, 1, 0, 0]);
    }
}
