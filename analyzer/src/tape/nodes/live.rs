//! Inputs of several sessions that are under way, one on each node of a job, as those of one session.
//!
//! Nodes come when they come, in any order, and each has a number that it keeps, also when its session ends unexpectedly and
//! another one begins there. Whoever reads says what time it is, by any clock that goes on: an open node that has
//! not been heard of for too long holds the others up no longer. What is not there is told as a loss of all processes that
//! the node had told of; so is what [was lost](LiveJoin::lose) on the way, and the time between two sessions of a node.

use super::clocks::ahead_ns;
use super::join::joined_start;
use super::merge::{Following, Merge};
use super::numbers::MAX_NODES;
use crate::tape::input::{Input, Loss, Start};

/// Inputs that wait at most for nodes that have nothing; then it is as if these had been silent for too long.
const MOST_WAITING: usize = 1 << 20;
/// By so much the clocks of nodes differ at most when one begins, for that to be believed.
const MOST_CLOCK_ERROR_NS: u64 = 5_000_000_000;

/// For how long is waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// For other nodes, after the first one has come: what it has is given out then.
    pub at_first_ns: u64,
    /// For a node that is not heard of any more.
    pub silence_ns: u64,
    /// For one that [is heard of](LiveJoin::hear), and has no inputs.
    pub inputs_ns: u64,
}

impl Default for Patience {
    fn default() -> Self {
        Self { at_first_ns: 2_000_000_000, silence_ns: 5_000_000_000, inputs_ns: 30_000_000_000 }
    }
}

/// What is known of a node's session.
#[derive(Debug, Default)]
struct LiveNode {
    start: Option<Start>,
    /// When it was heard of last, by the reader's clock …
    heard_ns: u64,
    /// … and when its last input came.
    input_ns: u64,
    /// It has not ticked yet: what its clock shows is not known.
    is_new: bool,
    /// From then on something of it was lost, and how much; told when it goes on.
    lost: Option<Missing>,
}

/// Something that did not come.
#[derive(Clone, Debug)]
struct Missing {
    /// Processes that it may be of.
    pids: Vec<u32>,
    from_ns: u64,
    /// Records that may have been of MPI calls.
    calls: u64,
    state: u64,
}

impl Missing {
    /// A loss of each process.
    fn losses(self, to_ns: u64) -> impl Iterator<Item = Input> {
        let Self { pids, from_ns, calls, state } = self;
        let to_ns = to_ns.max(from_ns);
        pids.into_iter().map(move |pid| Input::Loss(Loss { pid, from_ns, to_ns, movements: 0, calls, state }))
    }
}

/// See the [module](self).
#[derive(Debug, Default)]
pub struct LiveJoin {
    merge: Merge,
    nodes: Vec<LiveNode>,
    /// The beginning of the first session.
    first: Option<Start>,
    /// Until then others are waited for.
    opens_ns: u64,
    now_ns: u64,
    patience: Patience,
}

impl LiveJoin {
    /// Of nodes that are still to come.
    pub fn new(patience: Patience) -> Self {
        Self { patience, ..Self::default() }
    }

    /// Takes the next input of a node. `false`: nothing was taken, since there is no such number, or the node has not begun:
    /// each of its sessions has [`Input::Start`] as its first input.
    pub fn push(&mut self, node: usize, input: Input) -> bool {
        if let Input::Start(start) = input {
            return self.begin(node, *start);
        }
        let Some(live) = self.nodes.get_mut(node).filter(|live| live.start.is_some()) else { return false };
        (live.heard_ns, live.input_ns) = (self.now_ns, self.now_ns);
        if self.merge.nodes()[node].following() == Following::Silent {
            self.merge.follow(node, Following::Followed);
        }
        if let Input::Tick { time_ns } = input {
            self.look_at_clock(node, time_ns);
        }
        let Some(input) = self.merge.renumbered(node, input) else { return false };
        self.tell_lost(node, &input);
        self.merge.push(node, input);
        true
    }

    /// A node said something else: it is there, and its inputs are waited for.
    pub fn hear(&mut self, node: usize) {
        if let Some(live) = self.nodes.get_mut(node) {
            live.heard_ns = self.now_ns;
        }
    }

    /// Something of a node was lost on its way here, after its last input.
    pub fn lose(&mut self, node: usize) {
        let missing = Missing { calls: 1, state: 0, ..self.unknown(node) };
        if let Some(live) = self.nodes.get_mut(node) {
            live.lost.get_or_insert(missing);
        }
    }

    /// All nodes that were to come have begun: no other one is waited for.
    pub fn open(&mut self) {
        self.opens_ns = 0;
    }

    /// It is so late, by a clock of the reader's.
    pub fn advance(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
        let is_full = self.merge.waiting() > MOST_WAITING;
        let Patience { silence_ns, inputs_ns, .. } = self.patience;
        let is_silent = |live: &LiveNode| {
            now_ns.saturating_sub(live.heard_ns) > silence_ns
                || now_ns.saturating_sub(live.input_ns) > inputs_ns
        };
        let awaited = self.merge.all_awaited().filter(|node| is_full || is_silent(&self.nodes[*node]));
        for node in awaited.collect::<Vec<_>>() {
            self.give_up(node);
        }
    }

