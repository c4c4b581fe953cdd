//! Receives that were posted to queue pairs of RDMA verbs, or to queues that several of them share, and not taken yet.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use crate::tape::wire::{Header, WorkSegment};

/// Most receives and segments of them that are kept, of all queues together.
const MAX_POSTED: usize = 1 << 20;
/// Most completions of a queue that are remembered because their receive was not there yet.
const MAX_OWED: usize = 1 << 6;
/// Most queues.
const MAX_QUEUES: usize = 1 << 16;

/// A receive, and where it puts what comes: address and size of each segment.
#[derive(Clone, Debug)]
pub(super) struct Posted {
    pub(super) number: u64,
    pub(super) segments: Vec<(u64, u32)>,
}

impl Posted {
    fn weight(&self) -> usize {
        1 + self.segments.len()
    }
}

/// What a completion took.
#[derive(Debug)]
pub(super) struct TakenReceive {
    /// None: it was posted unseen, or is told later.
    pub(super) posted: Option<Posted>,
    /// It was the one whose turn it was.
    pub(super) is_in_order: bool,
    /// The program does not number its receives: if some were posted unseen, it may have been one of those.
    pub(super) is_ambiguous: bool,
}

#[derive(Debug, Default)]
struct ReceiveQueue {
    posted: VecDeque<Posted>,
    /// Completions that came before their receive was told, with their times: another thread may poll before the one that
    /// posts returns.
    owed: VecDeque<(u64, u64)>,
    /// The last request is one of those.
    skips: bool,
    last_number: Option<u64>,
    /// Requests that followed each other had the same number.
    is_ambiguous: bool,
}

impl ReceiveQueue {
    fn weight(&self) -> usize {
        self.posted.iter().map(Posted::weight).sum()
    }
}

/// Process; number of the queue; whether it is a shared one.
type QueueKey = (u32, u32, bool);

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct ReceiveQueues {
    queues: FxHashMap<QueueKey, ReceiveQueue>,
    /// Together, as [`Posted::weight`] counts.
    posted: usize,
}

impl ReceiveQueues {
    /// Takes a segment of a receive. False: there is no room, and all that was posted is forgotten.
    pub(super) fn post(&mut self, h: &Header, work: &WorkSegment) -> bool {
        if self.posted >= MAX_POSTED || self.queues.len() >= MAX_QUEUES {
            *self = Self::default();
            return false;
        }
        let queue = self.queues.entry((h.pid, work.queue, work.shared)).or_default();
        let segment = (work.addr, work.len_bytes);
        if work.segment > 0 {
            if let Some(last) = queue.posted.back_mut().filter(|_| !queue.skips) {
                last.segments.push(segment);
                self.posted += 1;
            }
            return true;
        }
        queue.is_ambiguous |= queue.last_number.replace(work.number) == Some(work.number);
        let since_ns = h.time_ns.saturating_sub(work.took_ns.into());
        let owed = queue.owed.iter().position(|(number, at)| *number == work.number && *at >= since_ns);
        queue.skips = owed.is_some();
        if let Some(owed) = owed {
            queue.owed.remove(owed);
            return true;
        }
        let segments = if work.segments > 0 { vec![segment] } else { Vec::new() };
        let posted = Posted { number: work.number, segments };
        self.posted += posted.weight();
        queue.posted.push_back(posted);
        true
    }

    /// A receive of a queue pair has completed; `queue`: its number, and the shared queue that it takes from (0: none).
    pub(super) fn take(&mut self, h: &Header, (queue, shared): (u32, u32), number: u64) -> TakenReceive {
        let key = if shared == 0 { (h.pid, queue, false) } else { (h.pid, shared, true) };
        if self.queues.len() >= MAX_QUEUES && !self.queues.contains_key(&key) {
            return TakenReceive { posted: None, is_in_order: true, is_ambiguous: false };
        }
        let known = self.queues.entry(key).or_default();
        let Some(at) = known.posted.iter().position(|posted| posted.number == number) else {
            if known.owed.len() >= MAX_OWED {
                known.owed.pop_front();
            }
            known.owed.push_back((number, h.time_ns));
            return TakenReceive { posted: None, is_in_order: true, is_ambiguous: known.is_ambiguous };
        };
        // Queue pairs that share one take from it in any order.
        let skipped = if shared == 0 { at } else { 0 };
        let left_out: usize = known.posted.drain(..skipped).map(|posted| posted.weight()).sum();
        let posted = known.posted.remove(at - skipped);
        self.posted -= left_out + posted.as_ref().map_or(0, Posted::weight);
        TakenReceive { posted, is_in_order: skipped == 0, is_ambiguous: known.is_ambiguous }
    }

    pub(super) fn forget_queue(&mut self, pid: u32, queue: u32) {
        if let Some(gone) = self.queues.remove(&(pid, queue, false)) {
            self.posted -= gone.weight();
        }
    }

    pub(super) fn forget_process(&mut self, pid: u32) {
        if !self.queues.is_empty() {
            self.queues.retain(|(of, ..), _| *of != pid);
            self.posted = self.queues.values().map(ReceiveQueue::weight).sum();
        }
    }
}

#[cfg(test)]
impl ReceiveQueues {
    pub(super) fn kept(&self) -> usize {
        self.posted
    }

    /// What is counted is what there is.
    pub(super) fn check(&self) {
        assert_eq!(self.posted, self.queues.values().map(ReceiveQueue::weight).sum::<usize>());
        assert!(self.posted <= MAX_POSTED + 1);
    }
}
