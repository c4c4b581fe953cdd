//! Random jobs that call MPI: calls between two ranks and collective ones, errors, samples of ranks that wait, ends.

use std::collections::{HashMap, HashSet};

use analyzer::input::{
    CallInProgress, CodePlace, Coverage, Input, Loss, MpiFacts, MpiKind, PendingRequest, ThreadFacts,
    ThreadState, Threads,
};
use analyzer::plan::{MpiObjects, Plan, PlannedFile, ProbeClass};
use analyzer::wire::{Body, FileId, NO_ARGUMENT};
use proptest::prelude::*;

use super::{LIBRARY, PROGRAM, PROGRAM_AT, Trace, pid};

const S: u64 = 1_000_000_000;
const WORLD: u64 = 0x4400_0000;
const INT: u64 = 0x4c00_0405;
const ERROR: &str = "MPIR_Err_return_comm";
/// Codes of MPICH.
const CODES: [u64; 4] = [0x0800_000e, 0x0400_0106, 0x0800_0025, 0];
const STATUSES: [u32; 4] = [0, 1 << 8, 9, 11];
/// Calls between two ranks, and on requests.
const PAIRED: [&str; 4] = ["MPI_Send", "MPI_Recv", "MPI_Wait", "MPI_Test"];
const COLLECTIVE: [&str; 3] = ["MPI_Barrier", "MPI_Bcast", "MPI_Allreduce"];
const STARTED: [&str; 2] = ["MPI_Ibarrier", "MPI_Irecv"];
const CODE_AT: u64 = 0x5000_0000;

#[derive(Clone, Debug)]
pub enum CallStep {
    Paired {
        rank: u32,
        function: usize,
        peer: u32,
        place: u64,
    },
    /// All ranks but those that are left out; one may have another root.
    Collective {
        function: usize,
        left_out: u32,
        odd: u32,
        place: u64,
    },
    /// It has a request then.
    Started {
        rank: u32,
        function: usize,
        handle: u64,
        place: u64,
    },
    Done {
        rank: u32,
    },
    Error {
        rank: u32,
        code: usize,
        in_its_call: bool,
    },
    GoesOn {
        rank: u32,
    },
    /// Where all ranks are, so often, a second apart. Those that compute are in no call.
    Sampled {
        computing: u32,
        times: u64,
    },
    Finalize {
        rank: u32,
    },
    Abort {
        rank: u32,
    },
    Exit {
        rank: u32,
        status: usize,
    },
    Code {
        rank: u32,
        mapped: bool,
    },
    Copy {
        rank: u32,
    },
    Loss {
        rank: u32,
        state: u64,
    },
    Pause {
        probe_off: bool,
    },
    Tick,
    Time(u64),
}

/// Ranks, as bits of a number: mostly none.
fn few_ranks(ranks: u32) -> impl Strategy<Value = u32> {
    prop_oneof![4 => Just(0u32), 2 => (0..ranks).prop_map(|rank| 1u32 << rank), 1 => 0..1u32 << ranks]
}

pub fn call_step(ranks: u32) -> impl Strategy<Value = CallStep> {
    let rank = move || 0..ranks;
    prop_oneof![
        8 => (rank(), 0..PAIRED.len(), rank(), 0..4u64)
            .prop_map(|(rank, function, peer, place)| CallStep::Paired { rank, function, peer, place }),
        5 => (0..COLLECTIVE.len(), few_ranks(ranks), few_ranks(ranks), 0..2u64)
            .prop_map(|(function, left_out, odd, place)| CallStep::Collective { function, left_out, odd, place }),
        3 => (rank(), 0..STARTED.len(), 0..2u64, 0..2u64)
            .prop_map(|(rank, function, handle, place)| CallStep::Started { rank, function, handle, place }),
        2 => rank().prop_map(|rank| CallStep::Done { rank }),
        2 => (rank(), 0..CODES.len(), any::<bool>())
            .prop_map(|(rank, code, in_its_call)| CallStep::Error { rank, code, in_its_call }),
        1 => rank().prop_map(|rank| CallStep::GoesOn { rank }),
        3 => (few_ranks(ranks), 1..6u64).prop_map(|(computing, times)| CallStep::Sampled { computing, times }),
        1 => rank().prop_map(|rank| CallStep::Finalize { rank }),
        1 => rank().prop_map(|rank| CallStep::Abort { rank }),
        1 => (rank(), 0..STATUSES.len()).prop_map(|(rank, status)| CallStep::Exit { rank, status }),
        1 => (rank(), any::<bool>()).prop_map(|(rank, mapped)| CallStep::Code { rank, mapped }),
        2 => rank().prop_map(|rank| CallStep::Copy { rank }),
        1 => (rank(), 0..2u64).prop_map(|(rank, state)| CallStep::Loss { rank, state }),
        1 => any::<bool>().prop_map(|probe_off| CallStep::Pause { probe_off }),
        4 => Just(CallStep::Tick),
        1 => (0..3 * S).prop_map(CallStep::Time),
    ]
}

