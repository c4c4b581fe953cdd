//! Matches-before: what in a run could not have happened without what.
//!
//! The events are beginnings and ends of calls, and matches (of a message with a receive). A match comes after the beginning of the
//! send and the posting of the receive, and before the end of the call that completes the receive: not before the end of the one that
//! posts it. A send that is not synchronous may be complete before its message is matched.

use super::run::{BadRun, Run, RunReceive};
use crate::messages::CollectiveOrder;

/// Of each event, the first call of each rank whose end depends on it.
#[derive(Debug)]
pub(super) struct MatchOrder {
    ranks: usize,
    /// Rows of as many places as there are ranks.
    dependents: Vec<u32>,
    begins: Vec<usize>,
    receives_at: usize,
    probes_at: usize,
    /// Matches that depend directly on a match of the same rank.
    pub matches_after: Vec<Vec<u32>>,
    /// Of each event: how many come one after the other before it, at most.
    levels: Vec<u32>,
}

/// No call of a rank depends on it.
pub(super) const NEVER: u32 = u32::MAX;

/// More is not kept in memory.
const MOST_PLACES: usize = 1 << 28;

struct OrderEdges(Vec<(u32, u32)>);

impl OrderEdges {
    fn add(&mut self, before: usize, after: usize) {
        self.0.push((before as u32, after as u32));
    }
}

impl MatchOrder {
    /// # Errors
    /// It is too long, or goes in a circle.
    pub(super) fn of(run: &Run) -> Result<Self, BadRun> {
        let ranks = run.calls.len();
        let mut begins = Vec::with_capacity(ranks);
        let mut events = 0;
        for calls in &run.calls {
            begins.push(events);
            events += 2 * calls.len();
        }
        let receives_at = events;
        let probes_at = receives_at + run.receives.len();
        let collectives_at = probes_at + run.probes.len();
        // One event for each that has come to a collective call.
        let events = collectives_at + run.collectives.iter().map(|all| all.calls.len()).sum::<usize>();
        if events.saturating_mul(ranks) > MOST_PLACES {
            return Err(BadRun(format!(
                "{events} events of {ranks} ranks are more than races are looked for in: record a shorter run"
            )));
        }
        let mut order = Self {
            ranks,
            dependents: Vec::new(),
            begins,
            receives_at,
            probes_at,
            matches_after: vec![Vec::new(); run.receives.len()],
            levels: Vec::new(),
        };
        let mut edges = OrderEdges(Vec::new());
        for (rank, calls) in run.calls.iter().enumerate() {
            for call in 0..calls.len() {
                let (begin, end) = (order.begin(rank, call as u32), order.end(rank, call as u32));
                edges.add(begin, end);
                if call + 1 < calls.len() {
                    edges.add(end, end + 1);
                }
            }
        }
        order.sends(run, &mut edges);
        order.matches(run, &mut edges);
        order.collectives(run, collectives_at, &mut edges);
        order.spread(events, &edges)?;
        Ok(order)
    }

    fn begin(&self, rank: usize, call: u32) -> usize {
        self.begins[rank] + 2 * call as usize
    }

    fn end(&self, rank: usize, call: u32) -> usize {
        self.begin(rank, call) + 1
    }

    fn sends(&self, run: &Run, edges: &mut OrderEdges) {
        for send in run.sends.iter().filter(|send| send.is_synchronous) {
            if let (Some(receive), Some(completed)) = (send.receive, send.completed) {
                edges.add(self.receives_at + receive, self.end(send.rank, completed));
            }
        }
    }

