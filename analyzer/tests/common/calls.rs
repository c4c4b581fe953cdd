//! Jobs whose MPI calls are recorded with their results. The library is MPICH.

use analyzer::finding::Report;
use analyzer::input::{Input, MpiKind};
use analyzer::options::Options;
use analyzer::pipeline::Pipeline;
use analyzer::plan::{MpiObjects, Plan, PlannedFile, ProbeClass};
use analyzer::wire::{Body, NO_ARGUMENT, PIECE_WORDS};

use super::{PROGRAM, PROGRAM_AT, Trace};

pub const WORLD: u64 = 0x4400_0000;
pub const ANY_SOURCE: u64 = -2i64 as u64;
pub const TAG: u64 = 3;
pub const CHAR: u64 = 0x4c00_0101;
/// Where requests are stored.
pub const POINTER: u64 = 0x5000;

/// A job whose calls are watched with their results.
pub struct Job {
    pub t: Trace,
    pub ranks: u32,
    /// How many calls each rank has begun.
    serials: Vec<u32>,
}

impl Job {
    /// All ranks have begun with MPI.
    pub fn begun(ranks: u32) -> Self {
        let mut job = Self::new(ranks);
        (0..ranks).for_each(|rank| job.call(rank, "MPI_Init", [0; 6], 0, None));
        job
    }

    pub fn new(ranks: u32) -> Self {
        let mut t = Trace::new(ranks, true);
        let mpi = MpiObjects { kind: MpiKind::Mpich, comm_world: None, complete_request: None };
        let file =
            PlannedFile { id: PROGRAM, path: "/bin/job".into(), mpi: Some(mpi), ..PlannedFile::default() };
        t.inputs.insert(1, Input::Plan(Box::new(Plan { files: vec![file], ..Plan::default() })));
        Self { t, ranks, serials: vec![0; ranks as usize] }
    }

    /// A call from a line of the program; `result`: what an argument points to when it returns.
    pub fn call(&mut self, rank: u32, function: &str, args: [u64; 6], line: u64, result: Option<(u32, u64)>) {
        self.begin(rank, function, args, line);
        self.over(rank, function, result);
    }

    pub fn begin(&mut self, rank: u32, function: &str, args: [u64; 6], line: u64) {
        let probe = self.t.probe(function, ProbeClass::CallResults);
        self.serials[rank as usize] += 1;
        let return_address = PROGRAM_AT + 0x100 + 16 * line;
        self.t.record(rank, probe, Body::Call { return_address, args, nested: false });
    }

    /// The number of a rank's last call.
    pub fn serial(&self, rank: u32) -> u32 {
        self.serials[rank as usize]
    }

    /// What an argument of a rank's last call points to.
    pub fn points(&mut self, rank: u32, function: &str, argument: u32, at_return: bool, integers: &[i32]) {
        let probe = self.t.probe(function, ProbeClass::CallResults);
        let (serial, total_bytes) = (self.serials[rank as usize], 4 * integers.len() as u32);
        for (position_bytes, piece) in (0..).step_by(8 * PIECE_WORDS).zip(integers.chunks(2 * PIECE_WORDS)) {
            let mut words = [0; PIECE_WORDS];
            for (at, integer) in piece.iter().enumerate() {
                words[at / 2] |= u64::from(integer.cast_unsigned()) << (32 * (at % 2));
            }
            let body = Body::Values { serial, argument, total_bytes, position_bytes, at_return, words };
            self.t.record(rank, probe, body);
        }
    }

    pub fn over(&mut self, rank: u32, function: &str, result: Option<(u32, u64)>) {
        let probe = self.t.probe(function, ProbeClass::CallResults);
        let (argument, word) = result.unwrap_or((NO_ARGUMENT, 0));
        let bytes = if result.is_some() { 4 } else { 0 };
        let serial = self.serials[rank as usize];
        self.t.record(rank, probe, Body::Return { serial, code: 0, argument, bytes, word });
    }

    pub fn send(&mut self, rank: u32, dest: u64, line: u64) {
        self.call(rank, "MPI_Send", [0x1000, 8, 5, dest, TAG, WORLD], line, None);
    }

    pub fn receive(&mut self, rank: u32, source: u64) {
        self.call(rank, "MPI_Recv", [0x1000, 8, 5, source, TAG, WORLD], 20, None);
    }

    /// Begins to send or to receive, and gets a request.
    pub fn start(&mut self, rank: u32, function: &str, peer: u64, line: u64, request: u64) {
        self.begin(rank, function, [0x1000, 8, 5, peer, TAG, WORLD], line);
        self.points(rank, function, 6, false, &[POINTER as i32, 0]);
        self.over(rank, function, Some((6, request)));
    }

    /// A call with a request.
    pub fn with_request(&mut self, rank: u32, function: &str, request: u64) {
        self.begin(rank, function, [POINTER, 0, 0, 0, 0, 0], 40);
        self.points(rank, function, 0, false, &[request as i32]);
        self.over(rank, function, None);
    }

    pub fn finalize(&mut self) {
        (0..self.ranks).for_each(|rank| self.call(rank, "MPI_Finalize", [0; 6], 50, None));
    }

    pub fn report(self) -> Report {
        let mut pipeline = Pipeline::new(Options::default());
        self.t.end().iter().for_each(|input| pipeline.push(input));
        pipeline.report()
    }
}
