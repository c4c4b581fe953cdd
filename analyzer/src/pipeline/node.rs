//! The part of one node of a job on many: its records are analyzed here, and what is counted goes to where all nodes are.

use std::collections::{BTreeMap, BTreeSet};

use super::elsewhere::concerns_others;
use super::links::{LetterArrival, LetterLinks};
use super::pace::{Pace, Timer};
use super::rounds::RoundsOfNode;
use super::session::{LastCall, Pipeline};
use crate::chains::far_state::FarPiece;
use crate::chains::stream_ends::{ROUNDS_TO_BE_SURE, topic_of};
use crate::chains::sums::DigestWriter;
use crate::chains::sums::letter::{self, LetterHead, LetterNews, LetterWay};
use crate::job::thinner::Thinner;
use crate::options::Options;
use crate::tape::bytes::ByteReader;
use crate::tape::causal_order::CausalOrder;
use crate::tape::input::Input;
use crate::tape::sequencer::DEFAULT_MOST_HELD_NS;
use crate::tape::wire::RawRecord;
use crate::tape::{BadBytes, MAX_NODES};

/// So many rounds after the end others have said what there was to say, or will not.
const LEAVING_ROUNDS: u64 = 2 * ROUNDS_TO_BE_SURE;

/// Whom a letter is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LetterTo {
    /// One node.
    Node(u32),
    /// All who listen to a [topic](NodePipeline::take_topics).
    Topic(u32),
}

/// Something for the agents of other nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    /// Whom it is for.
    pub to: LetterTo,
    /// For [`NodePipeline::deliver`].
    pub bytes: Vec<u8>,
}

/// Follows the ranks of one node. What it [gives](NodePipeline::take_inputs) is the node's part of a job in a
/// [`LiveJoin`](crate::tape::LiveJoin) or [`Join`](crate::tape::Join), for one [`Pipeline`] that says what is not like the
/// rest. Chains that go to other nodes are followed by [letters](NodePipeline::take_letters) between their agents.
///
/// Letters should go out every few milliseconds: what is received from another node waits until that has told what it sent,
/// and all that comes after it waits as well. That nobody will tell is known by [rounds](NodePipeline::begin_round), which
/// whoever looks at all nodes begins.
pub struct NodePipeline {
    node: u32,
    /// Tells sessions of agents apart.
    session: u64,
    /// The wall clock shows so much more than the clock of the session.
    wall_ns: u64,
    pipeline: Pipeline,
    thinner: Thinner,
    digests: DigestWriter,
    /// What is received comes after it was sent.
    causal: CausalOrder,
    /// Let through by that.
    passed: Vec<Input>,
    rounds: RoundsOfNode,
    /// That all letters before it are out is to be told.
    confirmed: Option<u64>,
    /// How many rounds had passed at the end.
    ended_after: Option<u64>,
    now_ns: u64,
    pace: Pace,
    counts_due: Timer,
    letters_due: Timer,
    links: LetterLinks,
    /// To be told to other nodes.
    pieces: Vec<FarPiece>,
    /// Nodes that ask what they were told: they have missed a letter, and notice it by the next one.
    asked_again: BTreeSet<u32>,
    /// For where all nodes are.
    out: Vec<Input>,
    /// The end, once it has come: what is counted until then comes before it.
    end: Option<Input>,
}

impl NodePipeline {
    /// Ready for the first input of the node that has this number among all of the job. Options must be those of all
    /// nodes; references and thresholds do not matter here.
    pub fn new(options: Options, node: u32) -> Self {
        Self {
            node: node.min(MAX_NODES as u32 - 1),
            session: 1,
            wall_ns: 0,
            pipeline: Pipeline::of_node(Options { reference: None, ..options }, node),
            thinner: Thinner::default(),
            digests: DigestWriter::default(),
            causal: CausalOrder::of_nodes(ROUNDS_TO_BE_SURE),
            passed: Vec::new(),
            rounds: RoundsOfNode::default(),
            confirmed: None,
            ended_after: None,
            now_ns: 0,
            pace: Pace::default(),
            counts_due: Timer::default(),
            letters_due: Timer::default(),
            links: LetterLinks::default(),
            pieces: Vec::new(),
            asked_again: BTreeSet::new(),
            out: Vec::new(),
            end: None,
        }
    }

