//! What a made-up rank does: its n-th record of a step is a pure function of rank, step and n.

use analyzer::input::ProcessFacts;
use analyzer::plan::Plan;
use analyzer::wire::{Body, CallContext};

use super::calls;
use super::event::GeneratedEvent;
use super::job::{FIRST_PID, GeneratedJob, InjectedFault, MessagePattern};
use super::memory::{self, BLOCK, BLOCK_BYTES, HEADER, HEADER_BYTES, PAYLOAD_BYTES, REQUEST};
use super::probes::{
    self, DELIVER, EXCHANGE, FREE, FROM_NETWORK, HEADER_COPY, MALLOC, PAYLOAD_COPY, POST, REDUCE, STAGE,
    TEST, TO_NETWORK,
};

/// All ranks send, then all ranks receive.
pub(super) const PHASES: usize = 2;

/// Every so many steps a rank gives a block back and asks for it again.
const STEPS_PER_BLOCK: u64 = 8;
/// Requests that a rank posts in a step when it repeats itself.
const REPEATS: u32 = 40;
/// Every so many steps a healthy rank posts one.
const STEPS_PER_REQUEST: u64 = 50;
/// So far from the right place is the wrong one: within the same buffer.
const MISPLACED_BYTES: u64 = 2048;

/// What each rank of a job does, step by step.
#[derive(Clone, Debug)]
pub(super) struct Program {
    job: GeneratedJob,
    /// Ranks in a row of the torus.
    width: u32,
}

impl Program {
    pub fn new(job: GeneratedJob) -> Self {
        let root = f64::from(job.ranks).sqrt() as u32;
        // The largest width that makes whole rows.
        let rows = (1..=root.max(1)).rev().find(|w| job.ranks.is_multiple_of(*w)).unwrap_or(1);
        Self { job, width: job.width.unwrap_or(job.ranks.max(1) / rows) }
    }

    pub fn burst_records(&self) -> u32 {
        self.job.burst_records.max(1)
    }

    pub fn facts(&self, rank: u32) -> ProcessFacts {
        let node = self.job.node_of(rank);
        memory::facts(FIRST_PID + rank, rank, self.job.ranks, node, self.job.ranks_per_node())
    }

    /// The probes of all programs.
    pub fn plan(&self) -> Plan {
        let mut plan = probes::plan();
        if self.job.results {
            calls::add_to(&mut plan);
        }
        plan
    }

    pub fn has_results(&self) -> bool {
        self.job.results
    }

    /// Most events that a rank has in a phase.
    pub fn events(&self, phase: usize) -> u32 {
        if self.job.results {
            return calls::events(self.sides(), phase) + if phase == 0 { 0 } else { 2 };
        }
        if phase == 0 {
            return self.sides() * 4 + self.requests() * 2;
        }
        self.receives() + 2 + u32::from(self.job.steps_per_reduction > 0)
    }

    /// The n-th event of a rank in a phase; `None`: it has none there in this step.
    pub fn event(&self, rank: u32, step: u64, phase: usize, n: u32) -> Option<GeneratedEvent> {
        let calls = if self.job.results { calls::events(self.sides(), phase) } else { 0 };
        match phase {
            _ if n < calls => self.with_requests(rank, step, phase, n),
            0 if self.job.results => None,
            _ if self.job.results => block(rank, step, n - calls),
            0 if n < self.sides() * 4 => self.send(rank, step, u64::from(n / 4), n % 4),
            0 => self.request(rank, step, n - self.sides() * 4),
            _ if n < self.receives() => self.receive_part(rank, step, n),
            _ if n < self.receives() + 2 => block(rank, step, n - self.receives()),
            _ => step.is_multiple_of(self.job.steps_per_reduction).then(reduction),
        }
    }

    /// Most events with which a rank receives in a step.
    fn receives(&self) -> u32 {
        self.sides() * if self.job.streams { 2 } else { 1 }
    }

    fn receive_part(&self, rank: u32, step: u64, n: u32) -> Option<GeneratedEvent> {
        if !self.job.streams {
            return self.receive(rank, step, u64::from(n));
        }
        let side = u64::from(n / 2);
        match n % 2 {
            0 => self.receive_stream(rank, step, side),
            _ => self.receive(rank, step, side),
        }
    }

