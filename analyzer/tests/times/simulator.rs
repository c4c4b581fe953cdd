//! Jobs that are known exactly: when everything happens without watching, what each hit costs, and who waits for whom.
//!
//! A job is a sequence of things that ranks do, alone or together; each rank does its own in the order of the sequence, so
//! that no job is deadlocked.

use std::collections::HashMap;

use analyzer::calls::{EpochStep, row};
use analyzer::messages::{AwaitedCall, CallId, CollectiveId, MessageId, SequenceId};
use analyzer::timeline::correction::bounds::Bounds;
use analyzer::timeline::correction::call_step::{CallKind, CollectiveShape, EnteredCollective, TimedCall};
use analyzer::timeline::correction::ledger::CallCosts;

/// SplitMix64.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn within(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from + 1)
    }
}

/// What a call of a rank does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Send {
        message: usize,
        synchronous: bool,
    },
    Isend {
        message: usize,
    },
    Recv {
        message: usize,
    },
    Irecv {
        message: usize,
    },
    /// Of a send or a receive.
    Wait {
        message: usize,
        receives: bool,
    },
    Collective {
        number: usize,
    },
    /// Of an epoch that a target opens for one other rank.
    Epoch {
        number: usize,
        step: EpochStep,
    },
}

/// A call of a rank, after it has computed for a while.
#[derive(Clone, Copy, Debug)]
struct Call {
    rank: usize,
    action: Action,
    compute_ns: u64,
    work_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Message {
    transfer_ns: u64,
    bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct Gathered {
    function: &'static str,
    root: usize,
    transfer_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Epoch {
    transfer_ns: u64,
    /// Who starts it waits until the target has opened it; else who completes it.
    start_waits: bool,
}

/// A job.
#[derive(Clone, Debug)]
pub struct SimulatedJob {
    ranks: usize,
    calls: Vec<Call>,
    messages: Vec<Message>,
    gathered: Vec<Gathered>,
    epochs: Vec<Epoch>,
    prices: [Bounds; 4],
    seed: u64,
}

const FUNCTIONS: [&str; 4] = ["MPI_Barrier", "MPI_Allreduce", "MPI_Bcast", "MPI_Reduce"];

impl SimulatedJob {
    /// One of `steps` calls or exchanges; `alone`: nobody waits for anybody.
    pub fn random(seed: u64, steps: u64, alone: bool) -> Self {
        let mut dice = Dice::new(seed);
        let ranks = if alone { 1 } else { dice.within(2, 5) as usize };
        let mut job = Self {
            ranks,
            calls: Vec::new(),
            messages: Vec::new(),
            gathered: Vec::new(),
            epochs: Vec::new(),
            prices: prices(&mut dice),
            seed,
        };
        let start_waits = dice.below(2) == 0;
        let compute = [200, 2_000, 20_000][dice.below(3) as usize];
        for _ in 0..steps {
            if alone {
                job.send_to_self(&mut dice, compute);
            } else if dice.below(6) == 0 {
                job.gather(&mut dice, compute);
            } else if dice.below(6) == 0 {
                job.access(&mut dice, compute, start_waits);
            } else {
                job.exchange(&mut dice, compute);
            }
        }
        job
    }

    /// Rank 1 computes for long between two messages to rank 0, which waits for them.
    pub fn one_waits(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let prices = prices(&mut dice);
        let mut job = Self {
            ranks: 2,
            calls: Vec::new(),
            messages: Vec::new(),
            gathered: Vec::new(),
            epochs: Vec::new(),
            prices,
            seed,
        };
        for _ in 0..10 {
            let message = job.message(&mut dice);
            let send = Action::Send { message, synchronous: false };
            job.calls.push(Call { rank: 1, action: send, compute_ns: 100_000, work_ns: 200 });
            job.calls.push(Call { rank: 0, action: Action::Recv { message }, compute_ns: 10, work_ns: 200 });
        }
        job
    }

    /// What a hit costs up to its first record.
    pub fn first_cost(&self) -> Bounds {
        self.prices[0]
    }

    /// What all hits of a rank that sends ten messages cost, up to the last.
    pub fn cost_of_sender(&self) -> Bounds {
        let all = self.prices.iter().fold(Bounds::default(), |sum, price| sum + *price);
        all.times(10.0)
    }

    /// What the end of a receive costs.
    pub fn cost_of_end(&self) -> Bounds {
        self.prices[2]
    }

    fn call(&mut self, dice: &mut Dice, rank: usize, action: Action, compute_ns: u64) {
        let call = Call { rank, action, compute_ns: dice.below(compute_ns), work_ns: dice.within(200, 300) };
        self.calls.push(call);
    }

    /// A send that never waits: nobody receives it in this job.
    fn send_to_self(&mut self, dice: &mut Dice, compute_ns: u64) {
        let message = self.message(dice);
        self.call(dice, 0, Action::Isend { message }, compute_ns);
    }

    fn message(&mut self, dice: &mut Dice) -> usize {
        let bytes = [8, 4096][dice.below(2) as usize];
        self.messages.push(Message { transfer_ns: dice.within(400, 700) + bytes / 8, bytes });
        self.messages.len() - 1
    }

    fn two_ranks(&self, dice: &mut Dice) -> [usize; 2] {
        let from = dice.below(self.ranks as u64) as usize;
        [from, (from + 1 + dice.below(self.ranks as u64 - 1) as usize) % self.ranks]
    }

    fn access(&mut self, dice: &mut Dice, compute_ns: u64, start_waits: bool) {
        let [origin, target] = self.two_ranks(dice);
        self.epochs.push(Epoch { transfer_ns: dice.within(400, 700), start_waits });
        let number = self.epochs.len() - 1;
        for (rank, step) in [
            (target, EpochStep::Posts),
            (origin, EpochStep::Starts),
            (origin, EpochStep::Completes),
            (target, EpochStep::Waits),
        ] {
            self.call(dice, rank, Action::Epoch { number, step }, compute_ns);
        }
    }

    fn exchange(&mut self, dice: &mut Dice, compute_ns: u64) {
        let [from, to] = self.two_ranks(dice);
        let message = self.message(dice);
        let posts_early = dice.below(3) == 0;
        if posts_early {
            self.call(dice, to, Action::Irecv { message }, compute_ns);
        }
        match dice.below(4) {
            0 => self.call(dice, from, Action::Send { message, synchronous: true }, compute_ns),
            1 => {
                self.call(dice, from, Action::Isend { message }, compute_ns);
                self.call(dice, from, Action::Wait { message, receives: false }, compute_ns);
            }
            _ => self.call(dice, from, Action::Send { message, synchronous: false }, compute_ns),
        }
        let receive =
            if posts_early { Action::Wait { message, receives: true } } else { Action::Recv { message } };
        self.call(dice, to, receive, compute_ns);
    }

    fn gather(&mut self, dice: &mut Dice, compute_ns: u64) {
        let function = FUNCTIONS[dice.below(4) as usize];
        let root = dice.below(self.ranks as u64) as usize;
        self.gathered.push(Gathered { function, root, transfer_ns: dice.within(800, 1200) });
        let number = self.gathered.len() - 1;
        (0..self.ranks).for_each(|rank| self.call(dice, rank, Action::Collective { number }, compute_ns));
    }

    /// When each call begins and ends; `watched`: with what hits cost.
    pub fn run(&self, watched: bool) -> Vec<[u64; 2]> {
        let mut run = Run {
            job: self,
            dice: Dice::new(self.seed ^ 0x5eed),
            watched,
            now: vec![1_000_000; self.ranks],
            after: vec![0; self.ranks],
            times: vec![[0; 2]; self.calls.len()],
            ready: HashMap::new(),
        };
        run.all();
        run.times
    }

    /// The calls as they are told, in the order in which they end.
    pub fn steps(&self, times: &[[u64; 2]], costs: bool) -> Vec<(TimedCall, Vec<(MessageId, MessageId)>)> {
        let mut order: Vec<usize> = (0..self.calls.len()).collect();
        order.sort_by_key(|at| (times[*at][1], *at));
        let ids = self.ids();
        let mut first: Vec<bool> = vec![true; self.ranks];
        let mut told = vec![0; self.messages.len()];
        let mut steps = Vec::new();
        let posts = self.posts(&ids);
        for at in order {
            let step = self.step(at, &ids, times, costs, &mut first);
            let mut matched = Vec::new();
            // A pair is known when both sides have been posted.
            for (message, sides) in posts.iter().enumerate() {
                if sides.iter().flatten().any(|(call, _)| *call == at) {
                    told[message] += 1;
                    if let (2, [Some((_, send)), Some((_, receive))]) = (told[message], sides) {
                        matched.push((*send, *receive));
                    }
                }
            }
            steps.push((step, matched));
        }
        steps
    }

    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// Who makes a call.
    pub fn rank_of(&self, at: usize) -> usize {
        self.calls[at].rank
    }

    fn ids(&self) -> Vec<CallId> {
        let mut numbers = vec![0; self.ranks];
        let id = |call: &Call| {
            numbers[call.rank] += 1;
            CallId { rank: call.rank as u32, tid: 100 + call.rank as u32, number: numbers[call.rank] }
        };
        self.calls.iter().map(id).collect()
    }

    /// By message, the calls that post its send and its receive.
    fn posts(&self, ids: &[CallId]) -> Vec<[Option<(usize, MessageId)>; 2]> {
        let mut posts = vec![[None; 2]; self.messages.len()];
        for (at, call) in self.calls.iter().enumerate() {
            let id = MessageId { call: ids[at], part: 0 };
            match call.action {
                Action::Send { message, .. } | Action::Isend { message } => {
                    posts[message][0] = Some((at, id))
                }
                Action::Recv { message } | Action::Irecv { message } => posts[message][1] = Some((at, id)),
                Action::Wait { .. } | Action::Collective { .. } | Action::Epoch { .. } => {}
            }
        }
        posts
    }

    fn step(
        &self,
        at: usize,
        ids: &[CallId],
        all: &[[u64; 2]],
        costs: bool,
        first: &mut [bool],
    ) -> TimedCall {
        let (call, times) = (self.calls[at], all[at]);
        let name = self.name(call.action);
        let row = row(name).expect("a call of the table");
        let is_first = std::mem::replace(&mut first[call.rank], false);
        let [before, entry, exit, after] = if costs { self.prices } else { [Bounds::default(); 4] };
        let between = if is_first { before } else { before + after };
        let posts = self.posts(ids);
        let side = |message: usize, receives: bool| posts[message][usize::from(receives)].map(|(_, id)| id);
        let completed = match call.action {
            Action::Send { message, .. } => side(message, false),
            Action::Recv { message } => side(message, true),
            Action::Wait { message, receives } => side(message, receives),
            _ => None,
        };
        let entered = match call.action {
            Action::Collective { number } => Some(EnteredCollective {
                collective: CollectiveId { sequence: SequenceId::of(0), position: number as u64 },
                members: self.ranks as u32,
                root: row.collective().map(|_| self.gathered[number].root as u32),
            }),
            _ => None,
        };
        let sent_bytes = match call.action {
            Action::Send { message, .. } | Action::Isend { message } => Some(self.messages[message].bytes),
            _ => None,
        };
        let posts = match call.action {
            Action::Wait { .. } | Action::Collective { .. } => false,
            Action::Epoch { step, .. } => matches!(step, EpochStep::Posts | EpochStep::Completes),
            _ => true,
        };
        let awaited = self.awaited(call.action, times[1], ids, all);
        let kind = match call.action {
            Action::Epoch { .. } => CallKind::Waits,
            _ => CallKind::of(row),
        };
        TimedCall {
            id: ids[at],
            pid: 100 + call.rank as u32,
            name: &row.name,
            kind,
            shape: CollectiveShape::of(row),
            begin_ns: times[0],
            end_ns: Some(times[1]),
            costs: CallCosts { between, entry, exit, ..CallCosts::default() },
            sent_bytes,
            posts,
            posted: u32::from(posts && !matches!(call.action, Action::Epoch { .. })),
            is_from_anybody: false,
            place: None,
            sends: None,
            receives: None,
            waits_in_vain: false,
            completed: completed.into_iter().collect(),
            left: Vec::new(),
            entered: entered.into_iter().collect(),
            awaited,
            ends_what_it_enters: true,
        }
    }

    /// What a call of an epoch needs that had begun when it ended.
    fn awaited(&self, action: Action, end_ns: u64, ids: &[CallId], all: &[[u64; 2]]) -> Vec<AwaitedCall> {
        let Action::Epoch { number, step } = action else { return Vec::new() };
        let (needed, is_certain) = match step {
            EpochStep::Posts => return Vec::new(),
            EpochStep::Starts => (EpochStep::Posts, false),
            EpochStep::Completes => (EpochStep::Posts, true),
            EpochStep::Waits => (EpochStep::Completes, true),
        };
        let is_it = |call: &Call| call.action == Action::Epoch { number, step: needed };
        let at = self.calls.iter().position(is_it).filter(|at| all[*at][0] < end_ns);
        at.map(|at| AwaitedCall { call: ids[at], is_certain }).into_iter().collect()
    }

    fn name(&self, action: Action) -> &'static str {
        match action {
            Action::Send { synchronous: true, .. } => "MPI_Ssend",
            Action::Send { .. } => "MPI_Send",
            Action::Isend { .. } => "MPI_Isend",
            Action::Recv { .. } => "MPI_Recv",
            Action::Irecv { .. } => "MPI_Irecv",
            Action::Wait { .. } => "MPI_Wait",
            Action::Collective { number } => self.gathered[number].function,
            Action::Epoch { step, .. } => match step {
                EpochStep::Posts => "MPI_Win_post",
                EpochStep::Starts => "MPI_Win_start",
                EpochStep::Completes => "MPI_Win_complete",
                EpochStep::Waits => "MPI_Win_wait",
            },
        }
    }

    /// Who made each call, and when it is told, by its id.
    pub fn by_id(&self) -> HashMap<CallId, usize> {
        self.ids().into_iter().enumerate().map(|(at, id)| (id, at)).collect()
    }
}

/// What each part of a hit costs.
fn prices(dice: &mut Dice) -> [Bounds; 4] {
    [400, 300, 300, 200].map(|likely| {
        let likely = dice.within(likely / 2, likely * 2) as f64;
        Bounds::of(0.8 * likely, likely, 1.3 * likely)
    })
}

/// A job that runs.
struct Run<'j> {
    job: &'j SimulatedJob,
    dice: Dice,
    watched: bool,
    /// Of each rank.
    now: Vec<u64>,
    /// What its last hit costs after its record.
    after: Vec<u64>,
    times: Vec<[u64; 2]>,
    /// When what was begun is ready to be sent or received: by message and side; by collective call and rank.
    ready: HashMap<(usize, usize, usize), u64>,
}

const SENT: usize = 0;
const POSTED: usize = 1;
const ENTERED: usize = 2;
/// And each step of an epoch.
const EPOCH: usize = 3;

impl Run<'_> {
    fn cost(&mut self, part: usize) -> u64 {
        if !self.watched {
            return 0;
        }
        let price = self.job.prices[part];
        // Evenly on both sides of the likely one, so that its mean is that.
        let half = (price.likely_ns - price.least_ns).min(price.most_ns - price.likely_ns);
        (price.likely_ns - half + 2.0 * half * (self.dice.below(1000) as f64 / 999.0)) as u64
    }