    /// The job is on so many nodes: with many of them each tells what it counts, and its letters, less often.
    pub fn set_nodes(&mut self, nodes: u32) {
        self.pace = Pace::of_nodes(nodes);
    }

    /// Takes the next input of the node. The end may still wait for what other nodes say: until
    /// [`is_settled`](NodePipeline::is_settled) letters are to be exchanged. After it only names of places come.
    pub fn push(&mut self, input: &Input) {
        if let Input::Record(raw) | Input::LateRecord(raw) = input {
            self.arrive(raw);
        }
        if let Input::Start(start) = input {
            self.session = start.wall_clock_ns().max(1);
            self.wall_ns = start.wall_clock_ns().saturating_sub(start.time_ns);
            self.digests = DigestWriter::new(self.session);
        }
        self.now_ns = self.now_ns.max(input.time_ns().unwrap_or(0));
        match input {
            Input::Record(raw) => self.rounds.tell(raw.time_ns()),
            Input::Tick { time_ns } => self.rounds.tell(time_ns.saturating_sub(DEFAULT_MOST_HELD_NS)),
            Input::End(_) => {
                self.rounds.tell(u64::MAX);
                self.ended_after = Some(self.rounds.passed());
            }
            _ => {}
        }
        let passed = &mut self.passed;
        self.causal.push(input.clone(), self.rounds.passed(), &mut |input| passed.push(input));
        self.go_on();
    }

    /// Takes a record: the same as [`Input::Record`], without a copy of it.
    pub fn push_record(&mut self, raw: &RawRecord) {
        if self.causal.lets_pass(raw.kind()) && !concerns_others(raw.kind()) {
            self.now_ns = self.now_ns.max(raw.time_ns());
            self.rounds.tell(raw.time_ns());
            self.record(raw);
        } else {
            self.push(&Input::Record(*raw));
        }
    }

    /// Time goes on, and nothing comes any more.
    pub fn pass_time(&mut self, by_ns: u64) {
        self.now_ns = self.now_ns.saturating_add(by_ns);
    }

    /// A round begins: all nodes have [confirmed](NodePipeline::take_confirmed) the one before it. All letters that came before
    /// this is known must have been [delivered](NodePipeline::deliver). `now_ns`: when it was heard of, by the clock of the
    /// session.
    pub fn begin_round(&mut self, number: u64, now_ns: u64) {
        if self.rounds.begin(number, now_ns) {
            self.pipeline.pass_round();
            let passed = &mut self.passed;
            self.causal.advance(self.rounds.passed(), &mut |input| passed.push(input));
            self.go_on();
        }
    }

    /// The round that is confirmed by the letters that were taken: to be said after these are sent.
    pub fn take_confirmed(&mut self) -> Option<u64> {
        self.confirmed.take()
    }

    /// What goes to where all nodes are, in order, since this was asked for last. Ticks that nothing needs are left
    /// out: with each that comes all is told that was counted.
    pub fn take_inputs(&mut self) -> Vec<Input> {
        std::mem::take(&mut self.out)
    }

    /// What goes to other nodes, in order, since something was asked for last; nothing before it is time. [Topics]
    /// (NodePipeline::take_topics) are to be listened to before.
    pub fn take_letters(&mut self) -> Vec<Letter> {
        let confirms = self.rounds.due();
        if !self.letters_due.take(self.now_ns, self.pace.letters_ns) && confirms.is_none() {
            return Vec::new();
        }
        if confirms.is_some() {
            self.rounds.confirm();
            self.confirmed = confirms;
        }
        self.all_letters()
    }

