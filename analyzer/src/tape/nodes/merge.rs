//! The inputs of several nodes in one order: the numbers of all are unique, and the times are those of one clock.
//!
//! An input is given out when no node can have an earlier one: each that is followed has a later one, or is over. Who
//! feeds it says which nodes are followed. A receive waits for what was sent on another node ([`Crossings`]).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

use super::clocks::ClockDrift;
use super::crossings::Crossings;
use super::numbers::{CommonProbes, NodeNumbers};
use crate::tape::causal_order::Moved;
use crate::tape::input::{ClockReading, Coverage, End, Input, StrangerCost};
use crate::tape::wire::{Body, Record, kind};

/// For how long a receive waits for what was sent on another node, whose clock may be behind.
const MOST_WAIT_NS: u64 = 2_000_000_000;

/// Inputs of a node that is held up among which is looked for what it sent.
const MOST_LOOKED_BEHIND: usize = 1 << 16;

/// Processes of a node for which losses are told.
const MAX_PIDS: usize = 1 << 12;

/// Whether others wait for a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Following {
    /// It has not come yet.
    #[default]
    Absent,
    /// What others have comes after what it has.
    Followed,
    /// It has not been heard of for too long.
    Silent,
    /// It has ended.
    Over,
}

/// What is known of one node.
#[derive(Debug, Default)]
pub(super) struct NodeInputs {
    numbers: Option<NodeNumbers>,
    following: Following,
    /// Its inputs that were not given out, each with a time that is never before the one before it.
    waiting: VecDeque<(u64, Input)>,
    last_ns: u64,
    coverage: Coverage,
    /// None: it has not read its clocks yet.
    drift: Option<ClockDrift>,
    /// Processes that it has told of and that have not ended.
    pids: BTreeSet<u32>,
}

impl NodeInputs {
    pub(super) fn following(&self) -> Following {
        self.following
    }

    /// The time of its last input.
    pub(super) fn last_ns(&self) -> u64 {
        self.last_ns
    }

    fn note_pid(&mut self, input: &Input) {
        match input {
            Input::Process(facts) if self.pids.len() < MAX_PIDS => {
                self.pids.insert(facts.pid);
            }
            Input::Record(record) if record.kind() == kind::EXIT => {
                self.pids.remove(&record.pid());
            }
            _ => {}
        }
    }

    /// Processes that it has told of and that have not ended.
    pub(super) fn pids(&self) -> impl Iterator<Item = u32> {
        self.pids.iter().copied()
    }
}

/// What is out on some nodes.
#[derive(Debug, Default)]
struct JoinedCoverage {
    paused: usize,
    /// Of these, where MPI calls pause too.
    calls_paused: usize,
    /// On how many nodes a probe is out.
    off: BTreeMap<u32, usize>,
}

impl JoinedCoverage {
    /// From a time on, of all nodes.
    fn at(&self, time_ns: u64) -> Coverage {
        let paused = self.paused > 0;
        let keeps_calls = paused && self.calls_paused == 0;
        Coverage { time_ns, paused, keeps_calls, off: self.off.keys().copied().collect() }
    }

    fn add(&mut self, coverage: &Coverage) {
        self.paused += usize::from(coverage.paused);
        self.calls_paused += usize::from(coverage.paused && !coverage.keeps_calls);
        for id in &coverage.off {
            *self.off.entry(*id).or_default() += 1;
        }
    }

    fn remove(&mut self, coverage: &Coverage) {
        self.paused -= usize::from(coverage.paused);
        self.calls_paused -= usize::from(coverage.paused && !coverage.keeps_calls);
        for id in &coverage.off {
            if let Some(nodes) = self.off.get_mut(id) {
                *nodes -= 1;
                if *nodes == 0 {
                    self.off.remove(id);
                }
            }
        }
    }
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Merge {
    nodes: Vec<NodeInputs>,
    /// The node whose clock all times are of.
    first: Option<usize>,
    common: CommonProbes,
    crossings: Crossings,
    /// Nodes may wait for each other: something has changed since that was looked at.
    may_be_tied: bool,
    /// The first waiting input of each node that has one: its time, whether it comes last of what is as late, its node.
    heads: BinaryHeap<Reverse<(u64, bool, usize)>>,
    /// How many inputs wait.
    waiting: usize,
    /// Nodes that are followed and have nothing waiting.
    awaited: BTreeSet<usize>,
    coverage: JoinedCoverage,
    /// The last tick.
    ticked_ns: u64,
    ready: VecDeque<Input>,
    end: Option<End>,
}

impl Merge {
    /// A node begins, or begins anew.
    pub(super) fn begin(&mut self, node: usize, ahead_ns: i64) {
        if node >= self.nodes.len() {
            self.nodes.resize_with(node + 1, NodeInputs::default);
        }
        self.nodes[node].numbers = Some(NodeNumbers::new(node, ahead_ns));
        self.nodes[node].pids.clear();
        self.nodes[node].drift = None;
        self.first.get_or_insert(node);
        self.follow(node, Following::Followed);
    }

