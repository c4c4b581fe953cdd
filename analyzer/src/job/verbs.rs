//! RDMA verbs: what is posted and completed is counted.

use crate::tape::wire::Body;

/// `enum ibv_wr_opcode`: what a work request does; all others send.
mod operation {
    pub const RDMA_WRITE: u32 = 0;
    pub const RDMA_WRITE_WITH_IMMEDIATE: u32 = 1;
    pub const RDMA_READ: u32 = 4;
    pub const COMPARE_AND_SWAP: u32 = 5;
    pub const FETCH_AND_ADD: u32 = 6;
}

/// Numbers of [`VerbsCounts`].
pub(crate) const COUNTS: usize = 8;

/// Work requests and completions. They go around rather than fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct VerbsCounts {
    /// Posted to send queues, whatever they do.
    pub sends: u64,
    /// Of all of their segments.
    pub sent_bytes: u64,
    pub writes: u64,
    pub reads: u64,
    pub atomics: u64,
    pub receives: u64,
    pub completions: u64,
    /// Of the completions: those of what failed.
    pub failed: u64,
}

impl VerbsCounts {
    /// Counts what a record tells of verbs.
    pub(super) fn take(&mut self, body: &Body) {
        match *body {
            Body::Work { receive: true, .. } => self.receives += 1,
            Body::Work { operation, len_bytes, .. } => {
                self.sends += 1;
                self.sent_bytes = self.sent_bytes.wrapping_add(len_bytes.into());
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

    /// All of them, in an order of their own.
    pub fn numbers(&self) -> [u64; COUNTS] {
        let Self { sends, sent_bytes, writes, reads, atomics, receives, completions, failed } = *self;
        [sends, sent_bytes, writes, reads, atomics, receives, completions, failed]
    }

    /// The same, to be changed.
    pub fn numbers_mut(&mut self) -> [&mut u64; COUNTS] {
        let Self { sends, sent_bytes, writes, reads, atomics, receives, completions, failed } = self;
        [sends, sent_bytes, writes, reads, atomics, receives, completions, failed]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tape::wire::CallContext;

    fn work(operation: u32, receive: bool) -> Body {
        let context = CallContext::default();
        Body::Work { addr: 1, number: 2, queue: 3, len_bytes: 10, operation, segments: 1, receive, context }
    }

    fn completion(status: u32) -> Body {
        Body::Completion { number: 1, queue: 2, len_bytes: 3, operation: 0, status }
    }

    #[test]
    fn what_is_posted_and_completed_is_counted_by_what_it_does() {
        let mut counts = VerbsCounts::default();
        let all = [work(2, false), work(0, false), work(4, false), work(6, false), work(0, true)];
        all.iter().chain(&[completion(0), completion(12)]).for_each(|body| counts.take(body));
        assert_eq!(counts.numbers(), [4, 40, 1, 1, 1, 1, 2, 1]);
    }
}