    fn matches(&mut self, run: &Run, edges: &mut OrderEdges) {
        for posts in &run.posts {
            // Receives that had not been completed when the next one was posted.
            let mut open: Vec<usize> = Vec::new();
            for &at in posts {
                let receive = &run.receives[at];
                open.retain(|open| run.receives[*open].completed.is_none_or(|call| call >= receive.posted));
                if let Some(message) = receive.message {
                    let here = self.receives_at + at;
                    self.receive(run, receive, message, here, edges);
                    self.earlier_posts(run, &open, at, message, edges);
                    self.earlier_messages(run, at, message, edges);
                }
                open.push(at);
            }
        }
        for (at, probe) in run.probes.iter().enumerate() {
            let Some(message) = probe.asks.message else { continue };
            let here = self.probes_at + at;
            self.receive(run, &probe.asks, message, here, edges);
            let posts = &run.posts[probe.asks.rank][..probe.receives_before];
            let is_open =
                |receive: &&RunReceive| receive.completed.is_none_or(|call| call >= probe.asks.posted);
            for &earlier in posts.iter().rev() {
                let other = &run.receives[earlier];
                let is_earlier = other.comm == probe.asks.comm && other.message.is_some();
                if is_earlier && is_open(&other) && run.takes(other, message) {
                    edges.add(self.receives_at + earlier, here);
                }
            }
            let channel = &run.channels[run.sends[message].channel];
            let Ok(end) = channel.sends.binary_search(&message) else { continue };
            for &earlier in channel.sends[channel.old(probe.asks.posted)..end].iter().rev() {
                let Some(receive) = run.sends[earlier].receive else { continue };
                if run.takes(&probe.asks, earlier) {
                    edges.add(self.receives_at + receive, here);
                }
            }
        }
    }

    /// Its message was sent, it was posted, and then somebody learns of it.
    fn receive(&self, run: &Run, receive: &RunReceive, message: usize, here: usize, edges: &mut OrderEdges) {
        let send = &run.sends[message];
        edges.add(self.begin(send.rank, send.begun), here);
        edges.add(self.begin(receive.rank, receive.posted), here);
        if let Some(completed) = receive.completed {
            edges.add(here, self.end(receive.rank, completed));
        }
    }

    /// Receives that were posted before and would have taken the message had theirs before.
    fn earlier_posts(
        &mut self,
        run: &Run,
        open: &[usize],
        at: usize,
        message: usize,
        edges: &mut OrderEdges,
    ) {
        let mut last: Option<usize> = None;
        for &earlier in open.iter().rev() {
            let other = &run.receives[earlier];
            let is_before = other.message.is_some() && other.comm == run.receives[at].comm;
            if !is_before || !run.takes(other, message) {
                continue;
            }
            // Those that come before one that is known to come before need not be named.
            let is_implied = last.is_some_and(|last| {
                run.receives[last].message.is_some_and(|message| run.takes(other, message))
            });
            if !is_implied {
                self.add_match(run, earlier, at, edges);
                last = Some(earlier);
            }
        }
    }

    /// Messages that were sent before and that the receive would have taken were taken before.
    fn earlier_messages(&mut self, run: &Run, at: usize, message: usize, edges: &mut OrderEdges) {
        let receive = &run.receives[at];
        let channel = &run.channels[run.sends[message].channel];
        let Ok(end) = channel.sends.binary_search(&message) else { return };
        for &earlier in channel.sends[channel.old(receive.posted)..end].iter().rev() {
            let Some(other) = run.sends[earlier].receive else { continue };
            if run.takes(receive, earlier) {
                self.add_match(run, other, at, edges);
            }
        }
    }

    fn add_match(&mut self, run: &Run, before: usize, after: usize, edges: &mut OrderEdges) {
        edges.add(self.receives_at + before, self.receives_at + after);
        debug_assert_eq!(run.receives[before].rank, run.receives[after].rank);
        self.matches_after[before].push(after as u32);
    }