    fn all_letters(&mut self) -> Vec<Letter> {
        let news = self.pipeline.take_far_news();
        let mut letters = Vec::new();
        let mut by_topic: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for stream in news.wanted {
            by_topic.entry(topic_of(stream)).or_default().push(stream);
        }
        for (topic, wanted) in by_topic {
            let head =
                LetterHead { session: self.session, wall_ns: self.wall_now_ns(), ..LetterHead::default() };
            let question = LetterNews { wanted, ..LetterNews::default() };
            letters.push(Letter { to: LetterTo::Topic(topic), bytes: self.written(&head, &question) });
        }
        let mut by_node: BTreeMap<u32, LetterNews> = BTreeMap::new();
        for node in std::mem::take(&mut self.asked_again) {
            by_node.entry(node).or_default();
        }
        for piece in self.pieces.drain(..) {
            by_node.entry(piece.to).or_default().pieces.push(piece);
        }
        for kind in news.kinds {
            by_node.entry(kind.to).or_default().kinds.push(kind);
        }
        for end in news.ends {
            by_node.entry(end.to).or_default().ends.push(end);
        }
        for over in news.over {
            by_node.entry(over.to).or_default().over.push(over);
        }
        for cut in news.cuts {
            by_node.entry(cut.to).or_default().cuts.push(cut);
        }
        for (to, news) in by_node {
            // Of one that is gone nobody waits for it.
            if let Some(head) = self.links.next(to, self.session, self.wall_now_ns()) {
                letters.push(Letter { to: LetterTo::Node(to), bytes: self.written(&head, &news) });
            }
        }
        letters
    }

    /// Topics that are to be listened to from now on, since this was asked for last: letters for them are for this node as well,
    /// whoever else listens. Some may be told again.
    pub fn take_topics(&mut self) -> Vec<u32> {
        self.pipeline.take_topics()
    }

    /// Takes a letter of another node's agent.
    ///
    /// # Errors
    /// It is no letter: nothing was taken of it.
    pub fn deliver(&mut self, from: u32, bytes: &[u8]) -> Result<(), BadBytes> {
        let mut r = ByteReader::new(bytes);
        let head = letter::read_head(&mut r)?;
        if from == self.node || from as usize >= MAX_NODES {
            return Ok(());
        }
        let now_ns = head.wall_ns.saturating_sub(self.wall_ns);
        let way = LetterWay { from, to: self.node, now_ns };
        let mut news = letter::read_news(&mut r, way, &mut self.pipeline.name_sink())?;
        match self.links.arrive(from, &head, self.session) {
            LetterArrival::Ignored => return Ok(()),
            LetterArrival::Next => {}
            LetterArrival::Gap => {
                self.pipeline.lose_answers(Some(from));
                self.pipeline.note_missing(self.now_ns);
            }
            LetterArrival::Another => self.pipeline.end_node(from, true),
        }
        for stream in std::mem::take(&mut news.wanted) {
            if self.pipeline.is_told(stream, from) {
                self.asked_again.insert(from);
            }
            self.pieces.extend(self.pipeline.answer(stream, from));
        }
        for piece in &news.pieces {
            self.pieces.extend(self.pipeline.take_piece(piece, self.end.is_none()));
            if piece.memory.is_none() {
                self.causal.sent_elsewhere(piece.stream, piece.position.wrapping_add(piece.len_bytes));
            }
        }
        self.pipeline.take_news(from, news);
        if head.is_last {
            self.pipeline.end_node(from, false);
            self.links.forget(from);
        }
        let passed = &mut self.passed;
        self.causal.advance(self.rounds.passed(), &mut |input| passed.push(input));
        self.go_on();
        Ok(())
    }

    /// The agent of another node is gone, and has not said so itself.
    pub fn lose_node(&mut self, node: u32) {
        self.pipeline.end_node(node, true);
        self.links.forget(node);
    }

    /// Whether the end has come, and nothing is waited for that other nodes may still say.
    pub fn is_settled(&self) -> bool {
        self.end.is_some() && self.pipeline.held() == 0
    }

