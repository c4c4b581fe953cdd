//! Agents of the nodes of a job, and letters between them that take their time.

use std::collections::{BTreeSet, VecDeque};

use analyzer::input::Input;
use analyzer::options::Options;
use analyzer::pipeline::{Letter, LetterTo, NodePipeline};

/// A letter on its way.
struct Sent {
    from: usize,
    to: usize,
    bytes: Vec<u8>,
    due: usize,
}

/// What the network does to the letters of a job.
#[derive(Clone, Debug)]
pub struct Transport {
    /// Letters are taken each time so many inputs have come.
    pub every: usize,
    /// How many inputs later they arrive, in turn.
    pub delays: Vec<usize>,
    /// Which of all letters are lost.
    pub lost: Vec<usize>,
}

impl Default for Transport {
    fn default() -> Self {
        Self { every: 1, delays: vec![0], lost: Vec::new() }
    }
}

/// Agents, one on each node.
pub struct Agents {
    pub nodes: Vec<NodePipeline>,
    /// What each listens to.
    topics: Vec<BTreeSet<u32>>,
    out: Vec<Vec<Input>>,
    on_the_way: VecDeque<Sent>,
    transport: Transport,
    letters: usize,
    now: usize,
}

impl Agents {
    pub fn new(count: usize, options: &Options, transport: Transport) -> Self {
        let nodes = (0..count).map(|node| NodePipeline::new(options.clone(), node as u32)).collect();
        let out = vec![Vec::new(); count];
        let topics = vec![BTreeSet::new(); count];
        Self { nodes, topics, out, on_the_way: VecDeque::new(), transport, letters: 0, now: 0 }
    }

    /// An input of a node.
    pub fn push(&mut self, node: usize, input: &Input) {
        self.nodes[node].push(input);
        self.now += 1;
        if self.now.is_multiple_of(self.transport.every) {
            self.collect();
        }
        self.deliver();
    }

    /// Letters of all nodes go on their way.
    pub fn collect(&mut self) {
        for (node, topics) in self.nodes.iter_mut().zip(&mut self.topics) {
            topics.extend(node.take_topics());
        }
        for from in 0..self.nodes.len() {
            let letters = self.nodes[from].take_letters();
            self.post(from, letters);
            self.out[from].extend(self.nodes[from].take_inputs());
        }
    }

    fn post(&mut self, from: usize, letters: Vec<Letter>) {
        for Letter { to, bytes } in letters {
            let all = (0..self.nodes.len()).filter(|node| *node != from);
            let is_for = |node: &usize| match to {
                LetterTo::Node(to) => to as usize == *node,
                LetterTo::Topic(topic) => self.topics[*node].contains(&topic),
            };
            for to in all.filter(is_for).collect::<Vec<_>>() {
                let number = self.letters;
                self.letters += 1;
                if self.transport.lost.contains(&number) {
                    continue;
                }
                let delay = self.transport.delays[number % self.transport.delays.len()];
                // Those of one node to another one keep their order.
                let before = self.on_the_way.iter().filter(|sent| (sent.from, sent.to) == (from, to));
                let due = before.map(|sent| sent.due).max().unwrap_or(0).max(self.now + delay);
                self.on_the_way.push_back(Sent { from, to, bytes: bytes.clone(), due });
            }
        }
    }

    fn deliver(&mut self) {
        while let Some(at) = self.on_the_way.iter().position(|sent| sent.due <= self.now) {
            let sent = self.on_the_way.remove(at).expect("it is there");
            self.nodes[sent.to].deliver(sent.from as u32, &sent.bytes).expect("a letter");
        }
    }

    /// Exchanges letters until there are none.
    pub fn settle(&mut self) {
        for _ in 0..1000 {
            self.collect();
            if self.on_the_way.is_empty() {
                return;
            }
            self.now = self.on_the_way.iter().map(|sent| sent.due).max().unwrap_or(0).max(self.now);
            self.deliver();
        }
        panic!("letters go to and fro for ever");
    }

    /// All nodes take leave; what each has told where all nodes are.
    pub fn finish(mut self) -> Vec<Vec<Input>> {
        self.settle();
        for node in 0..self.nodes.len() {
            let letters = self.nodes[node].finish();
            self.post(node, letters);
            self.settle();
        }
        self.out
    }
}

/// Runs the inputs of all nodes past their agents, as they come; each tape's times are those of one clock.
pub fn run_agents(tapes: &[Vec<Input>], options: &Options, transport: Transport) -> Vec<Vec<Input>> {
    let mut agents = Agents::new(tapes.len(), options, transport);
    let mut all: Vec<(u64, usize, &Input)> = Vec::new();
    for (node, tape) in tapes.iter().enumerate() {
        let mut last_ns = 0;
        for input in tape {
            last_ns = input.time_ns().unwrap_or(last_ns).max(last_ns);
            all.push((last_ns, node, input));
        }
    }
    let is_end = |input: &Input| matches!(input, Input::End(_));
    all.sort_by_key(|(time_ns, _, input)| (is_end(input), *time_ns));
    for (_, node, input) in all {
        // Jobs do not end in the midst of what they do.
        if is_end(input) {
            agents.settle();
        }
        agents.push(node, input);
    }
    agents.settle();
    assert!(agents.nodes.iter().all(NodePipeline::is_settled), "nothing is on its way");
    agents.finish()
}
