//! A job of which only the entries of collective calls are recorded, and what is told of it.

use crate::common::calls::{Job, POINTER, WORLD};
use crate::common::{PROGRAM, PROGRAM_AT, pid};
use analyzer::finding::{Alert, CollectiveMismatch, Evidence, Fault, Finding, Report};
use analyzer::input::{
    CallInProgress, CodePlace, Input, MpiFacts, MpiKind, PendingRequest, ThreadFacts, ThreadState, Threads,
};
use analyzer::options::Options;
use analyzer::pipeline::Pipeline;
use analyzer::plan::ProbeClass;
use analyzer::wire::{Body, PIECE_WORDS, STACK_ARGUMENTS};

pub const S: u64 = 1_000_000_000;
pub const INT: u64 = 0x4c00_0405;
pub const DOUBLE: u64 = 0x4c00_080b;
pub const FLOAT: u64 = 0x4c00_040a;
pub const LONG: u64 = 0x4c00_0807;
pub const BYTE: u64 = 0x4c00_010d;
pub const SUM: u64 = 0x5800_0003;
pub const MAX: u64 = 0x5800_0001;
/// Handles that tests give out.
pub const DUP: u64 = 0x8400_0001;
pub const OTHER: u64 = 0x8400_0003;
pub const REQUEST: u64 = 0x9800_0001;

/// A job of which only the entries of calls are recorded, but for those that make communicators.
pub struct Entries(pub Job);

impl Entries {
    pub fn begun(ranks: u32) -> Self {
        Self(Job::begun(ranks))
    }

    pub fn enter(&mut self, rank: u32, function: &str, args: [u64; 6], line: u64) {
        let probe = self.0.t.probe(function, ProbeClass::Call);
        let return_address = PROGRAM_AT + 0x100 + 16 * line;
        self.0.t.record(rank, probe, Body::Call { return_address, args, nested: false });
    }

    /// With arguments that lie on the stack.
    pub fn enter_with(&mut self, rank: u32, function: &str, args: [u64; 6], stack: &[u64]) {
        self.enter(rank, function, args, 7);
        let probe = self.0.t.probe(function, ProbeClass::Call);
        let mut words = [0; PIECE_WORDS];
        words[..stack.len()].copy_from_slice(stack);
        let (argument, total_bytes) = (STACK_ARGUMENTS, 8 * stack.len() as u32);
        let body =
            Body::Values { serial: 1, argument, total_bytes, position_bytes: 0, at_return: false, words };
        self.0.t.record(rank, probe, body);
    }

    pub fn barrier(&mut self, rank: u32) {
        self.enter(rank, "MPI_Barrier", [WORLD, 0, 0, 0, 0, 0], 1);
    }

    pub fn broadcast(&mut self, rank: u32, count: u64, datatype: u64, root: u64, comm: u64) {
        self.enter(rank, "MPI_Bcast", [0x1000, count, datatype, root, comm, 0], 2);
    }

    /// The handle that the rank's last call has stored.
    pub fn made(&mut self, rank: u32, function: &str, handle: u64) {
        let probe = self.0.t.probe(function, ProbeClass::Call);
        self.0.t.record(rank, probe, Body::Made { handle });
    }

    /// A duplicate of a communicator, with these handles.
    pub fn duplicate(&mut self, comm: impl Fn(u32) -> u64, handle: impl Fn(u32) -> u64) {
        for rank in 0..self.0.ranks {
            self.0.call(rank, "MPI_Comm_dup", [comm(rank), POINTER, 0, 0, 0, 0], 3, Some((1, handle(rank))));
        }
    }

    pub fn free(&mut self, rank: u32, handle: u64) {
        self.0.begin(rank, "MPI_Comm_free", [POINTER, 0, 0, 0, 0, 0], 4);
        self.0.points(rank, "MPI_Comm_free", 0, false, &[handle as i32]);
        self.0.over(rank, "MPI_Comm_free", None);
    }

    pub fn report(self) -> Report {
        self.0.report()
    }

    /// What is told while it runs, and its report.
    pub fn alerts(self) -> (Vec<Alert>, Report) {
        let mut pipeline = Pipeline::new(Options::default());
        let mut alerts = Vec::new();
        for input in &self.0.t.inputs {
            pipeline.push(input);
            alerts.extend(pipeline.take_alerts());
        }
        (alerts, pipeline.report())
    }

    /// All are found in these calls, again and again, for so long.
    pub fn hang(mut self, seconds: u64, calls: &[(&str, Vec<u64>, u64)]) -> Report {
        let begin = self.0.t.now_ns + S;
        for second in 0..seconds {
            let time_ns = begin + second * S;
            let threads = (0..).zip(calls).map(|(rank, call)| thread(rank, call, second)).collect();
            self.0.t.inputs.push(Input::Threads(Box::new(Threads { time_ns, threads })));
            self.0.t.now_ns = time_ns;
            self.0.t.tick();
        }
        self.alerts().1
    }
}

pub fn thread(rank: u32, (function, arguments, line): &(&str, Vec<u64>, u64), second: u64) -> ThreadFacts {
    let request = PendingRequest { handle: REQUEST, complete: Some(false), ..PendingRequest::default() };
    let waits = function.starts_with("MPI_Wait") || function.starts_with("MPI_Test");
    let call = CallInProgress {
        function: (*function).to_owned(),
        mpi: Some(MpiFacts { kind: MpiKind::Mpich, comm_world: Some(WORLD) }),
        site: Some(CodePlace { file: PROGRAM, offset_bytes: 0x100 + 16 * line }),
        return_slot: 0x7000_0000,
        arguments: arguments.iter().copied().map(Some).collect(),
        requests: if waits { vec![request] } else { Vec::new() },
        ..CallInProgress::default()
    };
    ThreadFacts {
        pid: pid(rank),
        tid: pid(rank),
        state: ThreadState::Running,
        ran_ns: second * S / 2,
        call: Some(call),
        ..ThreadFacts::default()
    }
}

pub fn mismatches(report: &Report) -> Vec<&CollectiveMismatch> {
    report.findings.iter().filter_map(mismatch).collect()
}

pub fn mismatch(finding: &Finding) -> Option<&CollectiveMismatch> {
    match &finding.evidence {
        Evidence::CollectiveMismatch(mismatch) => Some(mismatch),
        _ => None,
    }
}

/// Communicator, which of its calls, and who is at fault.
pub fn told(report: &Report) -> Vec<(String, u64, Vec<u32>)> {
    let of = |mismatch: &CollectiveMismatch| {
        let wrong = mismatch.ranks.iter().filter(|rank| rank.at_fault);
        (mismatch.comm.clone(), mismatch.position, wrong.map(|rank| number(&rank.who)).collect())
    };
    mismatches(report).into_iter().map(of).collect()
}

pub fn number(who: &impl serde::Serialize) -> u32 {
    serde_json::to_value(who).ok().and_then(|who| who["rank"].as_u64()).map_or(u32::MAX, |rank| rank as u32)
}

pub fn hangs(report: &Report) -> Vec<(Fault, Vec<u32>)> {
    let of = |finding: &Finding| match &finding.evidence {
        Evidence::Hang(hang) => Some((hang.fault, finding.who.iter().map(number).collect())),
        _ => None,
    };
    report.findings.iter().filter_map(of).collect()
}