/// A job under way.
struct CallingJob {
    t: Trace,
    ranks: u32,
    /// What each rank called last.
    last: HashMap<u32, (&'static str, [u64; 6], u64)>,
    serials: HashMap<u32, u32>,
    paused: bool,
    /// Ranks that have ended.
    gone: HashSet<u32>,
}

/// What happens in a job. `with_results`: all calls are watched until they return.
pub fn calling_job(ranks: u32, steps: &[CallStep], with_results: bool) -> Vec<Input> {
    let mut job = CallingJob::new(ranks, with_results);
    for step in steps {
        job.apply(step);
    }
    job.t.end()
}

impl CallingJob {
    fn new(ranks: u32, with_results: bool) -> Self {
        let mut t = Trace::new(ranks, true);
        let mpi = MpiObjects { kind: MpiKind::Mpich, comm_world: None, complete_request: None };
        let file = PlannedFile {
            id: PROGRAM,
            path: "/bin/job".into(),
            mpi: Some(mpi),
            own: true,
            ..PlannedFile::default()
        };
        t.inputs.push(Input::Plan(Box::new(Plan { files: vec![file], ..Plan::default() })));
        let class = if with_results { ProbeClass::CallResults } else { ProbeClass::Call };
        t.probe("MPI_Init", class);
        t.probe("MPI_Finalize", ProbeClass::CallResults);
        t.probe(ERROR, ProbeClass::Error);
        for function in PAIRED.into_iter().chain(COLLECTIVE).chain(STARTED).chain(["MPI_Abort"]) {
            t.probe(function, class);
        }
        t.probe("poll", ProbeClass::PollSuccess);
        t.probe("stage", ProbeClass::Copy);
        let mut job = Self {
            t,
            ranks,
            last: HashMap::new(),
            serials: HashMap::new(),
            paused: false,
            gone: HashSet::new(),
        };
        (0..ranks).for_each(|rank| job.call(rank, "MPI_Init", [0; 6], 0));
        job
    }

    fn call(&mut self, rank: u32, function: &'static str, args: [u64; 6], place: u64) {
        let probe = self.t.probe(function, ProbeClass::Call);
        let return_address = PROGRAM_AT + 0x5000 + place * 16;
        self.last.insert(rank, (function, args, return_address));
        *self.serials.entry(rank).or_default() += 1;
        self.t.record(rank, probe, Body::Call { return_address, args, nested: false });
    }

