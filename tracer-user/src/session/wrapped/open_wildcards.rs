//! Receives from anybody of a rank that are open, by their requests.
//!
//! A library gives a request out again as soon as it is complete, and a completion is told when its thread goes on. So where several threads
//! complete requests, a receive may be posted under a request before it is told that the one before was completed.

use std::collections::{HashMap, VecDeque};

use analyzer::messages::MessageId;

/// Ranks of MPI_COMM_WORLD, by their numbers in a communicator; if they are known.
pub(super) type MemberRanks = Option<Vec<u32>>;

/// A receive whose sender is asked for.
#[derive(Clone, Debug)]
pub(super) struct ProbedReceive {
    pub receive: MessageId,
    pub members: MemberRanks,
}

/// A receive from anybody that is open.
#[derive(Clone, Debug)]
pub(super) struct OpenWildcard {
    pub number: u64,
    begin_ns: u64,
    pub asked: ProbedReceive,
}

/// Those of a rank.
#[derive(Debug, Default)]
pub(super) struct OpenWildcards {
    by_request: HashMap<u64, VecDeque<OpenWildcard>>,
    /// Posted so far.
    posted: u64,
}

/// One that was posted, and those under its request of which nothing more will be told.
pub(super) struct PostedWildcard {
    pub number: u64,
    pub over: Vec<u64>,
}

/// Under one request, whose completions may still be told.
const MOST_UNDER_A_REQUEST: usize = 16;

impl OpenWildcards {
    /// A receive is posted by a call that began then. Of one thread, those that had the request were completed without our being told.
    pub fn post(
        &mut self,
        request: u64,
        begin_ns: u64,
        asked: ProbedReceive,
        are_several_threads: bool,
    ) -> PostedWildcard {
        let open = self.by_request.entry(request).or_default();
        let most = if are_several_threads { MOST_UNDER_A_REQUEST } else { 0 };
        let over = open.drain(..open.len().saturating_sub(most)).map(|receive| receive.number).collect();
        let number = self.posted;
        self.posted += 1;
        open.push_back(OpenWildcard { number, begin_ns, asked });
        PostedWildcard { number, over }
    }

    /// The receive that a call which began then means by a request: the last one that was posted before.
    pub fn find(&self, request: u64, begin_ns: u64) -> Option<&OpenWildcard> {
        let open = self.by_request.get(&request)?;
        open.get(meant(open, begin_ns))
    }

    /// It is complete.
    pub fn complete(&mut self, request: u64, begin_ns: u64) -> Option<OpenWildcard> {
        let open = self.by_request.get_mut(&request)?;
        let done = open.remove(meant(open, begin_ns));
        if open.is_empty() {
            self.by_request.remove(&request);
        }
        done
    }
}

fn meant(open: &VecDeque<OpenWildcard>, begin_ns: u64) -> usize {
    open.iter().rposition(|receive| receive.begin_ns < begin_ns).unwrap_or(0)
}
