//! Jobs whose ranks are looked at again and again, and what is told of them.

use crate::common::{Trace, pid};
use analyzer::finding::{Evidence, Fault, Finding, Report, Severity};
use analyzer::input::{
    CallInProgress, CodePlace, CommunicatorFacts, Input, MpiFacts, MpiKind, ThreadFacts, ThreadState, Threads,
};
use analyzer::options::Options;
use analyzer::pipeline::Pipeline;
use analyzer::wire::FileId;

pub const S: u64 = 1_000_000_000;
pub const WORLD: u64 = 0x4400_0000;
pub const ANY: i32 = -2;
pub const WINDOW: u64 = 0xa000_0000;
pub const GROUP: u64 = 0x8800_0001;

/// What one rank is found doing.
#[derive(Clone)]
pub enum At {
    Call(&'static str, Vec<Option<u64>>),
    /// In MPI_Win_start, with what is known of the window and the group.
    Start(Vec<CommunicatorFacts>),
    Computes,
    Sleeps,
    Stopped,
}

pub fn word(value: i32) -> Option<u64> {
    Some(u64::from(value as u32))
}

pub fn receive(source: i32, tag: i32) -> At {
    At::Call("MPI_Recv", vec![Some(0x1000), word(1), word(5), word(source), word(tag), Some(WORLD)])
}

pub fn barrier() -> At {
    At::Call("MPI_Barrier", vec![Some(WORLD)])
}

pub fn thread(rank: u32, at: &At, ran_ns: u64) -> ThreadFacts {
    let file = FileId { dev: 1, inode: 7 };
    let mpi = Some(MpiFacts { kind: MpiKind::Mpich, comm_world: Some(WORLD) });
    let (function, arguments, communicators) = match at {
        At::Call(function, arguments) => (Some(*function), arguments.clone(), Vec::new()),
        At::Start(known) => (Some("MPI_Win_start"), vec![Some(GROUP), word(0), Some(WINDOW)], known.clone()),
        _ => (None, Vec::new(), Vec::new()),
    };
    let call = function.map(|function| CallInProgress {
        function: function.to_owned(),
        mpi,
        site: Some(CodePlace { file, offset_bytes: 0x100 + u64::from(rank) }),
        return_slot: 0x7000_0000,
        arguments,
        communicators,
        ..CallInProgress::default()
    });
    let state = match at {
        At::Stopped => ThreadState::Stopped,
        At::Sleeps => ThreadState::Sleeping,
        _ => ThreadState::Running,
    };
    let frames = vec![CodePlace { file, offset_bytes: 0x10 }];
    ThreadFacts { pid: pid(rank), tid: pid(rank), state, ran_ns, call, frames, cut: None }
}

/// Looks at all ranks every second, so many times.
pub fn looked_at(ranks: &[At], seconds: u64) -> Vec<Input> {
    let mut t = Trace::new(ranks.len() as u32, false);
    let begin = t.now_ns;
    for second in 0..seconds {
        let time_ns = begin + second * S;
        let ran = |at: &At| if matches!(at, At::Sleeps | At::Stopped) { 0 } else { second * S / 2 };
        let threads = (0..).zip(ranks).map(|(rank, at)| thread(rank, at, ran(at))).collect();
        t.inputs.push(Input::Threads(Box::new(Threads { time_ns, threads })));
        t.now_ns = time_ns;
        t.tick();
    }
    t.inputs
}

pub fn run(inputs: &[Input]) -> Report {
    let mut pipeline = Pipeline::new(Options::default());
    inputs.iter().for_each(|input| pipeline.push(input));
    pipeline.report()
}

pub fn faults(report: &Report) -> Vec<(Fault, Severity, Vec<u32>)> {
    let ranks = |finding: &Finding| {
        finding
            .who
            .iter()
            .filter_map(|who| serde_json::to_value(who).ok()?["rank"].as_u64())
            .map(|r| r as u32)
            .collect()
    };
    let fault = |finding: &Finding| match &finding.evidence {
        Evidence::Hang(hang) => Some((hang.fault, finding.severity, ranks(finding))),
        _ => None,
    };
    report.findings.iter().filter_map(fault).collect()
}
