//! MPI calls with their results: nonblocking sends and receives, and the wait for all of them.

use analyzer::input::MpiKind;
use analyzer::plan::{MpiObjects, Plan, Probe, ProbeClass};
use analyzer::wire::{Body, NO_ARGUMENT, PIECE_WORDS, STACK_ARGUMENTS};

use super::event::GeneratedEvent;
use super::memory;

const IRECV: u32 = 12;
const ISEND: u32 = 13;
const WAITALL: u32 = 14;
pub(super) const INIT: u32 = 15;

/// As MPICH has it.
pub(super) const WORLD: u64 = 0x4400_0000;
/// Requests that are not complete at once.
const REQUESTS: u64 = 0x9800_0000;
/// Where the program keeps them.
const REQUESTS_AT: u64 = 0x55_2000;

/// Records of one side's messages when they are begun: those of two calls, and the copies in one.
pub(super) const PER_MESSAGE: u32 = 3 + 3 + 3;
/// Records of a wait before what was received is delivered.
pub(super) const BEFORE_DELIVERY: u32 = 2;

/// A record of a call, in the order in which they come.
#[derive(Clone, Copy)]
pub(super) enum CallRecord {
    Entry,
    Values,
    Return,
}

/// A record of the messages with one neighbour: what is received is posted first.
pub(super) enum MessageRecord {
    Receive(CallRecord),
    Send(CallRecord),
    /// The n-th event of a send.
    Copy(u32),
}

/// Most events with calls in a phase.
pub(super) fn events(sides: u32, phase: usize) -> u32 {
    if phase == 0 { sides * PER_MESSAGE } else { BEFORE_DELIVERY + sides + 1 }
}

/// The n-th record of those that begin the messages with one neighbour.
pub(super) fn started(n: u32) -> MessageRecord {
    match n {
        0 => MessageRecord::Receive(CallRecord::Entry),
        1 => MessageRecord::Receive(CallRecord::Values),
        2 => MessageRecord::Receive(CallRecord::Return),
        3 => MessageRecord::Send(CallRecord::Entry),
        4 => MessageRecord::Send(CallRecord::Values),
        5..8 => MessageRecord::Copy(n - 4),
        _ => MessageRecord::Send(CallRecord::Return),
    }
}

/// The n-th record of a wait; `None`: what was received is delivered.
pub(super) fn waited(sides: u32, n: u32) -> Option<CallRecord> {
    match n {
        0 => Some(CallRecord::Entry),
        1 => Some(CallRecord::Values),
        n if n < BEFORE_DELIVERY + sides => None,
        _ => Some(CallRecord::Return),
    }
}

pub(super) fn receive(of: CallRecord, step: u64, side: u64, source: u32) -> GeneratedEvent {
    message(IRECV, of, step, side * 2, (memory::received(side), source, side))
}

pub(super) fn send(of: CallRecord, step: u64, side: u64, dest: u32, tag: u64) -> GeneratedEvent {
    message(ISEND, of, step, side * 2 + 1, (memory::sent(side), dest, tag))
}

/// `number`: of the request.
fn message(
    probe: u32,
    of: CallRecord,
    step: u64,
    number: u64,
    (buffer, peer, tag): (u64, u32, u64),
) -> GeneratedEvent {
    let serial = (step * 16 + number) as u32;
    let return_address = memory::return_address(8 + number);
    let body = match of {
        CallRecord::Entry => {
            let args = [buffer, 1024, 0x4c00_080b, u64::from(peer), tag, WORLD];
            Body::Call { return_address, args, nested: false }
        }
        CallRecord::Values => values(serial, STACK_ARGUMENTS, 8, &[REQUESTS_AT + number * 4]),
        CallRecord::Return => {
            Body::Return { serial, code: 0, argument: 6, bytes: 4, word: REQUESTS + number }
        }
    };
    GeneratedEvent { probe, body }
}

/// All requests of a step, without statuses.
pub(super) fn wait(of: CallRecord, step: u64, sides: u32) -> GeneratedEvent {
    let serial = (step * 16 + 15) as u32;
    let body = match of {
        CallRecord::Entry => {
            let args = [u64::from(2 * sides), REQUESTS_AT, 1, 0, 0, 0];
            Body::Call { return_address: memory::return_address(7), args, nested: false }
        }
        CallRecord::Values => {
            let mut words = [0; PIECE_WORDS];
            for (pair, word) in (0..u64::from(sides)).zip(&mut words) {
                *word = (REQUESTS + 2 * pair) | (REQUESTS + 2 * pair + 1) << 32;
            }
            values(serial, 1, 8 * sides, &words)
        }
        CallRecord::Return => Body::Return { serial, code: 0, argument: NO_ARGUMENT, bytes: 0, word: 0 },
    };
    GeneratedEvent { probe: WAITALL, body }
}

fn values(serial: u32, argument: u32, total_bytes: u32, known: &[u64]) -> Body {
    let mut words = [0; PIECE_WORDS];
    words[..known.len()].copy_from_slice(known);
    Body::Values { serial, argument, total_bytes, position_bytes: 0, at_return: false, words }
}

pub(super) fn init() -> Body {
    Body::Call { return_address: memory::return_address(6), args: [0; 6], nested: false }
}

/// The probes of these calls; the program carries the library in itself.
pub(super) fn add_to(plan: &mut Plan) {
    let Some(like) = plan.probes.first().cloned() else { return };
    let calls = [(IRECV, "MPI_Irecv"), (ISEND, "MPI_Isend"), (WAITALL, "MPI_Waitall"), (INIT, "MPI_Init")];
    // Calls without results would leave open what they complete.
    let calls_of_others = plan.probes.iter_mut().filter(|probe| probe.class == ProbeClass::Call);
    calls_of_others.for_each(|probe| probe.class = ProbeClass::CallResults);
    plan.probes.extend(calls.map(|(id, function)| Probe {
        id,
        offset_bytes: u64::from(id) * 64,
        site_offset_bytes: u64::from(id) * 64,
        class: ProbeClass::CallResults,
        function: function.to_owned(),
        ..like.clone()
    }));
    for file in &mut plan.files {
        file.mpi = Some(MpiObjects { kind: MpiKind::Mpich, comm_world: None, complete_request: None });
    }
}
