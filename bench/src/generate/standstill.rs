//! How a made-up job comes to a stand: two ranks wait for each other's messages, and all others for them.

use analyzer::input::{
    CallInProgress, CodePlace, Frame, Input, MpiFacts, MpiKind, Symbol, ThreadFacts, ThreadState, Threads,
};
use analyzer::wire::{Body, FileId, Header, Record};

use super::calls::WORLD;
use super::job::FIRST_PID;
use super::memory::{self, PROGRAM};
use super::probes::{RECEIVE, REDUCE};

/// The MPI library.
const LIBRARY: FileId = FileId { dev: 1, inode: 8 };
/// Frames of a thread below the call that it is in.
const FRAMES: u64 = 12;
/// A thread that polls has so much of a second.
const POLLED_SHARE: u64 = 2;

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct Standstill {
    /// Each waits for a message of the other one.
    pub cycle: [u32; 2],
}

impl Standstill {
    fn partner(&self, rank: u32) -> Option<u32> {
        let [one, other] = self.cycle;
        match rank {
            rank if rank == one => Some(other),
            rank if rank == other => Some(one),
            _ => None,
        }
    }

    fn probe(&self, rank: u32) -> u32 {
        if self.partner(rank).is_some() { RECEIVE } else { REDUCE }
    }

    fn arguments(&self, rank: u32) -> [u64; 6] {
        match self.partner(rank) {
            Some(partner) => [memory::received(0), 1024, 0x4c00_080b, partner.into(), 99, WORLD],
            None => [memory::sent(0), memory::received(0), 1, 0x4c00_080b, 0x5800_0003, WORLD],
        }
    }

    fn return_address(&self, rank: u32) -> u64 {
        memory::return_address(20 + u64::from(self.partner(rank).is_some()))
    }

    /// The record of a rank's last call.
    pub fn last_call(&self, rank: u32, time_ns: u64) -> Input {
        let pid = FIRST_PID + rank;
        let (return_address, args) = (self.return_address(rank), self.arguments(rank));
        let header = Header { time_ns, pid, tid: pid, probe: self.probe(rank) };
        Input::Record(Record { header, body: Body::Call { return_address, args, nested: false } }.encode())
    }

    /// How ranks are found, so long after they have come to a stand. Each has a helper thread that sleeps.
    pub fn sample(&self, ranks: impl Iterator<Item = u32>, time_ns: u64, after_ns: u64) -> Threads {
        let threads = ranks.flat_map(|rank| [self.waiting(rank, after_ns), helper(rank)]).collect();
        Threads { time_ns, threads }
    }

    fn waiting(&self, rank: u32, after_ns: u64) -> ThreadFacts {
        let pid = FIRST_PID + rank;
        let site = CodePlace { file: PROGRAM, offset_bytes: memory::code_offset(self.return_address(rank)) };
        let function = if self.partner(rank).is_some() { "MPI_Recv" } else { "MPI_Allreduce" };
        let call = CallInProgress {
            function: function.to_owned(),
            mpi: Some(MpiFacts { kind: MpiKind::Mpich, comm_world: Some(WORLD) }),
            site: Some(site),
            return_slot: 0x7ffc_0000_8000,
            arguments: self.arguments(rank).map(Some).into(),
            ..CallInProgress::default()
        };
        let inside =
            (0..FRAMES).map(|frame| CodePlace { file: LIBRARY, offset_bytes: 0x1000 + frame * 0x130 });
        ThreadFacts {
            pid,
            tid: pid,
            state: ThreadState::Running,
            ran_ns: after_ns / POLLED_SHARE,
            call: Some(call),
            frames: inside.chain([site]).collect(),
            cut: None,
        }
    }

    /// Names of places in the program.
    pub fn symbols(places: &[(FileId, u64)]) -> Vec<Symbol> {
        let known = places.iter().filter(|(file, _)| *file == PROGRAM);
        let name = |&(file, offset_bytes): &(FileId, u64)| Symbol {
            file,
            offset_bytes,
            frames: vec![Frame {
                function: "step".to_owned(),
                source: Some("/src/made-up.c".to_owned()),
                line: Some(offset_bytes as u32),
            }],
        };
        known.map(name).collect()
    }
}

fn helper(rank: u32) -> ThreadFacts {
    let pid = FIRST_PID + rank;
    let frames = (0..4).map(|frame| CodePlace { file: LIBRARY, offset_bytes: 0x9000 + frame * 0x130 });
    ThreadFacts {
        pid,
        tid: pid + (1 << 20),
        state: ThreadState::Sleeping,
        ran_ns: 1_000_000,
        frames: frames.collect(),
        ..ThreadFacts::default()
    }
}