    /// Members of a collective call all enter before any leaves, and what waits for each other begins before it ends.
    fn all(&mut self) {
        let mut at = 0;
        while at < self.job.calls.len() {
            let until = self.together(at);
            (at..until).for_each(|call| self.begin(call));
            (at..until).for_each(|call| self.end(call));
            at = until;
        }
    }

    /// Up to where calls may wait for each other: a synchronous send and its receive, members.
    fn together(&self, at: usize) -> usize {
        let calls = &self.job.calls;
        match calls[at].action {
            Action::Collective { number } => {
                let is_other = |call: &Call| call.action != Action::Collective { number };
                calls[at..].iter().position(is_other).map_or(calls.len(), |len| at + len)
            }
            Action::Send { synchronous: true, .. } => at + 2,
            _ => at + 1,
        }
    }

    fn begin(&mut self, at: usize) {
        let call = self.job.calls[at];
        let (before, entry) = (self.cost(0), self.cost(1));
        let begin = self.now[call.rank] + self.after[call.rank] + call.compute_ns + before;
        self.times[at][0] = begin;
        let ready = begin + entry;
        self.now[call.rank] = ready;
        match call.action {
            Action::Send { message, .. } | Action::Isend { message } => {
                self.ready.insert((SENT, message, 0), ready);
            }
            Action::Recv { message } | Action::Irecv { message } => {
                self.ready.insert((POSTED, message, 0), ready);
            }
            Action::Collective { number } => {
                self.ready.insert((ENTERED, number, call.rank), ready);
            }
            Action::Epoch { number, step } => {
                self.ready.insert((EPOCH + step as usize, number, 0), ready);
            }
            Action::Wait { .. } => {}
        }
    }

