//! One rank: its clock, its receives and requests, and what it waits for.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;

use replay::logical::{
    Announcement, Completion, Decision, LogicalMatching, NEVER, Poll, RankBound, RankSet, RequestChoice,
    WaitsFor, any_complete, is_due, lower_bounds, some_due,
};
use replay::shared_page::{SharedPage, count_one};

use super::board::{Board, Wait, WaitKind};
use super::question::{CallEnvelope, LogicalQuestion};
use super::stall::{Stall, StallWatch};
use crate::mapped_file::RankMapping;

/// The numbers of communicators that are there from the beginning.
const WORLD: u32 = 0;
const SELF: u32 = 1;
/// Whether all wait is looked at once in so many turns.
const LOOK_EVERY: u64 = 32;

/// A request of the program.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LogicalRequest {
    /// A receive, at a place of the shim's table.
    Receive(u32),
    /// Anything else: complete a while after its start.
    Other {
        start: u64,
        /// In the shim's table, if it is there.
        place: Option<u32>,
    },
}

/// A receive of the shim's table.
#[derive(Clone, Copy, Debug, Default)]
struct PlacedReceive {
    number: u64,
    posted: u64,
}

pub(crate) struct LogicalRank {
    file: RankMapping,
    board: Board,
    own: u32,
    clock: u64,
    matching: LogicalMatching,
    /// What was taken of each rank's announcements.
    read: Vec<u64>,
    receives: HashMap<u32, PlacedReceive>,
    places: HashMap<u64, u32>,
    /// Places of receives that were decided, in the order in which MPI must get them.
    decided: VecDeque<u32>,
    /// Members of communicators: for collective calls.
    members: HashMap<u32, RankSet>,
    requests: HashMap<u64, LogicalRequest>,
    persistent: HashSet<u64>,
    null_request: u64,
    question: Option<LogicalQuestion>,
    waits: Option<Wait>,
    forced: bool,
    watch: StallWatch,
    /// Nothing is known of others.
    zeros: Vec<u64>,
    /// The last answer.
    values: Vec<i32>,
}

/// An answer, and the time at which that for which the call waited came.
type LogicalAnswer = (Vec<i32>, u64);

impl LogicalRank {
    /// # Errors
    /// There is no room for the shared memory.
    pub(crate) fn new(
        file: RankMapping,
        path: &Path,
        own: u32,
        ranks: u32,
        null_request: u64,
    ) -> io::Result<Self> {
        let board = Board::open(path, ranks as usize)?;
        let mut this = Self {
            file,
            board,
            own,
            clock: 0,
            matching: LogicalMatching::new(ranks as usize),
            read: vec![0; ranks as usize],
            receives: HashMap::new(),
            places: HashMap::new(),
            decided: VecDeque::new(),
            members: HashMap::new(),
            requests: HashMap::new(),
            persistent: HashSet::new(),
            null_request,
            question: None,
            waits: None,
            forced: false,
            watch: StallWatch::default(),
            zeros: vec![0; ranks as usize],
            values: Vec::new(),
        };
        this.add_comm(WORLD, (0..ranks).collect(), (0..ranks).collect());
        this.add_comm(SELF, vec![own], [own].into_iter().collect());
        Ok(this)
    }

