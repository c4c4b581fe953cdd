//! Inputs of several sessions, one on each node of a job, as those of one session.
//!
//! Times become those of the first node: what its clock would have shown, as the wall clocks of the nodes say at the start
//! of each tape. They may differ by some milliseconds. That what was sent comes before it is received is known without them.

use std::collections::{BTreeSet, VecDeque};

use super::numbers::{CommonProbes, MAX_NODES, NodeNumbers};
use crate::tape::causal_order::CausalOrder;
use crate::tape::input::{Coverage, End, Input, Start, StrangerCost};

/// For how long a receive waits for what was sent on another node, whose clock may be behind.
const MOST_WAIT_NS: u64 = 2_000_000_000;

/// Where one node stands.
#[derive(Debug)]
struct NodeTape {
    numbers: NodeNumbers,
    /// Its next input, and when it was: never before the one before it.
    next: Option<(u64, Input)>,
    last_ns: u64,
    is_over: bool,
    coverage: Coverage,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Join {
    start: Option<Start>,
    nodes: Vec<NodeTape>,
    common: CommonProbes,
    causal: CausalOrder,
    /// The last tick.
    ticked_ns: u64,
    ready: VecDeque<Input>,
    end: Option<End>,
}

impl Join {
    /// Of sessions that began so, one on each node; `None` for none, or too many.
    pub fn new(starts: &[Start]) -> Option<Self> {
        let first = starts.first().filter(|_| starts.len() <= MAX_NODES)?;
        let node = |(number, start): (usize, &Start)| NodeTape {
            numbers: NodeNumbers::new(number, ahead_ns(first, start)),
            next: None,
            last_ns: 0,
            is_over: false,
            coverage: Coverage::default(),
        };
        let start = Start {
            host: starts.iter().map(|start| start.host.as_str()).collect::<Vec<_>>().join(", "),
            nodes: starts.iter().map(|start| start.host.clone()).collect(),
            launched: starts.iter().all(|start| start.launched),
            ..first.clone()
        };
        Some(Self {
            start: Some(start),
            nodes: starts.iter().enumerate().map(node).collect(),
            common: CommonProbes::default(),
            causal: CausalOrder::new(MOST_WAIT_NS),
            ticked_ns: 0,
            ready: VecDeque::new(),
            end: None,
        })
    }

    /// Gives all inputs to `take`, in order. `read` gives the next input of a node; none: there are no more.
    ///
    /// # Errors
    /// What `read` and `take` say.
    pub fn run<E>(
        mut self,
        mut read: impl FnMut(usize) -> Result<Option<Input>, E>,
        mut take: impl FnMut(&Input) -> Result<(), E>,
    ) -> Result<(), E> {
        loop {
            if let Some(node) = self.wanted() {
                let input = read(node)?;
                self.put(node, input);
            } else if let Some(input) = self.next() {
                take(&input)?;
            } else if self.wanted().is_none() {
                return Ok(());
            }
        }
    }

    /// A node whose next input must be known before anything else comes.
    fn wanted(&self) -> Option<usize> {
        self.nodes.iter().position(|node| node.next.is_none() && !node.is_over)
    }

    /// The next input of a node; none: there are no more.
    fn put(&mut self, node: usize, input: Option<Input>) {
        let Some(tape) = self.nodes.get_mut(node) else { return };
        match input {
            None => tape.is_over = true,
            Some(input) => {
                let input = tape.numbers.renumber(input, &mut self.common);
                tape.last_ns = tape.last_ns.max(time_of(&input).unwrap_or(0));
                tape.next = Some((tape.last_ns, input));
            }
        }
    }

    /// The next input of all; nothing while one is [wanted](Join::wanted), and when all is over.
    fn next(&mut self) -> Option<Input> {
        if let Some(start) = self.start.take() {
            return Some(Input::Start(Box::new(start)));
        }
        loop {
            if let Some(input) = self.ready.pop_front() {
                return Some(input);
            }
            if self.wanted().is_some() {
                return None;
            }
            match self.earliest() {
                Some(node) => self.step(node),
                None => return self.finish(),
            }
        }
    }

    /// The node whose turn it is. A tick comes when all of its time is there.
    fn earliest(&self) -> Option<usize> {
        let turn = |(number, tape): (usize, &NodeTape)| {
            let (time_ns, input) = tape.next.as_ref()?;
            Some((*time_ns, matches!(input, Input::Tick { .. } | Input::End(_)), number))
        };
        self.nodes.iter().enumerate().filter_map(turn).min().map(|(.., number)| number)
    }

    fn step(&mut self, node: usize) {
        let Some((time_ns, input)) = self.nodes[node].next.take() else { return };
        let input = match input {
            Input::Start(_) => return,
            // One clock is enough for all.
            Input::Tick { .. } if self.nodes[..node].iter().any(|tape| !tape.is_over) => return,
            Input::Tick { .. } if time_ns <= self.ticked_ns => return,
            Input::End(end) => return self.end_of(node, end),
            Input::Coverage(coverage) => self.cover(node, *coverage),
            other => other,
        };
        if matches!(input, Input::Tick { .. }) {
            self.ticked_ns = time_ns;
        }
        let ready = &mut self.ready;
        self.causal.push(input, time_ns, &mut |input| ready.push_back(input));
    }

    /// What is watched of all: what is out on one node is not known to be in.
    fn cover(&mut self, node: usize, coverage: Coverage) -> Input {
        let time_ns = coverage.time_ns;
        self.nodes[node].coverage = coverage;
        let all = || self.nodes.iter().map(|tape| &tape.coverage);
        let off: BTreeSet<u32> = all().flat_map(|coverage| coverage.off.iter().copied()).collect();
        let paused = all().any(|coverage| coverage.paused);
        Input::Coverage(Box::new(Coverage { time_ns, paused, off: off.into_iter().collect() }))
    }

    fn end_of(&mut self, node: usize, end: End) {
        self.nodes[node].is_over = true;
        self.nodes[node].coverage = Coverage::default();
        match &mut self.end {
            None => self.end = Some(end),
            Some(all) => {
                all.time_ns = all.time_ns.max(end.time_ns);
                all.failed_probes.extend(end.failed_probes);
                all.strangers = both(all.strangers.take(), end.strangers);
            }
        }
    }

    /// What still waits, and the end of all.
    fn finish(&mut self) -> Option<Input> {
        let ready = &mut self.ready;
        self.causal.finish(&mut |input| ready.push_back(input));
        self.ready.extend(self.end.take().map(Input::End));
        self.ready.pop_front()
    }
}

/// What must be added to times of one node to have those of another: their wall clocks show the same.
fn ahead_ns(of: &Start, node: &Start) -> i64 {
    let began = |start: &Start| i128::from(start.wall_clock_ns()) - i128::from(start.time_ns);
    let ahead = (began(node) - began(of)).clamp(i128::from(i64::MIN), i128::from(i64::MAX));
    ahead as i64
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

/// When an input was, if it says so itself.
fn time_of(input: &Input) -> Option<u64> {
    match input {
        Input::Record(record) => Some(record.time_ns()),
        Input::Coverage(coverage) => Some(coverage.time_ns),
        Input::Threads(threads) => Some(threads.time_ns),
        Input::Tick { time_ns } => Some(*time_ns),
        Input::Start(start) => Some(start.time_ns),
        Input::End(end) => Some(end.time_ns),
        // What was lost may have been anything up to then.
        Input::Loss(loss) => Some(loss.to_ns).filter(|to_ns| *to_ns < u64::MAX),
        Input::LateRecord(_) | Input::Process(_) | Input::Plan(_) | Input::Symbols(_) => None,
    }
}
