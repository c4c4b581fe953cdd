//! Agents of the nodes of a job, and letters between them that take their time.

use std::collections::{BTreeSet, VecDeque};

use analyzer::input::Input;
use analyzer::options::Options;
use analyzer::pipeline::{Letter, LetterTo, NodePipeline};

/// What goes between nodes, or between them and whoever looks at all.
#[derive(Clone)]
enum Mail {
    Letter(Vec<u8>),
    Round(u64),
    Confirmed(u64),
}

/// Something on its way.
struct Sent {
    from: usize,
    to: usize,
    mail: Mail,
    due: usize,
}

/// What the network does to the letters of a job, and to words about rounds.
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
    /// The latest time of an input.
    now_ns: u64,
    round: u64,
    /// The last round that each node has confirmed.
    confirmed: Vec<u64>,
}

impl Agents {
    pub fn new(count: usize, options: &Options, transport: Transport) -> Self {
        let nodes = (0..count).map(|node| NodePipeline::new(options.clone(), node as u32)).collect();
        let out = vec![Vec::new(); count];
        let topics = vec![BTreeSet::new(); count];
        let confirmed = vec![0; count];
        let on_the_way = VecDeque::new();
        Self { nodes, topics, out, on_the_way, transport, letters: 0, now: 0, now_ns: 0, round: 0, confirmed }
    }

    /// An input of a node.
    pub fn push(&mut self, node: usize, input: &Input) {
        self.nodes[node].push(input);
        self.now_ns = self.now_ns.max(input.time_ns().unwrap_or(0));
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
            if let Some(number) = self.nodes[from].take_confirmed() {
                self.send(from, self.nodes.len(), Mail::Confirmed(number));
            }
            self.out[from].extend(self.nodes[from].take_inputs());
        }
        if self.confirmed.iter().all(|number| *number == self.round) {
            self.round += 1;
            for node in 0..self.nodes.len() {
                self.send(self.nodes.len(), node, Mail::Round(self.round));
            }
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
                if !self.transport.lost.contains(&number) {
                    self.send(from, to, Mail::Letter(bytes.clone()));
                }
            }
        }
    }

    fn send(&mut self, from: usize, to: usize, mail: Mail) {
        let turn = self.letters + self.round as usize;
        let delay = self.transport.delays[turn % self.transport.delays.len()];
        // What was sent to the same node before, by whomever, is not overtaken.
        let before = self.on_the_way.iter().filter(|sent| sent.to == to);
        let due = before.map(|sent| sent.due).max().unwrap_or(0).max(self.now + delay);
        self.on_the_way.push_back(Sent { from, to, mail, due });
    }

    fn deliver(&mut self) {
        while let Some(at) = self.on_the_way.iter().position(|sent| sent.due <= self.now) {
            let Sent { from, to, mail, .. } = self.on_the_way.remove(at).expect("it is there");
            match mail {
                Mail::Letter(bytes) => self.nodes[to].deliver(from as u32, &bytes).expect("a letter"),
                Mail::Round(number) => self.nodes[to].begin_round(number, self.now_ns),
                Mail::Confirmed(number) => self.confirmed[from] = number,
            }
        }
    }

    /// Exchanges letters until there are none.
    pub fn settle(&mut self) {
        self.settle_until(|_| true);
    }

    /// The same, until also nobody waits any more: all have come to the end.
    fn settle_all(&mut self) {
        self.settle_until(|node| node.is_settled() || node.has_waited());
    }

    fn settle_until(&mut self, is_over: impl Fn(&NodePipeline) -> bool) {
        for _ in 0..1000 {
            self.collect();
            let mut on_the_way = self.on_the_way.iter();
            let has_letters = on_the_way.any(|sent| matches!(sent.mail, Mail::Letter(_)));
            if !has_letters && self.nodes.iter().all(&is_over) {
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
    agents.settle_all();
    // Nobody misses a letter that was the last one.
    let is_settled = agents.transport.lost.is_empty();
    assert!(!is_settled || agents.nodes.iter().all(NodePipeline::is_settled), "nothing is on its way");
    agents.finish()
}