    /// All nodes up to the highest that has come.
    pub(super) fn nodes(&self) -> &[NodeInputs] {
        &self.nodes
    }

    /// Whether others wait for a node from here on.
    pub(super) fn follow(&mut self, node: usize, following: Following) {
        let Some(inputs) = self.nodes.get_mut(node) else { return };
        inputs.following = following;
        if following == Following::Followed && inputs.waiting.is_empty() {
            self.awaited.insert(node);
        } else {
            self.awaited.remove(&node);
        }
    }

    /// A node whose next input must be known before anything else is given out.
    pub(super) fn awaited(&self) -> Option<usize> {
        // Of those that are held up the one that is furthest behind.
        let behind = || self.all_awaited().min_by_key(|node| self.nodes[*node].last_ns);
        self.awaited.first().copied().or_else(behind)
    }

    /// All of these nodes.
    pub(super) fn all_awaited(&self) -> impl Iterator<Item = usize> {
        let is_stuck = self.awaited.is_empty() && self.heads.is_empty();
        self.awaited.iter().copied().chain(self.still_coming().filter(move |_| is_stuck))
    }

    /// Inputs that wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// What a node's clock shows is so much less than was thought.
    pub(super) fn set_clock(&mut self, node: usize, by_ns: i64) {
        let Some(inputs) = self.nodes.get_mut(node) else { return };
        if let Some(numbers) = &mut inputs.numbers {
            numbers.set_clock(by_ns);
            inputs.last_ns = inputs.last_ns.saturating_add_signed(by_ns);
        }
    }

    /// A node has read its clocks: from here on its times are what the clock of the first node would have shown.
    fn read_clocks(&mut self, node: usize, reading: ClockReading) {
        let Some(inputs) = self.nodes.get_mut(node) else { return };
        let Some(drift) = &mut inputs.drift else { return inputs.drift = Some(ClockDrift::new(reading)) };
        let step_ns = drift.step_ns(reading);
        let is_first = self.first == Some(node);
        for (other, inputs) in self.nodes.iter_mut().enumerate() {
            let Some(numbers) = inputs.numbers.as_mut().filter(|_| step_ns != 0) else { continue };
            match is_first {
                true if other != node => numbers.adjust_clock(step_ns.saturating_neg()),
                false if other == node => numbers.adjust_clock(step_ns),
                _ => {}
            }
        }
    }

    /// An input of a node in the numbers of all; none if the node has not begun.
    pub(super) fn renumbered(&mut self, node: usize, input: Input) -> Option<Input> {
        if let Input::Clock(reading) = input {
            self.read_clocks(node, reading);
        }
        let numbers = self.nodes.get_mut(node)?.numbers.as_mut()?;
        Some(numbers.renumber(input, &mut self.common))
    }

    /// Takes the next input of a node, in the numbers of all.
    pub(super) fn push(&mut self, node: usize, input: Input) {
        let Some(inputs) = self.nodes.get_mut(node) else { return };
        self.may_be_tied |= self.crossings.is_waited_for(&input);
        inputs.note_pid(&input);
        inputs.last_ns = inputs.last_ns.max(input.time_ns().unwrap_or(0));
        inputs.waiting.push_back((inputs.last_ns, input));
        self.waiting += 1;
        if inputs.waiting.len() == 1 {
            self.awaited.remove(&node);
            self.note_head(node);
        }
    }

    /// Gives out an input of no node.
    pub(super) fn give(&mut self, input: Input) {
        self.ready.push_back(input);
    }

    /// The same, of one that needs no place in the order.
    pub(super) fn give_at_once(&mut self, input: Input) {
        self.ready.push_back(input);
    }

    /// The next input of all; nothing while a node is [awaited](Merge::awaited), and when there is nothing.
    pub(super) fn next(&mut self) -> Option<Input> {
        while self.ready.is_empty() && self.awaited.is_empty() && self.advance() {}
        self.ready.pop_front()
    }

