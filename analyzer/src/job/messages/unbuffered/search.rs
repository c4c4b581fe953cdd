//! Who waits for whom: cycles of threads none of which can go on before another one does.

use super::cycle_search::CycleSearch;
use super::found::{AwaitedSide, CycleCall};
use super::thread::{Need, OrderStepKind, ThreadOrder};
use super::{FollowedMessage, Reached, Unbuffered};
use crate::job::messages::ids::MessageId;

/// Threads that one search for a cycle looks at.
const MOST_LOOKED_AT: usize = 1 << 14;

impl Unbuffered {
    /// Looks for a cycle of threads that wait for each other, of which this one is the last to have begun to wait.
    pub(super) fn search(&mut self, thread: usize) {
        let mut search = std::mem::take(&mut self.search);
        if self.has_cycle(thread, &mut search) {
            self.note(&search.path);
        }
        self.search = search;
    }

    /// Whether there is one: the path of the search.
    fn has_cycle(&self, start: usize, search: &mut CycleSearch) -> bool {
        if !self.threads.get(start).is_some_and(ThreadOrder::is_stuck) {
            return false;
        }
        search.begin(self.threads.len());
        search.path.push(start);
        self.add_holders(start, search);
        let mut looked_at = 0;
        while let Some((depth, holder)) = search.open.pop() {
            search.path.truncate(depth);
            if holder == start {
                return true;
            }
            if search.has_looked_at(holder) {
                continue;
            }
            looked_at += 1;
            if looked_at > MOST_LOOKED_AT {
                return false;
            }
            search.path.push(holder);
            self.add_holders(holder, search);
        }
        false
    }

    /// Threads that would have to come further for the last one of the path to go on, each of which is stuck itself.
    fn add_holders(&self, thread: usize, search: &mut CycleSearch) {
        let Some(OrderStepKind::Wait { is_certain: true, .. }) = self.threads[thread].front() else { return };
        let depth = search.path.len();
        for need in self.threads[thread].front_needs() {
            match need {
                Need::Message(message) => {
                    search.open.extend(self.holder(message).map(|holder| (depth, holder)));
                }
                Need::Collective(collective) => {
                    let late = self.collectives.get(&collective).into_iter().flat_map(|all| &all.late);
                    search.open.extend(late.map(|holder| (depth, *holder)));
                }
            }
        }
    }

    /// Who would have to post the other side of a message, if no other message can take its place.
    fn holder(&self, message: MessageId) -> Option<usize> {
        let posted = self.messages.get(&message)?;
        let other = posted.other.filter(|other| !self.is_reached(*other))?;
        let may_differ = if posted.sends { self.has_open_receive(other.thread) } else { posted.is_open };
        (!may_differ).then_some(other.thread)
    }

    /// Whether a rank has posted a receive that could get any message, and has not got its own.
    fn has_open_receive(&self, thread: usize) -> bool {
        let open = self.open_receives.get(&self.threads[thread].rank);
        open.into_iter().flatten().any(|id| {
            let is_posted = || {
                let by = self.by_id.get(&(id.call.rank, id.call.tid)).copied();
                by.is_some_and(|thread| self.is_reached(Reached { thread, number: id.call.number }))
            };
            !self.has_come(Need::Message(*id)) && is_posted()
        })
    }

    /// A cycle was found: its calls are noted, and do not wait any more.
    fn note(&mut self, cycle: &[usize]) {
        let calls: Vec<CycleCall> = (0..cycle.len())
            .filter_map(|at| self.cycle_call(cycle[at], cycle[(at + 1) % cycle.len()]))
            .collect();
        // Nobody gets a message that was not sent: something else is not as it seems.
        if calls.len() < cycle.len() || calls.iter().all(|call| call.wanted.is_receive()) {
            return;
        }
        for (thread, call) in cycle.iter().zip(&calls).filter(|(_, call)| !call.wanted.is_receive()) {
            self.relying.insert((call.rank, call.origin.return_address));
            self.let_go(*thread);
        }
        self.found.add(calls);
    }

    /// What a thread of a cycle waits for, of the next one.
    fn cycle_call(&self, thread: usize, next: usize) -> Option<CycleCall> {
        let Some(OrderStepKind::Wait { origin, .. }) = self.threads[thread].front() else { return None };
        let wanted = self.threads[thread].front_needs().find_map(|need| match need {
            Need::Message(message) => {
                self.holder(message).filter(|holder| *holder == next)?;
                let FollowedMessage { origin: begun, sends, comm, peer, tag, len_bytes, .. } =
                    *self.messages.get(&message)?;
                let begun = Some(begun).filter(|begun| !begun.is_same(origin));
                Some((AwaitedSide::Message { sends, comm, peer, tag, len_bytes }, begun))
            }
            Need::Collective(collective) => {
                let gathering = self.collectives.get(&collective)?;
                gathering
                    .late
                    .contains(&next)
                    .then_some((AwaitedSide::Collective { comm: collective.sequence.comm }, None))
            }
        });
        let (wanted, begun) = wanted?;
        Some(CycleCall { rank: self.threads[thread].rank, origin: *origin, wanted, begun })
    }
}
