//! All of a run that can happen without one of its events, as one rank sees it.

use super::order::MatchOrder;
use super::run::{Run, RunReceive};

/// Finds receives that are open at a call.
#[derive(Debug)]
pub(super) struct OpenAt {
    /// Of each rank and call: how many of the first receives were completed before, apart from those that never are.
    old: Vec<Vec<u32>>,
    never: Vec<Vec<usize>>,
}

impl OpenAt {
    pub(super) fn of(run: &Run) -> Self {
        let is_never = |at: &usize| run.receives[*at].completed.is_none();
        let old = |posts: &Vec<usize>, calls: usize| {
            // From the last one on: the first call at which it or a later one is open.
            let mut completed: Vec<u32> =
                posts.iter().map(|at| run.receives[*at].completed.unwrap_or(0)).collect();
            for at in 1..completed.len() {
                completed[at] = completed[at].max(completed[at - 1]);
            }
            (0..calls as u32).map(|call| completed.partition_point(|last| *last < call) as u32).collect()
        };
        Self {
            old: run.posts.iter().zip(&run.calls).map(|(posts, calls)| old(posts, calls.len())).collect(),
            never: run.posts.iter().map(|posts| posts.iter().copied().filter(is_never).collect()).collect(),
        }
    }

    /// Receives of a rank that were posted in its calls up to this one, and not completed before it; in order.
    pub(super) fn at(&self, run: &Run, rank: usize, call: u32) -> Vec<usize> {
        let posts = &run.posts[rank];
        let old = self.old[rank].get(call as usize).map_or(posts.len(), |old| *old as usize);
        let is_posted = |at: &&usize| run.receives[**at].posted <= call;
        let never = self.never[rank]
            .iter()
            .take_while(is_posted)
            .take_while(|at| **at < posts.get(old).copied().unwrap_or(usize::MAX));
        let is_open = |at: &&usize| run.receives[**at].completed.is_none_or(|completed| completed >= call);
        never.chain(posts[old..].iter().take_while(is_posted).filter(is_open)).copied().collect()
    }
}

/// Up to the first calls that depend on the event.
pub(super) struct EventHistory<'a> {
    run: &'a Run,
    /// The first call of each rank whose end depends on it.
    after: &'a [u32],
    call: u32,
    /// Receives of the rank that are posted in the history and not completed in it, in their order.
    open: Vec<usize>,
    /// Those of them whose matches depend on the event.
    is_late: Vec<bool>,
}

impl<'a> EventHistory<'a> {
    /// `after`: the first call of each rank that depends on the event; `event`: the match of this receive, if it is one.
    pub(super) fn new(
        run: &'a Run,
        order: &MatchOrder,
        open_at: &OpenAt,
        after: &'a [u32],
        rank: usize,
        event: Option<usize>,
    ) -> Self {
        let open = open_at.at(run, rank, after[rank]);
        let is_sent_late = |at: usize| {
            run.receives[at].message.is_some_and(|message| {
                let send = &run.sends[message];
                send.begun > after[send.rank]
            })
        };
        let mut is_late = vec![false; open.len()];
        let mut stack: Vec<usize> =
            (0..open.len()).filter(|at| event == Some(open[*at]) || is_sent_late(open[*at])).collect();
        while let Some(at) = stack.pop() {
            if !std::mem::replace(&mut is_late[at], true) {
                let next = order.matches_after[open[at]].iter();
                stack.extend(next.filter_map(|next| open.binary_search(&(*next as usize)).ok()));
            }
        }
        Self { run, after, call: after[rank], open, is_late }
    }

    /// Whether a receive that is open has its message in it.
    pub(super) fn has_message(&self, receive: usize) -> bool {
        let place = self.open.binary_search(&receive);
        place.is_ok_and(|place| self.run.receives[receive].message.is_some() && !self.is_late[place])
    }

    /// Receives that have their message in it, and whose completion comes later.
    pub(super) fn early(&self) -> impl Iterator<Item = usize> + '_ {
        self.open.iter().copied().filter(|at| self.has_message(*at))
    }

    /// Open receives that have no message in it.
    pub(super) fn waiting(&self) -> impl Iterator<Item = usize> + '_ {
        self.open.iter().copied().filter(|at| !self.has_message(*at))
    }

    /// Whether a message to the rank is taken in it.
    fn is_taken(&self, send: usize) -> bool {
        let Some(at) = self.run.sends[send].receive else { return false };
        self.run.receives[at].completed.is_some_and(|call| call < self.call) || self.has_message(at)
    }

    /// The sends whose messages a receive or probe could take next; `at`: its place among receives.
    pub(super) fn candidates(&self, asks: &RunReceive, at: usize) -> Vec<usize> {
        let channels = self.run.inbound.get(&(asks.rank, asks.comm)).map_or(&[][..], Vec::as_slice);
        let first = |channel: &usize| {
            let channel = &self.run.channels[*channel];
            let sends = &channel.sends[channel.old(self.call)..];
            sends
                .iter()
                .take_while(|send| self.run.sends[**send].begun <= self.after[channel.source])
                .find(|send| self.run.takes(asks, **send) && !self.is_taken(**send))
                .copied()
        };
        channels.iter().filter_map(first).filter(|send| !self.is_for_another(asks, at, *send)).collect()
    }

    /// Whether a receive that was posted before is open, and takes the message.
    fn is_for_another(&self, asks: &RunReceive, at: usize, send: usize) -> bool {
        self.waiting().take_while(|earlier| *earlier < at).any(|earlier| {
            let other = &self.run.receives[earlier];
            other.comm == asks.comm && !other.is_aside && self.run.takes(other, send)
        })
    }
}