    /// The next input of all; nothing as long as a node may have an earlier one.
    pub fn take(&mut self) -> Option<Input> {
        if self.now_ns < self.opens_ns { None } else { self.merge.next() }
    }

    /// Whether all nodes that have come have ended.
    pub fn is_over(&self) -> bool {
        let following = || self.merge.nodes().iter().map(|node| node.following());
        following().any(|one| one == Following::Over)
            && following().all(|one| matches!(one, Following::Over | Following::Absent))
    }

    /// No more will come: what waits is given out, and the end of all, if a node had one.
    pub fn finish(&mut self) {
        self.opens_ns = 0;
        self.merge.drain();
        for node in 0..self.nodes.len() {
            let is_over = self.merge.nodes()[node].following() == Following::Over;
            let lost = self.nodes[node].lost.take();
            if let Some(lost) = lost.or_else(|| (!is_over).then(|| self.unknown(node))) {
                self.give_losses(lost);
            }
        }
        self.merge.finish();
    }

    /// A session begins on a node.
    fn begin(&mut self, node: usize, start: Start) -> bool {
        if node >= MAX_NODES {
            return false;
        }
        if self.first.is_none() {
            self.opens_ns = self.now_ns.saturating_add(self.patience.at_first_ns);
        }
        let first = self.first.get_or_insert_with(|| start.clone());
        let ahead_ns = ahead_ns(first, &start);
        if node >= self.nodes.len() {
            self.nodes.resize_with(node + 1, LiveNode::default);
        }
        if self.nodes[node].start.is_some() {
            let missing = self.unknown(node);
            let lost = &mut self.nodes[node].lost;
            let from_ns = lost.as_ref().map_or(missing.from_ns, |lost| lost.from_ns);
            *lost = Some(Missing { from_ns, ..missing });
            self.merge.forget_coverage(node, self.latest_ns());
        }
        let live = &mut self.nodes[node];
        live.start = Some(start);
        (live.heard_ns, live.input_ns, live.is_new) = (self.now_ns, self.now_ns, true);
        self.merge.begin(node, ahead_ns);
        self.tell_start();
        true
    }

    /// Says which nodes there are.
    fn tell_start(&mut self) {
        let Some(first) = &self.first else { return };
        let absent = Start { launched: true, ..Start::default() };
        let starts = self.nodes.iter().map(|live| live.start.as_ref().unwrap_or(&absent));
        let mut start = joined_start(first, starts);
        let hosts = start.nodes.iter().filter(|host| !host.is_empty());
        start.host = hosts.map(String::as_str).collect::<Vec<_>>().join(", ");
        self.merge.give_at_once(Input::Start(Box::new(start)));
    }

    /// Where the first tick of a node shows that its wall clock is wrong, its times are those of the others.
    fn look_at_clock(&mut self, node: usize, time_ns: u64) {
        if !std::mem::take(&mut self.nodes[node].is_new) {
            return;
        }
        let Some(Input::Tick { time_ns }) = self.merge.renumbered(node, Input::Tick { time_ns }) else {
            return;
        };
        let others = self.merge.nodes().iter().enumerate().filter(|(other, inputs)| {
            *other != node && inputs.following() == Following::Followed && inputs.last_ns() > 0
        });
        let Some(latest_ns) = others.map(|(_, inputs)| inputs.last_ns()).max() else { return };
        if latest_ns.abs_diff(time_ns) > MOST_CLOCK_ERROR_NS {
            self.merge.set_clock(node, latest_ns.wrapping_sub(time_ns).cast_signed());
        }
    }

    /// A node holds the others up no longer.
    fn give_up(&mut self, node: usize) {
        self.merge.follow(node, Following::Silent);
        let missing = self.unknown(node);
        self.give_losses(missing.clone());
        self.merge.forget_coverage(node, self.latest_ns());
        self.nodes[node].lost = Some(missing);
    }

    /// Tells what was lost of a node before an input of it, if that says when it was.
    fn tell_lost(&mut self, node: usize, input: &Input) {
        let Some(to_ns) = input.time_ns() else { return };
        let Some(missing) = self.nodes[node].lost.take() else { return };
        for loss in missing.losses(to_ns) {
            self.merge.push(node, loss);
        }
    }

    fn give_losses(&mut self, missing: Missing) {
        let latest_ns = self.latest_ns();
        for loss in missing.losses(latest_ns) {
            self.merge.give(loss);
        }
    }

    /// Nobody knows what came of a node after its last input.
    fn unknown(&self, node: usize) -> Missing {
        let inputs = self.merge.nodes().get(node);
        Missing {
            pids: inputs.map_or_else(Vec::new, |inputs| inputs.pids().collect()),
            from_ns: inputs.map_or(0, |inputs| inputs.last_ns()),
            calls: Loss::UNKNOWN,
            state: 1,
        }
    }

    fn latest_ns(&self) -> u64 {
        self.merge.nodes().iter().map(|inputs| inputs.last_ns()).max().unwrap_or(0)
    }
}