    /// Goes one step on. False: nothing waits, or more is to come before anything can go on.
    fn advance(&mut self) -> bool {
        if self.untie() {
            return true;
        }
        let next_ns = self.heads.peek().map(|Reverse((time_ns, ..))| *time_ns);
        let by_ns = next_ns.or_else(|| self.still_coming().map(|node| self.nodes[node].last_ns).min());
        // Where nobody has anything more, nobody will have sent it.
        let since_ns = by_ns.map_or(u64::MAX, |by_ns| by_ns.saturating_sub(MOST_WAIT_NS));
        if self.give_up_waiting(since_ns) {
            return true;
        }
        let Some(Reverse((.., node))) = self.heads.pop() else { return false };
        self.step(node);
        true
    }

    /// A node that is held up since then or longer waits no more. False: there is none.
    fn give_up_waiting(&mut self, since_ns: u64) -> bool {
        let node = self.crossings.give_up(since_ns);
        node.iter().for_each(|node| self.note_head(*node));
        node.is_some()
    }

    /// Nodes that are held up, of which more may come: what others wait for, say.
    fn still_coming(&self) -> impl Iterator<Item = usize> {
        let held_up = self.crossings.held_up().map(|(node, _)| node);
        held_up.filter(|node| self.nodes[*node].following == Following::Followed)
    }

    /// No node has more: what waits is given out.
    pub(super) fn drain(&mut self) {
        // What nobody has sent by now nobody will.
        while self.advance() || self.give_up_waiting(u64::MAX) {}
    }

    /// The end of all, if a node had one, behind all that waits.
    pub(super) fn finish(&mut self) {
        self.drain();
        self.ready.extend(self.end.take().map(Input::End));
    }

    /// A tick comes when all of its time is there.
    fn note_head(&mut self, node: usize) {
        if let Some((time_ns, input)) = self.nodes[node].waiting.front() {
            let is_last = matches!(input, Input::Tick { .. } | Input::End(_));
            self.heads.push(Reverse((*time_ns, is_last, node)));
        }
    }

    fn step(&mut self, node: usize) {
        let inputs = &mut self.nodes[node];
        if let Some((time_ns, input)) = inputs.waiting.front()
            && !self.crossings.may_go(node, input, *time_ns)
        {
            self.may_be_tied = true;
            return;
        }
        let Some((time_ns, input)) = inputs.waiting.pop_front() else { return };
        self.waiting -= 1;
        if inputs.waiting.is_empty() && inputs.following == Following::Followed {
            self.awaited.insert(node);
        }
        self.note_head(node);
        self.pass(node, time_ns, input);
    }

    /// An input of a node is given out, if it says anything to all.
    fn pass(&mut self, node: usize, time_ns: u64, input: Input) {
        for other in self.crossings.let_go(&input) {
            self.note_head(other);
        }
        let input = match input {
            Input::Start(_) => return,
            // One clock is enough for all.
            Input::Tick { .. } if self.nodes[..node].iter().any(|n| n.following == Following::Followed) => {
                return;
            }
            Input::Tick { .. } if time_ns <= self.ticked_ns => return,
            Input::End(end) => return self.end_of(node, end),
            Input::Coverage(coverage) => self.cover(node, *coverage),
            other => other,
        };
        if matches!(input, Input::Tick { .. }) {
            self.ticked_ns = time_ns;
        }
        self.give(input);
    }

    /// Where nodes wait for each other: gives out what one of them sent that another waits for. False: there is nothing such.
    fn untie(&mut self) -> bool {
        if !std::mem::take(&mut self.may_be_tied) {
            return false;
        }
        let held_up: Vec<(usize, u64)> = self.crossings.held_up().collect();
        let found = held_up.iter().find_map(|&(_, stream)| {
            let senders = held_up.iter().map(|(node, _)| *node);
            senders.filter_map(|node| Some((node, self.sent_behind(node, stream)?))).next()
        });
        if let Some((node, at)) = found {
            self.pull(node, at);
            self.may_be_tied = true;
        }
        found.is_some()
    }

    /// Where the first of what a node sent on a stream waits, unless its thread waits itself.
    fn sent_behind(&self, node: usize, stream: u64) -> Option<usize> {
        let mut stuck = StuckThreads::default();
        for (at, (_, input)) in self.nodes[node].waiting.iter().take(MOST_LOOKED_BEHIND).enumerate() {
            let is_wanted = Moved::of(input).is_some_and(|moved| moved.stream == stream && !moved.receive);
            let is_stuck = stuck.hold(input) || self.crossings.waits(node, input);
            if is_wanted {
                return (!is_stuck).then_some(at);
            }
            if is_stuck {
                stuck.add(input);
            }
        }
        None
    }