    /// Whether the end was pushed, and all nodes have had the time to say what there was to say.
    pub fn has_waited(&self) -> bool {
        self.ended_after.is_some_and(|after| self.rounds.passed() >= after + LEAVING_ROUNDS)
    }

    /// Does not wait any longer for the ends of chains that came from another node and went on to one. After the end there may
    /// be so many of them that they are not to be waited for.
    pub fn cut_passed_on(&mut self) {
        self.pipeline.cut_passed_on();
    }

    /// Nothing more comes: tells what was counted up to the end, and the end, if there was one; and takes leave of other
    /// nodes. What is not [settled](NodePipeline::is_settled) by now is not known.
    pub fn finish(&mut self) -> Vec<Letter> {
        let passed = &mut self.passed;
        self.causal.finish(&mut |input| passed.push(input));
        self.go_on();
        self.pipeline.lose_answers(None);
        let mut letters = self.all_letters();
        for node in self.links.nodes().collect::<Vec<_>>() {
            if let Some(head) = self.links.next(node, self.session, self.wall_now_ns()) {
                let head = LetterHead { is_last: true, ..head };
                let bytes = self.written(&head, &LetterNews::default());
                letters.push(Letter { to: LetterTo::Node(node), bytes });
            }
        }
        self.tell_counts(true);
        self.out.extend(self.end.take());
        letters
    }

    /// The last MPI call of each thread of a process, as it began: for whoever samples what the thread is doing.
    pub fn last_calls(&self, pid: u32) -> impl Iterator<Item = LastCall> {
        self.pipeline.last_calls(pid)
    }

    /// Probes (by id) whose movements were part of a chain of two operations or more.
    pub fn joining_probes(&self) -> BTreeSet<u32> {
        self.pipeline.joining_probes()
    }

    fn wall_now_ns(&self) -> u64 {
        self.now_ns.saturating_add(self.wall_ns)
    }

    fn written(&self, head: &LetterHead, news: &LetterNews) -> Vec<u8> {
        letter::write(head, news, self.pipeline.name_source(), self.now_ns)
    }

    /// A record comes, whatever it waits for.
    fn arrive(&mut self, raw: &RawRecord) {
        self.pipeline.arrive(raw, &mut self.pieces);
    }

    /// Takes what waits for nothing.
    fn go_on(&mut self) {
        for input in std::mem::take(&mut self.passed) {
            self.take(&input);
        }
    }

    fn take(&mut self, input: &Input) {
        match input {
            Input::Record(raw) => self.record(raw),
            Input::Tick { time_ns } => {
                self.pipeline.push(input);
                self.pipeline.tick_elsewhere();
                if self.counts_due.take(*time_ns, self.pace.counts_ns) {
                    self.tell_counts(false);
                    self.out.push(input.clone());
                }
            }
            // When processes moved last must be known with where they are.
            Input::Threads(_) => {
                self.tell_counts(false);
                self.pass_on(input);
            }
            Input::End(_) => {
                self.pipeline.refuse_waiting(None);
                self.pass_on(input);
                self.end = self.out.pop();
            }
            _ => self.pass_on(input),
        }
    }

    fn record(&mut self, raw: &RawRecord) {
        let out = &mut self.out;
        self.thinner.record(&self.pipeline.job, raw, &mut |input| out.push(input));
        self.pipeline.push_record(raw);
    }

    fn pass_on(&mut self, input: &Input) {
        let out = &mut self.out;
        self.thinner.input(&self.pipeline.job, input, &mut |input| out.push(input));
        self.pipeline.push(input);
    }

    fn tell_counts(&mut self, is_last: bool) {
        loop {
            let digest = self.digests.digest(self.pipeline.digest_source(), is_last);
            self.out.extend(digest.map(|digest| Input::Digest(Box::new(digest))));
            if !is_last || !self.digests.has_more() {
                return;
            }
        }
    }
}
