//! What is kept of one process: its last calls, where it was last found, how it ended.

use std::collections::{BTreeMap, VecDeque};

use crate::tape::input::{CodePlace, CommunicatorFacts, MpiFacts, ThreadFacts, ThreadState};

/// Frames of a stack that are named.
pub(crate) const MOST_FRAMES: usize = 12;
/// Communicators that are remembered.
const MOST_COMMUNICATORS: usize = 256;

/// An MPI call that is not part of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimelineCall {
    pub begin_ns: u64,
    /// When it returned, if that is known.
    pub end_ns: Option<u64>,
    /// Of its probe.
    pub slot: usize,
    /// Where it was called, if that is known yet.
    pub place: Option<CodePlace>,
    /// In the address space that the process has now; 0: in an earlier one.
    pub return_address: u64,
    /// The first six; `None`: they were not recorded.
    pub arguments: Option<[u64; 6]>,
    /// Which of its thread's calls it is, as messages count them; 0: not known.
    pub number: u32,
}

impl TimelineCall {
    /// One that only its time is known of.
    pub fn at(begin_ns: u64) -> Self {
        Self { begin_ns, end_ns: None, slot: 0, place: None, return_address: 0, arguments: None, number: 0 }
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessEnd {
    pub time_ns: u64,
    /// As wait(2) gives it.
    pub status: u32,
    /// Where the signal hit that ended it.
    pub place: Option<CodePlace>,
}

/// Where a process was found, the last times that it was looked at.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    /// When it was first found so.
    pub since_ns: u64,
    /// When it was last found so.
    pub last_ns: u64,
    pub thread: ThreadFacts,
}

impl Look {
    /// A signal or a debugger stopped it.
    pub fn is_stopped(&self) -> bool {
        matches!(self.thread.state, ThreadState::Stopped | ThreadState::Traced)
    }
}

/// Calls of a thread, the oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct ThreadCalls {
    pub calls: VecDeque<TimelineCall>,
}

/// See the [module](self).
#[derive(Default)]
pub(crate) struct History {
    pub threads: BTreeMap<u32, ThreadCalls>,
    /// Calls that were seen and are not kept.
    pub given_up: u64,
    pub look: Option<Look>,
    pub mpi: Option<MpiFacts>,
    pub communicators: Vec<CommunicatorFacts>,
    pub end: Option<ProcessEnd>,
}

impl History {
    /// A call of a thread, of which so many are kept.
    pub fn call(&mut self, tid: u32, call: TimelineCall, share: usize) {
        let calls = &mut self.threads.entry(tid).or_default().calls;
        calls.push_back(call);
        while calls.len() > share {
            calls.pop_front();
            self.given_up += 1;
        }
    }

    /// Another program runs in the process now.
    pub fn forget_addresses(&mut self) {
        let calls = self.threads.values_mut().flat_map(|thread| &mut thread.calls);
        calls.for_each(|call| call.return_address = 0);
    }

    /// A call is over: when, if it was seen to return.
    pub fn over(&mut self, tid: u32, begin_ns: u64, number: u32, end_ns: Option<u64>) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        // The last one or the one before, unless it had to wait for its process to be known.
        let same = thread.calls.iter_mut().rev().find(|call| call.begin_ns <= begin_ns);
        if let Some(call) = same.filter(|call| call.begin_ns == begin_ns) {
            (call.number, call.end_ns) = (number, end_ns.or(call.end_ns));
        }
    }

    /// Calls in order of time; of each thread only so many.
    pub fn settle(&mut self, share: usize) {
        for thread in self.threads.values_mut() {
            // A record may have come late.
            thread.calls.make_contiguous().sort_by_key(|call| call.begin_ns);
            let surplus = thread.calls.len().saturating_sub(share);
            thread.calls.drain(..surplus);
            self.given_up += surplus as u64;
        }
    }

    /// What the threads of the process were doing.
    pub fn look(&mut self, time_ns: u64, threads: &[&ThreadFacts]) {
        let in_call = threads.iter().find(|thread| thread.call.is_some());
        let first = threads.iter().find(|thread| thread.tid == thread.pid);
        let Some(&thread) = in_call.or(first).or(threads.first()) else { return };
        if let Some(call) = &thread.call {
            self.mpi = call.mpi.or(self.mpi);
            call.communicators.iter().for_each(|facts| self.know(facts));
        }
        // A look begins before stacks are read: what it found may have begun since, and been recorded.
        let last_call_ns = self.last_call_ns();
        let before =
            self.look.as_ref().filter(|look| look.since_ns >= last_call_ns && is_same(&look.thread, thread));
        let since_ns = before.map_or(time_ns, |look| look.since_ns);
        self.look = Some(Look { since_ns, last_ns: time_ns, thread: thread.clone() });
    }

    fn know(&mut self, facts: &CommunicatorFacts) {
        self.communicators.retain(|known| known.handle != facts.handle);
        if self.communicators.len() < MOST_COMMUNICATORS {
            self.communicators.push(facts.clone());
        }
    }

    /// All calls, each with its thread.
    pub fn calls(&self) -> impl Iterator<Item = (u32, &TimelineCall)> {
        self.threads.iter().flat_map(|(tid, thread)| thread.calls.iter().map(|call| (*tid, call)))
    }

    /// Where it was last found, unless it was seen to do something after that.
    pub fn last_look(&self) -> Option<&Look> {
        let last_ns = self.last_call_ns();
        self.look.as_ref().filter(|look| self.end.is_none() && look.last_ns >= last_ns)
    }

    /// When the last call began that was recorded, CLOCK_MONOTONIC.
    fn last_call_ns(&self) -> u64 {
        self.calls().map(|(_, call)| call.begin_ns).max().unwrap_or(0)
    }

    /// Code places of the last look. What a call returns to lies behind it.
    pub fn looked_at(&self) -> impl Iterator<Item = CodePlace> {
        let thread = self.look.as_ref().map(|look| &look.thread);
        let site = thread.and_then(|thread| thread.call.as_ref()?.site).map(called);
        site.into_iter().chain(thread.into_iter().flat_map(stack))
    }
}

/// The call that returns to a place.
pub(crate) fn called(place: CodePlace) -> CodePlace {
    CodePlace { offset_bytes: place.offset_bytes.saturating_sub(1), ..place }
}

/// Places of a thread's stack that are named, the innermost first.
pub(crate) fn stack(thread: &ThreadFacts) -> impl Iterator<Item = CodePlace> {
    let frames = thread.frames.iter().take(MOST_FRAMES).enumerate();
    frames.map(|(at, &place)| if at == 0 { place } else { called(place) })
}

/// Whether nothing has changed between two looks: it is in the same call, or in none at both.
fn is_same(a: &ThreadFacts, b: &ThreadFacts) -> bool {
    let key =
        |t: &ThreadFacts| t.call.as_ref().map(|call| (call.function.clone(), call.site, call.return_slot));
    a.tid == b.tid && key(a) == key(b)
}
