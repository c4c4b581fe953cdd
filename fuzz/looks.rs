//! What threads are found doing, made of bytes.

use analyzer::calls;
use analyzer::input::{
    CallInProgress, CodePlace, CommunicatorFacts, MpiFacts, MpiKind, PendingMessage, PendingRequest,
    ThreadFacts, ThreadState, Threads,
};

use crate::bytes::Bytes;
use crate::mpi::{self, PROGRAM};

const STATES: [ThreadState; 5] = [
    ThreadState::Running,
    ThreadState::Sleeping,
    ThreadState::Stopped,
    ThreadState::Traced,
    ThreadState::Ending,
];

/// A look at a few threads.
pub fn look(bytes: &mut Bytes<'_>, kind: MpiKind, time_ns: u64) -> Threads {
    let count = 1 + bytes.next() % 6;
    Threads { time_ns, threads: (0..count).map(|_| thread(bytes, kind, time_ns)).collect() }
}

/// The same threads, found in the same places later: those that can run have run.
pub fn again(last: &Threads, time_ns: u64) -> Threads {
    let mut threads = last.clone();
    for thread in threads.threads.iter_mut().filter(|thread| thread.state == ThreadState::Running) {
        thread.ran_ns = thread.ran_ns.saturating_add(time_ns.saturating_sub(last.time_ns) / 2);
    }
    threads.time_ns = time_ns;
    threads
}

fn thread(bytes: &mut Bytes<'_>, kind: MpiKind, time_ns: u64) -> ThreadFacts {
    let (pid, tid) = bytes.thread();
    let flags = bytes.next();
    ThreadFacts {
        pid,
        tid,
        // Half of them run.
        state: STATES[usize::from(flags & 7).saturating_sub(3)],
        ran_ns: if flags & 8 == 0 { time_ns / 2 } else { u64::from(flags) << 20 },
        call: (flags & 16 == 0).then(|| call(bytes, kind)),
        frames: (0..flags >> 5 & 3).map(|_| place(bytes)).collect(),
        cut: (flags & 128 != 0).then(|| "no table".to_owned()),
    }
}

fn place(bytes: &mut Bytes<'_>) -> CodePlace {
    CodePlace { file: PROGRAM, offset_bytes: 0x100 + u64::from(bytes.next() % 8) * 8 }
}

fn call(bytes: &mut Bytes<'_>, kind: MpiKind) -> CallInProgress {
    let function = mpi::function(bytes);
    let args = calls::row(function).map_or(&[][..], |row| &row.args);
    let unknown = bytes.next();
    // One in eight bytes: an argument that could not be recovered.
    let is_known = |at: usize| unknown & 0xe0 != 0 || unknown >> (at % 5) & 1 == 0;
    let arguments = args
        .iter()
        .enumerate()
        .map(|(at, arg)| Some(mpi::argument(*arg, bytes, kind)).filter(|_| is_known(at)));
    let arguments = arguments.collect();
    let flags = bytes.next();
    CallInProgress {
        function: function.to_owned(),
        mpi: (flags & 1 == 0)
            .then(|| MpiFacts { kind, comm_world: (flags & 2 == 0).then(|| mpi::world(kind)) }),
        site: (flags & 4 == 0).then(|| place(bytes)),
        return_slot: 0x7fff_0000 + u64::from(flags >> 3 & 1),
        arguments,
        requests: (0..flags >> 4 & 3).map(|_| request(bytes, kind)).collect(),
        communicators: (0..flags >> 6).map(|_| communicator(bytes, kind)).collect(),
    }
}

fn request(bytes: &mut Bytes<'_>, kind: MpiKind) -> PendingRequest {
    let flags = bytes.next();
    let message = PendingMessage {
        sends: flags & 1 != 0,
        peer: i32::from(bytes.next() % 8) - 2,
        tag: i32::from(bytes.next() % 4) - 1,
        comm: mpi::argument(calls::Arg::Comm, bytes, kind),
    };
    let complete = (flags & 2 != 0).then_some(flags & 4 != 0);
    let message = (flags & 8 == 0).then_some(message);
    PendingRequest { handle: u64::from(flags), complete, message, started: None }
}

fn communicator(bytes: &mut Bytes<'_>, kind: MpiKind) -> CommunicatorFacts {
    let members = (0..bytes.next() % 6).map(|_| u32::from(bytes.next() % 7)).collect();
    let context_id = u32::from(bytes.next() % 3);
    CommunicatorFacts { handle: mpi::argument(calls::Arg::Comm, bytes, kind), context_id, members }
}
