//! How many records a second the pipeline takes: a halo exchange over shared memory.
//!
//! `cargo run --release --example throughput [MILLIONS]`

use std::time::Instant;

use analyzer::input::{End, Input, Mapping, ProcessFacts};
use analyzer::options::Options;
use analyzer::pipeline::Pipeline;
use analyzer::plan::{Place, Plan, Probe, ProbeClass};
use analyzer::wire::{Body, CallContext, FileId, Header, Record};

const SEGMENT_BYTES: u64 = 1 << 22;
const HEAP: u64 = 1 << 24;
/// Every so many steps a rank gives a buffer back and asks for it again.
const STEPS_PER_ALLOC: u64 = 8;

fn main() {
    let millions: usize = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(3);
    for ranks in [4, 64] {
        measure(ranks, millions * 1_000_000);
    }
}

fn measure(ranks: u32, records: usize) {
    let inputs = job(ranks, records);
    let mut pipeline = Pipeline::new(Options::default());
    let begin_ns = processor_ns();
    let mut slowest_tick = std::time::Duration::ZERO;
    for input in &inputs {
        let before = matches!(input, Input::Tick { .. }).then(Instant::now);
        pipeline.push(input);
        slowest_tick = slowest_tick.max(before.map_or(slowest_tick, |b| b.elapsed()));
    }
    let seconds = (processor_ns() - begin_ns) as f64 / 1e9;
    let report = pipeline.report();
    println!(
        "{ranks:>3} ranks: {:.2} million records/s of processor time ({ns:.0} ns each; {} chains in {} groups, {} pending, {} findings, slowest tick {:.1} ms)",
        inputs.len() as f64 / seconds / 1e6,
        report.statistics.chains,
        report.statistics.groups,
        report.statistics.pending_operations,
        report.findings.len(),
        slowest_tick.as_secs_f64() * 1e3,
        ns = seconds * 1e9 / inputs.len() as f64,
    );
}

/// Processor time that this thread has had: unlike the clock, it does not count other programs.
fn processor_ns() -> u64 {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("a kernel with schedstat");
    schedstat.split(' ').next().and_then(|first| first.parse().ok()).expect("nanoseconds come first")
}

fn job(ranks: u32, records: usize) -> Vec<Input> {
    let mut job = Job { inputs: vec![], now_ns: 0 };
    job.inputs.push(Input::Start(Box::default()));
    job.inputs.extend((0..ranks).map(facts));
    job.inputs.push(Input::Plan(Box::new(plan())));
    let mut step = 0;
    while job.inputs.len() < records {
        job.step(ranks, step);
        step += 1;
    }
    job.inputs.push(Input::End(End { time_ns: job.now_ns, ..End::default() }));
    job.inputs
}

struct Job {
    inputs: Vec<Input>,
    now_ns: u64,
}

impl Job {
    fn record(&mut self, rank: u32, probe: u32, body: Body) {
        self.now_ns += 300;
        let header = Header { time_ns: self.now_ns, pid: 1000 + rank, tid: 1000 + rank, probe };
        self.inputs.push(Input::Record(Record { header, body }.encode()));
    }

    /// Each rank sends a header and a payload to both neighbours, and they copy it out.
    fn step(&mut self, ranks: u32, step: u64) {
        for rank in 0..ranks {
            for side in 0..2u64 {
                self.send(rank, side, step);
            }
        }
        for rank in 0..ranks {
            for side in 0..2u64 {
                let from = if side == 0 { (rank + 1) % ranks } else { (rank + ranks - 1) % ranks };
                self.receive(rank, from, side, step);
            }
            if step % STEPS_PER_ALLOC == u64::from(rank) % STEPS_PER_ALLOC {
                self.record(rank, 7, Body::Free { addr: HEAP + 0x9000, caller: 0x1100 });
                let block = Body::Alloc { addr: HEAP + 0x9000, size_bytes: 4096, old: 0, caller: 0x1200 };
                self.record(rank, 6, block);
            }
        }
        if step % 512 == 511 {
            self.inputs.push(Input::Tick { time_ns: self.now_ns });
        }
    }

    fn send(&mut self, rank: u32, side: u64, step: u64) {
        let context = CallContext { return_address: 0x1005, probe: 5, serial: step as u32 };
        let call = Body::Call { return_address: 0x1005, args: [0; 6], nested: false };
        self.record(rank, 5, call);
        let (user, stage) = (HEAP + side * 8192, HEAP + 0x8000 + side * 0x1000);
        self.record(rank, 4, Body::Copy { dst: stage, src: user, len_bytes: 1024, context });
        let slot = segment(rank) + slot(rank, side, step);
        self.record(rank, 1, Body::Copy { dst: slot, src: 0x7fff_0000, len_bytes: 14, context });
        self.record(rank, 2, Body::Copy { dst: slot + 14, src: stage, len_bytes: 1024, context });
    }

    fn receive(&mut self, rank: u32, from: u32, side: u64, step: u64) {
        let context = CallContext { return_address: 0x1025, probe: 5, serial: step as u32 };
        let slot = segment(rank) + slot(from, side, step);
        let user = HEAP + 0x20000 + side * 8192;
        self.record(rank, 3, Body::Copy { dst: user, src: slot + 14, len_bytes: 1024, context });
    }
}

/// Where the segment is mapped in a rank.
fn segment(rank: u32) -> u64 {
    0x7000_0000_0000 + u64::from(rank) * 0x1000_0000
}

/// A message's place in the segment: a ring of 16 slots for each sender and side.
fn slot(rank: u32, side: u64, step: u64) -> u64 {
    (u64::from(rank) * 32 + side * 16 + step % 16) * 2048 % SEGMENT_BYTES
}

fn facts(rank: u32) -> Input {
    let map = |start: u64, len: u64, inode: u64, shared, exec, name: &str| Mapping {
        start,
        end: start + len,
        file: FileId { dev: 1, inode },
        shared,
        exec,
        name: name.into(),
        ..Mapping::default()
    };
    Input::Process(Box::new(ProcessFacts {
        pid: 1000 + rank,
        namespace_pid: 1000 + rank,
        rank: Some(rank),
        mappings: vec![
            map(0x1000, 0x10000, 7, false, true, "/bin/job"),
            map(HEAP, 0x100_0000, 0, false, false, "[heap]"),
            map(segment(rank), SEGMENT_BYTES, 9, true, false, "/dev/shm/vader_segment.0"),
            map(0x7fff_0000, 0x10000, 0, false, false, "[stack]"),
        ],
        ..ProcessFacts::default()
    }))
}

fn plan() -> Plan {
    let probe = |(id, class, function): (u32, ProbeClass, &str)| Probe {
        id,
        file: FileId { dev: 1, inode: 7 },
        offset_bytes: u64::from(id) * 64,
        site_offset_bytes: u64::from(id) * 64,
        class,
        function: function.into(),
        place: Place::Call,
        stack_bytes: 0,
        argument: 0,
        reason: String::new(),
    };
    let probes = [
        (1, ProbeClass::Copy, "header"),
        (2, ProbeClass::Copy, "payload"),
        (3, ProbeClass::Copy, "deliver"),
        (4, ProbeClass::Copy, "stage"),
        (5, ProbeClass::Call, "MPI_Sendrecv"),
        (6, ProbeClass::Alloc, "malloc"),
        (7, ProbeClass::Free, "free"),
    ];
    Plan { probes: probes.map(probe).into(), ..Plan::default() }
}