    /// What comes from another node comes out of a stream first.
    fn receive_stream(&self, rank: u32, step: u64, side: u64) -> Option<GeneratedEvent> {
        let from = self.neighbour(rank, side);
        let is_far = !self.is_near(rank, from);
        is_far.then(|| {
            stream((from, side ^ 1), step, memory::network(side, false), context(EXCHANGE, side, step), true)
        })
    }

    /// The same messages, begun with requests that are waited for at the end.
    fn with_requests(&self, rank: u32, step: u64, phase: usize, n: u32) -> Option<GeneratedEvent> {
        let sides = self.sides();
        if phase == 0 {
            let side = u64::from(n / calls::PER_MESSAGE);
            let sender = if self.job.pattern == MessagePattern::Halo { side } else { 1 };
            return match calls::started(n % calls::PER_MESSAGE) {
                calls::MessageRecord::Copy(copy) => self.send(rank, step, side, copy),
                // What comes from a side was sent to the opposite one.
                calls::MessageRecord::Receive(part) => {
                    Some(calls::receive(part, step, side, self.neighbour(rank, sender)))
                }
                calls::MessageRecord::Send(part) => {
                    let tag = if self.job.pattern == MessagePattern::Halo { side ^ 1 } else { side };
                    Some(calls::send(part, step, side, self.neighbour(rank, side), tag))
                }
            };
        }
        match calls::waited(sides, n) {
            Some(part) => Some(calls::wait(part, step, sides)),
            None => self.receive(rank, step, u64::from(n - calls::BEFORE_DELIVERY)),
        }
    }

    fn sides(&self) -> u32 {
        match self.job.pattern {
            MessagePattern::Halo => 4,
            MessagePattern::Ring => 1,
        }
    }

    fn requests(&self) -> u32 {
        if self.repeating().is_some() { REPEATS } else { 0 }
    }

    /// Who is at a side: right, left, below, above. The opposite side is `side ^ 1`.
    fn neighbour(&self, rank: u32, side: u64) -> u32 {
        let (ranks, width) = (self.job.ranks.max(1), self.width);
        if self.job.pattern == MessagePattern::Ring {
            return if side == 0 { (rank + 1) % ranks } else { (rank + ranks - 1) % ranks };
        }
        let (row, column) = (rank / width, rank % width);
        match side {
            0 => row * width + (column + 1) % width,
            1 => row * width + (column + width - 1) % width,
            2 => (rank + width) % ranks,
            _ => (rank + ranks - width) % ranks,
        }
    }

    fn is_near(&self, rank: u32, other: u32) -> bool {
        self.job.node_of(rank) == self.job.node_of(other)
    }

    /// Number of a rank on its node.
    fn local(&self, rank: u32) -> u32 {
        rank % self.job.ranks_per_node()
    }

    /// A message to the neighbour at a side: the call, and up to three copies.
    fn send(&self, rank: u32, step: u64, side: u64, n: u32) -> Option<GeneratedEvent> {
        let near = self.is_near(rank, self.neighbour(rank, side));
        let staged = self.job.pattern == MessagePattern::Halo;
        let slot = memory::slot(rank, self.local(rank), side, step);
        let from = if staged { memory::staging(side) } else { memory::sent(side) };
        let from = from + if self.is_misplaced(rank, step, side) { MISPLACED_BYTES } else { 0 };
        let context = context(EXCHANGE, side, step);
        match n {
            0 => Some(call(EXCHANGE, side)),
            1 if staged => {
                Some(copy(STAGE, memory::sent(side), memory::staging(side), PAYLOAD_BYTES, context))
            }
            2 if near => Some(copy(HEADER_COPY, HEADER, slot, HEADER_BYTES, context)),
            3 if near => Some(copy(PAYLOAD_COPY, from, slot + HEADER_BYTES, PAYLOAD_BYTES, context)),
            3 if self.job.streams => Some(stream((rank, side), step, from, context, false)),
            3 => Some(copy(TO_NETWORK, from, memory::network(side, true), PAYLOAD_BYTES, context)),
            _ => None,
        }
    }

    fn is_misplaced(&self, rank: u32, step: u64, side: u64) -> bool {
        match self.job.fault {
            InjectedFault::Broken { one_in } => {
                mixed(u64::from(rank) << 40 ^ step << 2 ^ side).is_multiple_of(one_in.max(1))
            }
            InjectedFault::Seeded { misplaced, .. } => rank == misplaced && side == 2 && step % 2 == 1,
            InjectedFault::None | InjectedFault::Repeats { .. } => false,
        }
    }

