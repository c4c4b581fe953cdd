//! Who waits for whom: cycles of threads none of which can go on before another one does.

use super::found::{AwaitedSide, CycleCall};
use super::thread::{Need, OrderStepKind};
use super::{FollowedMessage, Reached, Unbuffered};
use crate::job::messages::ids::MessageId;

/// Threads that one search for a cycle looks at.
const MOST_LOOKED_AT: usize = 1 << 14;

impl Unbuffered {
    /// Looks for a cycle of threads that wait for each other, of which this one is the last to have begun to wait.
    pub(super) fn search(&mut self, thread: usize) {
        if let Some(cycle) = self.cycle(thread) {
            self.note(&cycle);
        }
    }

    fn cycle(&mut self, start: usize) -> Option<Vec<usize>> {
        if !self.threads.get(start)?.is_stuck() {
            return None;
        }
        self.searches += 1;
        let mut path = vec![start];
        let mut open = vec![self.holders(start)];
        let mut looked_at = 0;
        while let Some(next) = open.last_mut() {
            let Some(holder) = next.pop() else {
                open.pop();
                path.pop();
                continue;
            };
            if holder == start {
                return Some(path);
            }
            if self.looked_at[holder] == self.searches {
                continue;
            }
            self.looked_at[holder] = self.searches;
            looked_at += 1;
            if looked_at > MOST_LOOKED_AT {
                return None;
            }
            path.push(holder);
            open.push(self.holders(holder));
        }
        None
    }

    /// Threads that would have to come further for this one to go on, each of which is stuck itself.
    fn holders(&self, thread: usize) -> Vec<usize> {
        let Some(OrderStepKind::Wait { needs, is_certain: true, .. }) = self.threads[thread].front() else {
            return Vec::new();
        };
        let mut holders = Vec::new();
        for need in needs {
            match need {
                Need::Message(message) => holders.extend(self.holder(message)),
                Need::Collective(collective) => {
                    let gathering = self.collectives.get(collective);
                    holders.extend(gathering.into_iter().flat_map(|gathering| &gathering.late));
                }
            }
        }
        holders
    }

    /// Who would have to post the other side of a message, if no other message can take its place.
    fn holder(&self, message: &MessageId) -> Option<usize> {
        let posted = self.messages.get(message)?;
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
        let Some(OrderStepKind::Wait { needs, origin, .. }) = self.threads[thread].front() else {
            return None;
        };
        let wanted = needs.iter().find_map(|need| match need {
            Need::Message(message) => {
                self.holder(message).filter(|holder| *holder == next)?;
                let FollowedMessage { origin: begun, sends, comm, peer, tag, len_bytes, .. } =
                    *self.messages.get(message)?;
                let begun = Some(begun).filter(|begun| !begun.is_same(origin));
                Some((AwaitedSide::Message { sends, comm, peer, tag, len_bytes }, begun))
            }
            Need::Collective(collective) => {
                let gathering = self.collectives.get(collective)?;
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
