//! Requests of a send queue from the first read on that has not completed: a read has happened when it, or what was posted
//! after it, has completed.

use std::collections::VecDeque;

use super::direction::StreamPlace;
use super::enums::SIGNALED;
use crate::tape::wire::WorkSegment;

/// A segment of a read or of an atomic operation that has not completed.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingRead {
    pub work: WorkSegment,
    /// Where what is sent was when it was posted.
    pub posted: StreamPlace,
    pub probe: u32,
}

/// A request whose completion is waited for, or that lies between such.
#[derive(Clone, Debug)]
struct SentRequest {
    number: u64,
    is_signaled: bool,
    reads: Vec<PendingRead>,
}

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub(super) struct SentRequests {
    requests: VecDeque<SentRequest>,
    reads: usize,
}

impl SentRequests {
    /// Requests and segments of reads that are kept.
    pub(super) fn len(&self) -> usize {
        self.requests.len() + self.reads
    }

    /// Takes a segment of a request: with what it reads, if it does.
    pub(super) fn note(&mut self, work: &WorkSegment, read: Option<PendingRead>) {
        if work.segment == 0 && (read.is_some() || !self.requests.is_empty()) {
            let is_signaled = work.send_flags & SIGNALED != 0;
            self.requests.push_back(SentRequest { number: work.number, is_signaled, reads: Vec::new() });
        }
        let last = self.requests.back_mut().filter(|last| last.number == work.number);
        if let (Some(last), Some(read)) = (last, read) {
            last.reads.push(read);
            self.reads += 1;
        }
    }

    /// A request has completed, and with it all that were posted before it: what they have read.
    pub(super) fn complete(&mut self, number: u64) -> Vec<PendingRead> {
        let position = |is_it: &dyn Fn(&SentRequest) -> bool| self.requests.iter().position(is_it);
        // A queue pair may ask for all completions without saying so in each request.
        let signaled = position(&|sent| sent.is_signaled && sent.number == number);
        let last = signaled.or_else(|| position(&|sent| sent.number == number));
        self.take_first(last.map_or(0, |last| last + 1))
    }

    /// Forgets all: what was to be read.
    pub(super) fn take_all(&mut self) -> Vec<PendingRead> {
        self.take_first(self.requests.len())
    }

    fn take_first(&mut self, count: usize) -> Vec<PendingRead> {
        let taken: Vec<_> = self.requests.drain(..count).flat_map(|sent| sent.reads).collect();
        self.reads -= taken.len();
        taken
    }
}

#[cfg(test)]
impl SentRequests {
    /// As [`SentRequests::len`] should be.
    pub(super) fn counted(&self) -> usize {
        self.requests.iter().map(|request| 1 + request.reads.len()).sum()
    }
}
