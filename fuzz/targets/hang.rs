//! Ranks that stand still, many of them, with many requests and communicators: the analysis of hangs neither panics nor takes
//! more than its steps, the report is JSON and can be shown, and nothing in it does anything to a terminal.

#![no_main]

use analyzer::input::{Input, MpiKind, ProcessFacts, Threads};
use analyzer::options::Options;
use analyzer::pipeline::Pipeline;
use analyzer::visible::has_effect;
use dmscope_fuzz::bytes::Bytes;
use dmscope_fuzz::limits::within_a_second;
use dmscope_fuzz::looks;
use libfuzzer_sys::fuzz_target;

const S: u64 = 1_000_000_000;
/// So often they are found in the same places.
const LOOKS: u64 = 12;

/// Threads of many processes, each like one that was made of bytes.
fn crowd(bytes: &mut Bytes<'_>, kind: MpiKind) -> Threads {
    let ranks = [1, 3, 40, 400][usize::from(bytes.next() & 3)];
    let repeat = [1, 2, 16, 200][usize::from(bytes.next() & 3)];
    let look = looks::look(bytes, kind, S);
    let threads = (0..ranks).map(|rank| {
        let mut thread = look.threads[rank as usize % look.threads.len()].clone();
        (thread.pid, thread.tid) = (10 + rank, 10 + rank);
        if let Some(call) = &mut thread.call {
            call.requests = vec![call.requests.clone(); repeat].concat();
            call.communicators = vec![call.communicators.clone(); repeat.min(16)].concat();
        }
        thread
    });
    Threads { time_ns: S, threads: threads.collect() }
}

/// Gives its inputs one by one: all at once would be larger than what is tested.
fn session(bytes: &[u8], mut take: impl FnMut(Input)) {
    let mut bytes = Bytes(bytes);
    let kind = [MpiKind::OpenMpi, MpiKind::Mpich][usize::from(bytes.next() & 1)];
    let mut found = crowd(&mut bytes, kind);
    let size = found.threads.len() as u32;
    for rank in 0..size {
        let pid = 10 + rank;
        let rank = Some(rank);
        let facts =
            ProcessFacts { pid, namespace_pid: pid, rank, size: Some(size), ..ProcessFacts::default() };
        take(Input::Process(Box::new(facts)));
    }
    for look in 0..LOOKS {
        let time_ns = S + look * S;
        let next = looks::again(&found, time_ns + S);
        take(Input::Threads(Box::new(std::mem::replace(&mut found, next))));
        take(Input::Tick { time_ns });
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut pipeline = Pipeline::new(Options::default());
    // Each look is an evaluation, and it is an evaluation that has so many steps.
    session(bytes, |input| within_a_second(|| pipeline.push(&input)));
    within_a_second(|| {
        let report = pipeline.report();
        serde_json::to_string(&report).expect("a report is JSON");
        let text = analyzer::render::report(&report, analyzer::render::Style::default());
        assert!(!text.contains(|c| c != '\n' && has_effect(c)), "{text:?}");
    });
});