    /// Gives out what waits at a node up to a place, but for what threads do that wait themselves.
    fn pull(&mut self, node: usize, at: usize) {
        let before: Vec<(u64, Input)> = self.nodes[node].waiting.drain(..=at).collect();
        let mut stuck = StuckThreads::default();
        let mut kept = Vec::new();
        for (time_ns, input) in before {
            if stuck.hold(&input) || !self.crossings.goes(node, &input) {
                stuck.add(&input);
                kept.push((time_ns, input));
            } else {
                self.waiting -= 1;
                self.pass(node, time_ns, input);
            }
        }
        for one in kept.into_iter().rev() {
            self.nodes[node].waiting.push_front(one);
        }
    }

    /// What a node does not watch is not known any more.
    pub(super) fn forget_coverage(&mut self, node: usize, time_ns: u64) {
        if self.nodes.get(node).is_some_and(|node| node.coverage.paused || !node.coverage.off.is_empty()) {
            let input = self.cover(node, Coverage { time_ns, ..Coverage::default() });
            self.give(input);
        }
    }

    /// What is watched of all: what is out on one node is not known to be in.
    fn cover(&mut self, node: usize, coverage: Coverage) -> Input {
        let time_ns = coverage.time_ns;
        self.coverage.add(&coverage);
        let before = std::mem::replace(&mut self.nodes[node].coverage, coverage);
        self.coverage.remove(&before);
        Input::Coverage(Box::new(self.coverage.at(time_ns)))
    }

    fn end_of(&mut self, node: usize, end: End) {
        self.follow(node, Following::Over);
        let before = std::mem::take(&mut self.nodes[node].coverage);
        self.coverage.remove(&before);
        match &mut self.end {
            None => self.end = Some(end),
            Some(all) => {
                all.time_ns = all.time_ns.max(end.time_ns);
                all.failed_probes.extend(end.failed_probes);
                all.strangers = both(all.strangers.take(), end.strangers);
            }
        }
    }
}

/// Threads of a node that wait: what they did later, and what those do that they have started, comes after that.
#[derive(Default)]
struct StuckThreads(BTreeSet<u32>);

impl StuckThreads {
    /// Whether an input comes after something that waits.
    fn hold(&self, input: &Input) -> bool {
        match input {
            Input::Record(record) => self.0.contains(&record.tid()),
            // What a process is after it has begun a program.
            Input::Process(facts) => self.0.contains(&facts.pid),
            _ => false,
        }
    }

    /// It waits.
    fn add(&mut self, input: &Input) {
        let Input::Record(raw) = input else { return };
        self.0.insert(raw.tid());
        if [kind::FORK, kind::THREAD].contains(&raw.kind())
            && let Ok(Record { body: Body::Fork { child } | Body::Thread { child, .. }, .. }) =
                Record::decode(raw)
        {
            self.0.insert(child);
        }
    }
}

fn both(one: Option<Box<StrangerCost>>, other: Option<Box<StrangerCost>>) -> Option<Box<StrangerCost>> {
    let (Some(mut one), Some(other)) = (one, other) else { return None };
    one.processes = one.processes.saturating_add(other.processes);
    one.of_other_users = one.of_other_users.saturating_add(other.of_other_users);
    one.counted_ns = one.counted_ns.max(other.counted_ns);
    one.cost_ns = one.cost_ns.saturating_add(other.cost_ns);
    for (class, hits) in other.hits {
        let all = one.hits.entry(class).or_default();
        *all = all.saturating_add(hits);
    }
    Some(one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_watched_while_no_node_that_pauses_has_given_them_up() {
        let keeps = Coverage { paused: true, keeps_calls: true, off: vec![7], ..Coverage::default() };
        let gives_up = Coverage { paused: true, ..Coverage::default() };
        let mut all = JoinedCoverage::default();
        let told = |all: &JoinedCoverage| {
            let coverage = all.at(5);
            (coverage.paused, coverage.keeps_calls, coverage.off)
        };
        assert_eq!(told(&all), (false, false, vec![]));
        all.add(&keeps);
        assert_eq!(told(&all), (true, true, vec![7]));
        all.add(&gives_up);
        assert_eq!(told(&all), (true, false, vec![7]));
        all.remove(&gives_up);
        assert_eq!(told(&all), (true, true, vec![7]));
        all.remove(&keeps);
        assert_eq!(told(&all), (false, false, vec![]));
    }
}
