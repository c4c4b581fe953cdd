//! Jobs on several nodes: one that sends round a ring over TCP, and what the session of each node has of a job.

use std::convert::Infallible;

use analyzer::input::{Input, Start};
use analyzer::plan::ProbeClass;
use analyzer::tape::Join;
use analyzer::wire::{Body, RawRecord};

use super::{Trace, pid};

pub const RANKS: u32 = 6;

/// Every rank sends its right neighbour a message over TCP, from a staging buffer. `misplaced`: from beside it. The receive is
/// seen before the send has returned, now and then.
pub fn ring(steps: u64, misplaced: impl Fn(u64, u32) -> bool) -> Vec<Input> {
    let mut t = Trace::new(RANKS, true);
    for rank in 0..RANKS {
        for name in ["data", "staging", "received", "result"] {
            t.heap(rank, name);
        }
    }
    for site in ["stage", "deliver"] {
        t.probe(site, ProbeClass::Copy);
    }
    for step in 0..steps {
        for rank in 0..RANKS {
            message(&mut t, step, rank, misplaced(step, rank));
        }
        t.tick();
    }
    t.end()
}

fn message(t: &mut Trace, step: u64, from: u32, misplaced: bool) {
    const BYTES: u64 = 64;
    let to = (from + 1) % RANKS;
    let slot = step % 8 * 4096;
    let (data, staged) = (t.heap(from, "data"), t.heap(from, "staging") + slot);
    let (received, result) = (t.heap(to, "received") + slot, t.heap(to, "result"));
    t.call(from, "MPI_Send", "main: send");
    t.copy(from, "stage", data, staged, BYTES);
    t.call(to, "MPI_Recv", "main: receive");
    let (sender, receiver) = (t.context_of(from), t.context_of(to));
    let sent_from = if misplaced { staged + 1024 } else { staged };
    let stream = 100 + u64::from(from);
    let (position, len_bytes) = ((step * BYTES) as u32, BYTES as u32);
    let write =
        Body::Stream { addr: sent_from, stream, position, len_bytes, receive: false, context: sender };
    let read = Body::Stream { addr: received, stream, position, len_bytes, receive: true, context: receiver };
    t.record(from, 0, write);
    t.record(to, 0, read);
    t.copy(to, "deliver", received, result, BYTES);
}

/// The same input by a clock that shows so much more.
pub fn shifted(input: &Input, by_ns: i64) -> Input {
    let time = |time_ns: u64| time_ns.wrapping_add_signed(by_ns);
    let mut input = input.clone();
    match &mut input {
        Input::Record(raw) => {
            let mut words = raw.words().to_vec();
            words[0] = time(words[0]);
            *raw = RawRecord::from_words(&words).expect("as many words");
        }
        Input::Process(facts) => facts.time_ns = time(facts.time_ns),
        Input::Tick { time_ns } => *time_ns = time(*time_ns),
        Input::End(end) => end.time_ns = time(end.time_ns),
        Input::Loss(loss) => (loss.from_ns, loss.to_ns) = (time(loss.from_ns), time(loss.to_ns)),
        Input::Start(start) => start.time_ns = time(start.time_ns),
        Input::Plan(_) | Input::Symbols(_) => {}
        Input::Threads(threads) => threads.time_ns = time(threads.time_ns),
        Input::Coverage(coverage) => coverage.time_ns = time(coverage.time_ns),
        Input::LateRecord(raw) => {
            let mut words = raw.words().to_vec();
            words[0] = time(words[0]);
            *raw = RawRecord::from_words(&words).expect("as many words");
        }
        other => panic!("not in these jobs: {other:?}"),
    }
    input
}

/// What the session of one node has of a job: its processes, by the clock of the node.
pub fn part(inputs: &[Input], node: usize, nodes: &[usize], clock_ns: i64) -> Vec<Input> {
    let is_here = |of: u32| nodes[(of - pid(0)) as usize] == node;
    let here = inputs.iter().filter(|input| match input {
        Input::Record(record) | Input::LateRecord(record) => is_here(record.pid()),
        Input::Process(facts) => is_here(facts.pid),
        Input::Loss(loss) => is_here(loss.pid),
        _ => true,
    });
    let mut part: Vec<Input> = here.map(|input| shifted(input, clock_ns)).collect();
    for input in &mut part {
        if let Input::Threads(threads) = input {
            threads.threads.retain(|thread| is_here(thread.pid));
        }
    }
    let Some(Input::Start(start)) = part.first_mut() else { panic!("no start") };
    // All nodes have the same time of day.
    (start.wall_clock_s, start.host) = (WALL_CLOCK_S, format!("node{node}"));
    part
}

/// When all sessions begin, seconds since 1970.
pub const WALL_CLOCK_S: u64 = 1_700_000_000;

/// A session that begins when those of all nodes do.
pub fn at_that_time(mut inputs: Vec<Input>) -> Vec<Input> {
    let Some(Input::Start(start)) = inputs.first_mut() else { panic!("no start") };
    start.wall_clock_s = WALL_CLOCK_S;
    inputs
}

pub fn start_of(tape: &[Input]) -> Start {
    let Some(Input::Start(start)) = tape.first() else { panic!("no start") };
    (**start).clone()
}

pub fn joined(tapes: Vec<Vec<Input>>) -> Vec<Input> {
    let starts: Vec<Start> = tapes.iter().map(|tape| start_of(tape)).collect();
    let join = Join::new(&starts).expect("a few nodes");
    let mut tapes: Vec<_> = tapes.into_iter().map(Vec::into_iter).collect();
    let mut all = Vec::new();
    let take = |input: &Input| {
        all.push(input.clone());
        Ok(())
    };
    join.run::<Infallible>(|node| Ok(tapes[node].next()), take).expect("it cannot fail");
    all
}