    fn collectives(&self, run: &Run, first: usize, edges: &mut OrderEdges) {
        let mut here = first;
        for all in &run.collectives {
            let mut previous = None;
            for (at, (rank, call)) in all.calls.iter().enumerate() {
                let (begin, end) = (self.begin(*rank, *call), self.end(*rank, *call));
                match all.order {
                    CollectiveOrder::All => {
                        edges.add(begin, here);
                        // Nobody leaves if not all have come.
                        if all.calls.len() == all.members {
                            edges.add(here, end);
                        }
                    }
                    CollectiveOrder::FromRoot if all.root == Some(*rank) => edges.add(begin, here),
                    CollectiveOrder::FromRoot => edges.add(here, end),
                    CollectiveOrder::ToRoot if all.root == Some(*rank) => edges.add(here, end),
                    CollectiveOrder::ToRoot => edges.add(begin, here),
                    CollectiveOrder::Prefix => {
                        edges.add(begin, here + at);
                        edges.add(here + at, end);
                        if let Some(previous) = previous {
                            edges.add(previous, here + at);
                        }
                        previous = Some(here + at);
                    }
                    CollectiveOrder::Unknown => {}
                }
            }
            here += all.calls.len();
        }
    }

    /// From what comes last to what comes first.
    fn spread(&mut self, events: usize, edges: &OrderEdges) -> Result<(), BadRun> {
        let mut before: Vec<u32> = vec![0; events + 1];
        let mut waiting: Vec<u32> = vec![0; events];
        for (from, to) in &edges.0 {
            before[*to as usize + 1] += 1;
            waiting[*from as usize] += 1;
        }
        for event in 0..events {
            before[event + 1] += before[event];
        }
        let mut places = before.clone();
        let mut sources: Vec<u32> = vec![0; edges.0.len()];
        for (from, to) in &edges.0 {
            let place = &mut places[*to as usize];
            sources[*place as usize] = *from;
            *place += 1;
        }
        self.dependents = vec![NEVER; events * self.ranks];
        for rank in 0..self.ranks {
            let last = self.begins.get(rank + 1).copied().unwrap_or(self.receives_at);
            for (call, event) in (self.begins[rank]..last).skip(1).step_by(2).enumerate() {
                self.dependents[event * self.ranks + rank] = call as u32;
            }
        }
        let mut ready: Vec<u32> = (0..events as u32).filter(|event| waiting[*event as usize] == 0).collect();
        let sources_of = |event: usize| &sources[before[event] as usize..before[event + 1] as usize];
        let mut done = Vec::with_capacity(events);
        while let Some(event) = ready.pop() {
            done.push(event);
            let event = event as usize;
            for source in sources_of(event) {
                let source = *source as usize;
                for rank in 0..self.ranks {
                    let depends = self.dependents[event * self.ranks + rank];
                    let place = &mut self.dependents[source * self.ranks + rank];
                    *place = depends.min(*place);
                }
                waiting[source] -= 1;
                if waiting[source] == 0 {
                    ready.push(source as u32);
                }
            }
        }
        if done.len() == events {
            self.levels = vec![0; events];
            for event in done.into_iter().rev() {
                let sources = sources_of(event as usize).iter();
                let last = sources.map(|source| self.levels[*source as usize] + 1).max();
                self.levels[event as usize] = last.unwrap_or(0);
            }
            return Ok(());
        }
        Err(BadRun("the messages of the ranks contradict each other: they go in a circle".to_owned()))
    }

    fn row(&self, event: usize) -> &[u32] {
        &self.dependents[event * self.ranks..(event + 1) * self.ranks]
    }

    /// How many events come one after the other before the beginning and before the end of a call, at most.
    pub(super) fn levels_of(&self, rank: usize, call: u32) -> [u32; 2] {
        [self.begin(rank, call), self.end(rank, call)].map(|event| self.levels[event])
    }

    /// The first call of each rank whose end depends on the match of a receive.
    pub(super) fn after_receive(&self, receive: usize) -> &[u32] {
        self.row(self.receives_at + receive)
    }

    /// The same of what a probe has found.
    pub(super) fn after_probe(&self, probe: usize) -> &[u32] {
        self.row(self.probes_at + probe)
    }

    /// The same of the end of a call.
    pub(super) fn after_call(&self, rank: usize, call: u32) -> &[u32] {
        self.row(self.end(rank, call))
    }
}