    fn apply(&mut self, step: &CallStep) {
        match *step {
            CallStep::Paired { rank, function, peer, place } => {
                let args = match PAIRED[function] {
                    "MPI_Send" | "MPI_Recv" => [0x1000, 8, INT, peer.into(), 1, WORLD],
                    _ => [0x2000, 0, 0, 0, 0, 0],
                };
                self.call(rank, PAIRED[function], args, place);
            }
            CallStep::Collective { function, left_out, odd, place } => {
                for rank in (0..self.ranks).filter(|rank| left_out >> rank & 1 == 0) {
                    let root = u64::from(odd >> rank & 1);
                    let args = match COLLECTIVE[function] {
                        "MPI_Barrier" => [WORLD, 0, 0, 0, 0, 0],
                        "MPI_Bcast" => [0x1000, 8, INT, root, WORLD, 0],
                        _ => [0x1000, 0x2000, 8, INT, 0x5800_0001 + root, WORLD],
                    };
                    self.call(rank, COLLECTIVE[function], args, place);
                }
            }
            CallStep::Started { rank, function, handle, place } => {
                let args = match STARTED[function] {
                    "MPI_Ibarrier" => [WORLD, 0x3000, 0, 0, 0, 0],
                    _ => [0x1000, 8, INT, 0, 1, WORLD],
                };
                self.call(rank, STARTED[function], args, place);
                let probe = self.t.probe(STARTED[function], ProbeClass::Call);
                self.t.record(rank, probe, Body::Made { handle: 0x9800_0000 + handle });
            }
            CallStep::Done { rank } => {
                let probe = self.t.probe("poll", ProbeClass::PollSuccess);
                self.t.record(rank, probe, Body::Done);
            }
            CallStep::Error { rank, code, in_its_call } => self.error(rank, CODES[code], in_its_call),
            CallStep::GoesOn { rank } => {
                let probe = self.t.probe(ERROR, ProbeClass::Error);
                self.t.record(rank, probe, Body::Done);
            }
            CallStep::Sampled { computing, times } => (0..times).for_each(|_| self.sample(computing)),
            CallStep::Finalize { rank } => {
                self.call(rank, "MPI_Finalize", [0; 6], 9);
                let probe = self.t.probe("MPI_Finalize", ProbeClass::CallResults);
                let serial = self.serials[&rank];
                let body = Body::Return { serial, code: 0, argument: NO_ARGUMENT, bytes: 0, word: 0 };
                self.t.record(rank, probe, body);
            }
            CallStep::Abort { rank } => self.call(rank, "MPI_Abort", [WORLD, 3, 0, 0, 0, 0], 8),
            CallStep::Exit { rank, status } => {
                let at = PROGRAM_AT + 0x6000 + u64::from(rank % 2);
                self.t.record(rank, 0, Body::Exit { status: STATUSES[status], at });
                self.last.remove(&rank);
                self.gone.insert(rank);
            }
            CallStep::Code { rank, mapped } => self.code(rank, mapped),
            CallStep::Copy { rank } => {
                let (from, to) = (self.t.heap(rank, "data"), self.t.heap(rank, "staged"));
                self.t.copy(rank, "stage", from, to, 64);
            }
            // Of whom it is not known who they are, a loss may be of any on the same node.
            CallStep::Loss { rank, .. } if self.gone.contains(&rank) => {}
            CallStep::Loss { rank, state } => {
                self.t.now_ns += 1000;
                let (from_ns, to_ns) = (self.t.now_ns, self.t.now_ns + 1);
                self.t.inputs.push(Input::Loss(Loss {
                    pid: pid(rank),
                    from_ns,
                    to_ns,
                    movements: 0,
                    calls: 1,
                    state,
                }));
            }
            CallStep::Pause { probe_off } => {
                self.t.now_ns += 1000;
                self.paused = !self.paused;
                let off = if probe_off { vec![3] } else { Vec::new() };
                let coverage =
                    Coverage { time_ns: self.t.now_ns, paused: self.paused, off, ..Coverage::default() };
                self.t.inputs.push(Input::Coverage(Box::new(coverage)));
            }
            CallStep::Tick => self.t.tick(),
            CallStep::Time(ns) => self.t.now_ns += ns,
        }
    }

    fn error(&mut self, rank: u32, code: u64, in_its_call: bool) {
        let last = self.last.get(&rank).copied();
        let (name, return_address) = last.map_or(("", 0), |(function, _, address)| (function, address));
        let mut bytes = [0; 40];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        let mut args = [code; 6];
        for (word, chunk) in args[1..].iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(chunk.try_into().expect("eight bytes"));
        }
        let return_address = if in_its_call { return_address } else { 0 };
        let probe = self.t.probe(ERROR, ProbeClass::Error);
        self.t.record(rank, probe, Body::Call { return_address, args, nested: true });
    }

    fn sample(&mut self, computing: u32) {
        self.t.now_ns += S;
        let time_ns = self.t.now_ns;
        let threads = (0..self.ranks).map(|rank| self.thread(rank, computing >> rank & 1 == 1)).collect();
        self.t.inputs.push(Input::Threads(Box::new(Threads { time_ns, threads })));
        self.t.tick();
    }

    fn thread(&self, rank: u32, computes: bool) -> ThreadFacts {
        let place = CodePlace { file: FileId { dev: 1, inode: 10 }, offset_bytes: 0x100 };
        let last = self.last.get(&rank).filter(|_| !computes);
        let call = last.map(|(function, args, return_address)| CallInProgress {
            function: (*function).to_owned(),
            mpi: Some(MpiFacts { kind: MpiKind::Mpich, comm_world: Some(WORLD) }),
            site: Some(CodePlace { offset_bytes: return_address - PROGRAM_AT, ..place }),
            return_slot: 0x7000_0000 + return_address,
            arguments: args.iter().copied().map(Some).collect(),
            requests: match *function {
                "MPI_Wait" => vec![PendingRequest { handle: 0x9800_0000, ..PendingRequest::default() }],
                _ => Vec::new(),
            },
            ..CallInProgress::default()
        });
        let (state, ran_ns) = (ThreadState::Running, self.t.now_ns);
        ThreadFacts { pid: pid(rank), tid: pid(rank), state, ran_ns, call, frames: vec![place], cut: None }
    }

    /// Code of the library comes or goes where the program may call from.
    fn code(&mut self, rank: u32, mapped: bool) {
        let (addr, len_bytes) = (PROGRAM_AT + 0x5010, 0x20);
        let body = match mapped {
            true => Body::Map {
                addr,
                len_bytes,
                offset_bytes: CODE_AT,
                file: LIBRARY,
                shared: false,
                exec: true,
                has_file: true,
            },
            false => Body::Unmap { addr, len_bytes },
        };
        self.t.record(rank, 0, body);
    }
}