    pub(crate) fn page(&self) -> &'static SharedPage {
        self.file.page()
    }

    // ---- Time ------------------------------------------------------------------------------------------------------

    /// A call begins. One that sends says itself when it has announced what it sends.
    pub(crate) fn enter(&mut self, sends: bool) {
        self.clock += 1;
        if !sends {
            self.publish();
        }
    }

    /// Whatever is sent from now on is sent by later calls.
    pub(crate) fn publish(&self) {
        self.board.cell(self.own).floor.store(self.clock + 1, Ordering::Release);
    }

    /// MPI_Finalize: nothing is sent any more.
    pub(crate) fn end(&mut self) {
        let cell = self.board.cell(self.own);
        cell.floor.store(NEVER, Ordering::Release);
        cell.set(&Wait { kind: WaitKind::Finalized, ..Wait::NONE });
    }

    // ---- Communicators ---------------------------------------------------------------------------------------------

    /// For meetings of a group that has no communicator.
    pub(crate) fn group(&mut self, ranks: RankSet, tag: i32) -> Option<u32> {
        let number = self.board.group(ranks, tag)?;
        self.members.insert(number, ranks);
        Some(number)
    }

    pub(crate) fn new_comm(&self) -> Option<u32> {
        self.board.new_comm()
    }

    /// `group`: those that can send to this rank; `members`: those that take part in collective calls.
    pub(crate) fn add_comm(&mut self, comm: u32, group: Vec<u32>, members: RankSet) {
        self.matching.add_comm(comm, group);
        self.members.insert(comm, members);
    }

    pub(crate) fn remove_comm(&mut self, comm: u32) {
        self.matching.remove_comm(comm);
        self.members.remove(&comm);
    }

    /// Comes to a collective call: which one it is.
    pub(crate) fn come(&mut self, comm: u32) -> u64 {
        self.board.meeting(comm, self.own).come(self.clock)
    }

    // ---- Messages --------------------------------------------------------------------------------------------------

    /// Announces a message to a rank of the world; false: there is no room yet.
    pub(crate) fn announce(&mut self, to: u32, comm: u32, tag: i32) -> bool {
        let message = Announcement { comm, tag, time: self.clock };
        if to as usize >= self.board.ranks() {
            return true;
        }
        if self.board.ring(self.own, to).push(&message) {
            return true;
        }
        // Who has ended receives nothing more; and nobody waits for room while others wait for it.
        self.drain();
        self.set_read();
        matches!(self.board.cell(to).wait(), Some((_, wait)) if wait.kind == WaitKind::Finalized)
    }

    /// A receive is posted at a place of the shim's table. Whether MPI can be given it now.
    pub(crate) fn post(&mut self, place: u32, envelope: CallEnvelope) -> bool {
        let (number, can_be_given) = self.matching.post(envelope.comm, envelope.source, envelope.tag);
        self.receives.insert(place, PlacedReceive { number, posted: self.clock });
        self.places.insert(number, place);
        can_be_given
    }

    /// The next receive that was decided: its place, source and tag.
    pub(crate) fn next_decided(&mut self) -> Option<(u32, Decision)> {
        while let Some(place) = self.decided.pop_front() {
            if let Some(decision) = self.decision(place) {
                return Some((place, decision));
            }
        }
        None
    }

    fn decision(&self, place: u32) -> Option<Decision> {
        self.matching.decision(self.receives.get(&place)?.number)
    }

    /// Whose message a receive gets, if that is decided.
    pub(crate) fn source_of(&self, place: u32) -> Option<u32> {
        Some(self.decision(place)?.source)
    }

    /// A receive is over.
    pub(crate) fn forget(&mut self, place: u32) {
        if let Some(receive) = self.receives.remove(&place) {
            self.places.remove(&receive.number);
            self.matching.forget(receive.number);
        }
    }

    /// The message that was probed for last is taken from other receives.
    pub(crate) fn take(&mut self, comm: u32, source: u32, tag: i32) {
        self.matching.take(comm, &Decision { source, tag, time: 0 });
    }

    /// A receive was cancelled: it is complete.
    pub(crate) fn cancelled(&mut self, place: u32) {
        if let Some(receive) = self.receives.get(&place) {
            self.matching.cancel(receive.number, self.clock);
        }
    }

    // ---- Requests --------------------------------------------------------------------------------------------------

    pub(crate) fn add_request(&mut self, bits: u64, request: LogicalRequest) {
        self.requests.insert(bits, request);
    }

    /// Now: of a request that is complete a while later.
    pub(crate) fn start(&mut self, bits: u64, place: Option<u32>) {
        self.add_request(bits, LogicalRequest::Other { start: self.clock, place });
    }

    pub(crate) fn add_persistent(&mut self, bits: u64) {
        self.persistent.insert(bits);
    }

    /// A request is complete or given up: its place if it was a receive.
    pub(crate) fn remove_request(&mut self, bits: u64) -> Option<LogicalRequest> {
        self.requests.remove(&bits)
    }

    pub(crate) fn remove_persistent(&mut self, bits: u64) {
        self.persistent.remove(&bits);
    }

    /// What a request is; none: it is not active.
    pub(crate) fn request(&mut self, bits: u64) -> Option<LogicalRequest> {
        if let Some(request) = self.requests.get(&bits) {
            return Some(*request);
        }
        if bits == self.null_request || self.persistent.contains(&bits) {
            return None;
        }
        // Begun by a call that is not looked at.
        self.start(bits, None);
        self.requests.get(&bits).copied()
    }

    /// A test of it is put off.
    pub(crate) fn put_off(&mut self, bits: u64) {
        match self.requests.get_mut(&bits) {
            Some(LogicalRequest::Other { start, .. }) => *start = self.clock,
            // One that sends as well.
            Some(LogicalRequest::Receive(place)) => {
                if let Some(receive) = self.receives.get_mut(place) {
                    receive.posted = self.clock;
                }
            }
            None => {}
        }
    }

    fn completion(&mut self, bits: u64, bounds: &[u64]) -> Completion {
        match self.request(bits) {
            None => Completion::Inactive,
            Some(LogicalRequest::Other { start, .. }) => Completion::At(start),
            Some(LogicalRequest::Receive(place)) => {
                let receive = self.receives.get(&place).copied().unwrap_or_default();
                match self.matching.decision(receive.number) {
                    Some(decision) => Completion::At(decision.time.max(receive.posted)),
                    None => Completion::NotBefore(
                        self.matching.earliest(receive.number, bounds).max(receive.posted),
                    ),
                }
            }
        }
    }

    fn completions(&mut self, all: &[u64], bounds: &[u64]) -> Vec<Completion> {
        all.iter().map(|bits| self.completion(*bits, bounds)).collect()
    }

    // ---- Questions -------------------------------------------------------------------------------------------------

    pub(crate) fn ask(&mut self, question: LogicalQuestion) {
        self.question = Some(question);
    }

    /// A number of the last answer.
    pub(crate) fn value(&self, at: usize) -> i32 {
        self.values.get(at).copied().unwrap_or(-1)
    }

    /// How many there are.
    pub(crate) fn values(&self) -> usize {
        self.values.len()
    }

    /// Whether receives were decided that MPI has not been given.
    pub(crate) fn has_decided(&self) -> bool {
        !self.decided.is_empty()
    }

    /// The question is asked no more: MPI has what it was about.
    pub(crate) fn stop_asking(&mut self) {
        self.question = None;
        self.go_on();
    }

    /// Looks whether the question can be answered now.
    pub(crate) fn turn(&mut self) -> bool {
        let Some(question) = self.question.take() else { return true };
        let answer = self.answer(&question);
        if let Some((values, time)) = answer {
            self.values = values;
            self.clock = self.clock.max(time);
            self.publish();
            self.go_on();
            return true;
        }
        self.wait_on(&question);
        self.question = Some(question);
        false
    }

    fn answer(&mut self, question: &LogicalQuestion) -> Option<LogicalAnswer> {
        let needs_others = question.needs_clocks() || self.matching.has_open_wildcards();
        if !needs_others || (self.waits.is_none() && !self.forced) {
            self.drain();
            let zeros = std::mem::take(&mut self.zeros);
            self.settle(&zeros, &mut false);
            let forced = std::mem::take(&mut self.forced);
            let answer = self.evaluate(question, &zeros, forced);
            self.zeros = zeros;
            if answer.is_some() || !needs_others {
                return answer;
            }
        }
        // First the clocks: what was announced at smaller times is there then.
        let mut views = self.views();
        self.drain();
        views[self.own as usize] = self.own_view(question);
        let bounds = lower_bounds(&views);
        let mut forced = std::mem::take(&mut self.forced);
        self.settle(&bounds, &mut forced);
        self.evaluate(question, &bounds, forced)
    }

    fn go_on(&mut self) {
        if self.waits.take().is_some() {
            self.board.cell(self.own).set(&Wait::NONE);
            self.watch.reset();
        }
        self.set_read();
    }

    /// Says what it waits for, and sees whether anybody can go on.
    fn wait_on(&mut self, question: &LogicalQuestion) {
        let wait = self.wait_of(question);
        let cell = self.board.cell(self.own);
        if self.waits != Some(wait) {
            cell.set(&wait);
            self.waits = Some(wait);
            self.watch.reset();
        }
        self.set_read();
        let cell = self.board.cell(self.own);
        count_one(&cell.turns);
        if !cell.turns.load(Ordering::Relaxed).is_multiple_of(LOOK_EVERY) {
            return;
        }
        match self.watch.look(&self.board, self.own) {
            Stall::No => {}
            Stall::Force => {
                self.forced = true;
                // Others see that it goes on.
                self.waits = None;
                self.board.cell(self.own).set(&Wait::NONE);
                self.watch.reset();
                count_one(&self.page().answers);
            }
            Stall::Deadlock => self.page().deadlocked.store(1, Ordering::Release),
        }
    }

    fn drain(&mut self) {
        for source in 0..self.board.ranks() as u32 {
            let at = &mut self.read[source as usize];
            while let Some(message) = self.board.ring(source, self.own).get(*at) {
                self.matching.announce(source, message);
                *at += 1;
            }
        }
    }

    /// Only after what it waits for was said: others take it for a rank that knows what it was told.
    fn set_read(&self) {
        for (source, at) in self.read.iter().enumerate() {
            self.board.ring(source as u32, self.own).set_read(*at);
        }
    }

    fn settle(&mut self, bounds: &[u64], forced: &mut bool) {
        if self.matching.has_open() {
            let settled = self.matching.settle(bounds, forced);
            let places = settled.iter().filter_map(|number| self.places.get(number));
            self.decided.extend(places);
        }
    }

    /// All others; what one waits for counts if it has heard of all that was sent to it before.
    fn views(&self) -> Vec<RankBound> {
        let ranks = 0..self.board.ranks() as u32;
        let seen: Vec<_> = ranks
            .clone()
            .map(|rank| {
                let cell = self.board.cell(rank);
                (cell.wait(), cell.floor.load(Ordering::Acquire))
            })
            .collect();
        let view = |rank: u32| {
            let (wait, floor) = &seen[rank as usize];
            let waits_for = wait.filter(|_| rank != self.own).map_or(WaitsFor::Nothing, |(version, wait)| {
                let waits_for = self.waits_for(rank, &wait);
                if self.board.cell(rank).version() == version { waits_for } else { WaitsFor::Nothing }
            });
            RankBound { floor: *floor, waits_for }
        };
        ranks.map(view).collect()
    }

    fn waits_for(&self, rank: u32, wait: &Wait) -> WaitsFor {
        match wait.kind {
            WaitKind::AnyOf => {
                let mut sources = wait.ranks.iter();
                let ranks = self.board.ranks() as u32;
                let has_heard = sources.all(|from| from < ranks && self.board.ring(from, rank).is_empty());
                let waits = WaitsFor::AnyOf { ranks: wait.ranks, known: wait.known };
                if has_heard { waits } else { WaitsFor::Nothing }
            }
            WaitKind::AllOf => self.missing(wait.comm, wait.meeting, wait.ranks),
            WaitKind::Runs | WaitKind::Other | WaitKind::Finalized => WaitsFor::Nothing,
        }
    }

    fn missing(&self, comm: u32, meeting: u64, members: RankSet) -> WaitsFor {
        let has_come = |rank: &u32| self.board.meeting(comm, *rank).time_of(meeting).is_some();
        let missing: RankSet = members.iter().filter(|rank| !has_come(rank)).collect();
        if missing == RankSet::default() { WaitsFor::Nothing } else { WaitsFor::AllOf(missing) }
    }

    fn own_view(&mut self, question: &LogicalQuestion) -> RankBound {
        let waits_for = match question {
            LogicalQuestion::Meeting { comm, meeting } => {
                self.missing(*comm, *meeting, self.members.get(comm).copied().unwrap_or_default())
            }
            _ => self
                .awaited(question)
                .map_or(WaitsFor::Nothing, |(ranks, known)| WaitsFor::AnyOf { ranks, known }),
        };
        RankBound { floor: self.clock + 1, waits_for }
    }

    /// Those whose message alone ends the wait, and the smallest time of what they have announced.
    fn awaited(&mut self, question: &LogicalQuestion) -> Option<(RankSet, u64)> {
        match question {
            LogicalQuestion::Receive(place) => self.awaited_by(*place),
            LogicalQuestion::Probe(envelope) => {
                let CallEnvelope { comm, source, tag } = *envelope;
                let known = self.matching.known_to_probe(comm, source, tag);
                Some((self.matching.sources_of_probe(comm, source, tag), known))
            }
            LogicalQuestion::Any(all) => {
                let (mut ranks, mut known) = (RankSet::default(), NEVER);
                for bits in all {
                    match self.request(*bits) {
                        None => {}
                        Some(LogicalRequest::Other { .. }) => return None,
                        Some(LogicalRequest::Receive(place)) => {
                            let (more, time) = self.awaited_by(place)?;
                            ranks.0 |= more.0;
                            known = known.min(time);
                        }
                    }
                }
                Some((ranks, known))
            }
            _ => None,
        }
    }

    fn awaited_by(&self, place: u32) -> Option<(RankSet, u64)> {
        let number = self.receives.get(&place)?.number;
        let decided = self.matching.decision(number).map(|decision| (RankSet::default(), decision.time));
        decided.or_else(|| Some((self.matching.sources_of(number), self.matching.known(number))))
    }

    fn wait_of(&mut self, question: &LogicalQuestion) -> Wait {
        let can_be_forced = self.can_be_forced(question);
        let wait = Wait { kind: WaitKind::Other, can_be_forced, ..Wait::NONE };
        match question {
            LogicalQuestion::Meeting { comm, meeting } => {
                let ranks = self.members.get(comm).copied().unwrap_or_default();
                Wait { kind: WaitKind::AllOf, ranks, comm: *comm, meeting: *meeting, ..wait }
            }
            _ => match self.awaited(question) {
                Some((ranks, known)) => Wait { kind: WaitKind::AnyOf, ranks, known, ..wait },
                None => wait,
            },
        }
    }

    fn can_be_forced(&mut self, question: &LogicalQuestion) -> bool {
        self.matching.can_be_forced()
            || match question {
                LogicalQuestion::Poll(_)
                | LogicalQuestion::TestAny(_)
                | LogicalQuestion::TestAll(_)
                | LogicalQuestion::TestSome(_)
                | LogicalQuestion::Cancel(_) => true,
                LogicalQuestion::Mpi { is_test } => *is_test,
                LogicalQuestion::Probe(_) | LogicalQuestion::Any(_) => {
                    let zeros = std::mem::take(&mut self.zeros);
                    let has_answer = self.evaluate(question, &zeros, true).is_some();
                    self.zeros = zeros;
                    has_answer
                }
                LogicalQuestion::Receive(_) | LogicalQuestion::Meeting { .. } => false,
            }
    }

    fn evaluate(
        &mut self,
        question: &LogicalQuestion,
        bounds: &[u64],
        forced: bool,
    ) -> Option<LogicalAnswer> {
        let now = self.clock;
        match question {
            LogicalQuestion::Receive(place) => {
                self.decision(*place).map(|found| (source_and_tag(&found), found.time))
            }
            LogicalQuestion::Probe(CallEnvelope { comm, source, tag }) => {
                let found = self.matching.probe(*comm, *source, *tag, bounds, forced)?;
                Some((source_and_tag(&found), found.time))
            }
            LogicalQuestion::Poll(CallEnvelope { comm, source, tag }) => {
                match self.matching.poll(*comm, *source, *tag, now, bounds, forced) {
                    Poll::Yes(found) => Some((source_and_tag(&found), 0)),
                    Poll::No => Some((Vec::new(), 0)),
                    Poll::NotYet => None,
                }
            }
            LogicalQuestion::Meeting { comm, meeting } => {
                let members = self.members.get(comm).copied().unwrap_or_default();
                let time = |rank| self.board.meeting(*comm, rank).time_of(*meeting);
                let last = members.iter().try_fold(0, |last: u64, rank| Some(last.max(time(rank)?)))?;
                Some((Vec::new(), last))
            }
            LogicalQuestion::Any(all) => {
                let completions = self.completions(all, bounds);
                match any_complete(&completions, forced) {
                    RequestChoice::Index(index) => match completions[index] {
                        Completion::At(time) => Some((vec![index as i32], time)),
                        _ => None,
                    },
                    RequestChoice::NoneActive => Some((Vec::new(), 0)),
                    RequestChoice::No | RequestChoice::NotYet => None,
                }
            }
            LogicalQuestion::TestAny(all) => {
                let completions = self.completions(all, bounds);
                let due = some_due(&completions, now, forced)?;
                let is_active = completions.iter().any(|one| *one != Completion::Inactive);
                // Nothing, an index, or that none is active.
                Some((
                    due.first().map_or(if is_active { Vec::new() } else { vec![-1] }, |at| vec![*at as i32]),
                    0,
                ))
            }
            LogicalQuestion::TestAll(all) => {
                let completions = self.completions(all, bounds);
                let due: Vec<_> = completions.iter().map(|one| is_due(*one, now, forced)).collect();
                if due.contains(&Some(false)) {
                    return Some((vec![0], 0));
                }
                (!due.contains(&None)).then(|| (vec![1], 0))
            }
            LogicalQuestion::TestSome(all) => {
                let completions = self.completions(all, bounds);
                let due = some_due(&completions, now, forced)?;
                let is_active = completions.iter().any(|one| *one != Completion::Inactive);
                let due: Vec<i32> = due.iter().map(|at| *at as i32).collect();
                Some((if is_active { due } else { vec![-1] }, 0))
            }
            LogicalQuestion::Cancel(place) => {
                let receive = self.receives.get(place).copied().unwrap_or_default();
                if self.matching.decision(receive.number).is_some() {
                    return Some((vec![0], 0));
                }
                let is_certain = forced || self.matching.earliest(receive.number, bounds) > now;
                is_certain.then(|| (vec![1], 0))
            }
            LogicalQuestion::Mpi { is_test } => (forced && *is_test).then(|| (Vec::new(), 0)),
        }
    }
}

fn source_and_tag(found: &Decision) -> Vec<i32> {
    vec![found.source as i32, found.tag]
}