    fn end(&mut self, at: usize) {
        let call = self.job.calls[at];
        let arrival = match call.action {
            Action::Recv { message } | Action::Wait { message, receives: true } => {
                self.ready[&(SENT, message, 0)] + self.job.messages[message].transfer_ns
            }
            Action::Send { message, synchronous: true } => self.ready[&(POSTED, message, 0)] + 300,
            Action::Collective { number } => self.arrival(number, call.rank),
            Action::Epoch { number, step } => self.opened(number, step),
            _ => 0,
        };
        let end = self.now[call.rank].max(arrival) + call.work_ns + self.cost(2);
        self.times[at][1] = end;
        self.now[call.rank] = end;
        self.after[call.rank] = self.cost(3);
    }

    /// When what a call of an epoch waits for is there.
    fn opened(&self, number: usize, step: EpochStep) -> u64 {
        let Epoch { transfer_ns, start_waits } = self.job.epochs[number];
        let of = |step: EpochStep| self.ready[&(EPOCH + step as usize, number, 0)] + transfer_ns;
        match step {
            EpochStep::Posts => 0,
            EpochStep::Starts if !start_waits => 0,
            EpochStep::Starts | EpochStep::Completes => of(EpochStep::Posts),
            EpochStep::Waits => of(EpochStep::Completes),
        }
    }

    fn arrival(&self, number: usize, rank: usize) -> u64 {
        let Gathered { function, root, transfer_ns } = self.job.gathered[number];
        let all = 0..self.job.ranks;
        let waited_for: Vec<usize> = match function {
            "MPI_Bcast" if rank == root => Vec::new(),
            "MPI_Bcast" => vec![root],
            "MPI_Reduce" if rank != root => Vec::new(),
            _ => all.filter(|other| *other != rank).collect(),
        };
        waited_for
            .into_iter()
            .map(|other| self.ready[&(ENTERED, number, other)] + transfer_ns)
            .max()
            .unwrap_or(0)
    }
}