    /// The message that the neighbour at a side sent towards us.
    fn receive(&self, rank: u32, step: u64, side: u64) -> Option<GeneratedEvent> {
        // In a ring what is sent to the right comes from the left.
        let (from, its_side) = match self.job.pattern {
            MessagePattern::Halo => (self.neighbour(rank, side), side ^ 1),
            MessagePattern::Ring => (self.neighbour(rank, 1), 0),
        };
        let context = context(EXCHANGE, side, step);
        let user = memory::received(side);
        if self.is_near(rank, from) {
            let slot = memory::slot(rank, self.local(from), its_side, step);
            return Some(copy(DELIVER, slot + HEADER_BYTES, user, PAYLOAD_BYTES, context));
        }
        Some(copy(FROM_NETWORK, memory::network(side, false), user, PAYLOAD_BYTES, context))
    }

    /// The rank that posts the same request again and again.
    fn repeating(&self) -> Option<u32> {
        match self.job.fault {
            InjectedFault::Repeats { rank } | InjectedFault::Seeded { repeats: rank, .. } => Some(rank),
            InjectedFault::None | InjectedFault::Broken { .. } => None,
        }
    }

    /// A request, posted while another call is asked for progress.
    fn request(&self, rank: u32, step: u64, n: u32) -> Option<GeneratedEvent> {
        let faulty = self.repeating()?;
        if rank != faulty && (n >= 2 || !step.is_multiple_of(STEPS_PER_REQUEST)) {
            return None;
        }
        if n.is_multiple_of(2) {
            return Some(call(TEST, 4));
        }
        let slot = memory::request_slot(rank, self.local(rank));
        Some(copy(POST, REQUEST, slot, 64, context(TEST, 4, step)))
    }
}

/// A block is given back, and asked for again.
fn block(rank: u32, step: u64, n: u32) -> Option<GeneratedEvent> {
    if step % STEPS_PER_BLOCK != u64::from(rank) % STEPS_PER_BLOCK {
        return None;
    }
    let caller = memory::return_address(5 + u64::from(n));
    Some(match n {
        0 => GeneratedEvent { probe: FREE, body: Body::Free { addr: BLOCK, caller } },
        _ => GeneratedEvent {
            probe: MALLOC,
            body: Body::Alloc { addr: BLOCK, size_bytes: BLOCK_BYTES, old: 0, caller },
        },
    })
}

fn call(probe: u32, place: u64) -> GeneratedEvent {
    let args = [memory::sent(place % 4), PAYLOAD_BYTES, 0x55_0000, place, 7, 0x55_1000];
    GeneratedEvent {
        probe,
        body: Body::Call { return_address: memory::return_address(place), args, nested: false },
    }
}

/// Data of a message goes into the stream of its sender and a side, or comes out of it.
fn stream(
    (sender, side): (u32, u64),
    step: u64,
    addr: u64,
    context: CallContext,
    receive: bool,
) -> GeneratedEvent {
    let position = step.wrapping_mul(PAYLOAD_BYTES) as u32;
    let stream = mixed(u64::from(sender) << 8 | side);
    let body = Body::Stream { addr, stream, position, len_bytes: PAYLOAD_BYTES as u32, receive, context };
    GeneratedEvent { probe: 0, body }
}

/// All ranks add a number up.
fn reduction() -> GeneratedEvent {
    let args = [memory::sent(0), memory::received(0), 1, 0x4c00_080b, 0x5800_0003, calls::WORLD];
    GeneratedEvent {
        probe: REDUCE,
        body: Body::Call { return_address: memory::return_address(9), args, nested: false },
    }
}

fn context(probe: u32, place: u64, step: u64) -> CallContext {
    CallContext { return_address: memory::return_address(place), probe, serial: step as u32 }
}

fn copy(probe: u32, src: u64, dst: u64, len_bytes: u64, context: CallContext) -> GeneratedEvent {
    GeneratedEvent { probe, body: Body::Copy { dst, src, len_bytes, context } }
}

/// A number that looks like chance (splitmix64).
fn mixed(seed: u64) -> u64 {
    let z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}
