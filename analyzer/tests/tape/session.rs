//! A small session with every kind of input.

use analyzer::input::{ClockReading, End, Frame, Input, Loss, Mapping, ProcessFacts, Start, Symbol};
use analyzer::plan::{Plan, Probe, ProbeClass, ProbePlace};
use analyzer::tape::Digest;
use analyzer::wire::{Body, CallContext, FileId, Header, RawRecord, Record};

/// One copy.
pub fn copy(time_ns: u64, pid: u32, dst: u64) -> Input {
    let context = CallContext { return_address: 0x40_1234, probe: 7, serial: (time_ns / 100) as u32 };
    let header = Header { time_ns, pid, tid: pid, probe: 3 };
    Input::Record(
        Record { header, body: Body::Copy { dst, src: dst + 4096, len_bytes: 64, context } }.encode(),
    )
}

fn alloc(time_ns: u64, pid: u32) -> Input {
    let header = Header { time_ns, pid, tid: pid + 1, probe: 4 };
    let body = Body::Alloc { addr: 0x1000, size_bytes: 8192, old: 0, caller: 0x40_2000 };
    Input::Record(Record { header, body }.encode())
}

/// A session of two processes with every kind of input: eight groups, each to be flushed
/// into frames of its own.
pub fn small_session() -> Vec<Vec<Input>> {
    let process = |pid, rank| {
        Input::Process(Box::new(ProcessFacts {
            pid,
            namespace_pid: pid,
            pid_namespace: 4_026_531_836,
            rank: Some(rank),
            size: Some(2),
            exe: "/usr/bin/halo".into(),
            mappings: vec![Mapping { start: 0x40_0000, end: 0x50_0000, exec: true, ..Mapping::default() }],
            time_ns: 1_100,
        }))
    };
    let start = Start {
        alloc_min_bytes: 0,
        dmscope_version: "0.1.0".into(),
        host: "node1".into(),
        kernel: "6.12.0".into(),
        time_ns: 1_000,
        wall_clock_s: 1_700_000_000,
        wall_clock_rest_ns: 0,
        wall_clock_error_ns: None,
        node_clock_errors_ns: Vec::new(),
        nodes: Vec::new(),
        sums: false,
        job: "mpirun -n 2 halo".into(),
        launched: true,
    };
    let probe = Probe {
        id: 3,
        file: FileId { dev: 5, inode: 6 },
        offset_bytes: 0x1234,
        site_offset_bytes: 0x1230,
        class: ProbeClass::Copy,
        function: "memcpy".into(),
        place: ProbePlace::Nop,
        stack_bytes: 0,
        argument: 0,
        results: None,
        reason: "cheapest place before the call".into(),
    };
    let symbol = Symbol {
        file: FileId { dev: 5, inode: 6 },
        offset_bytes: 0x1230,
        frames: vec![Frame { function: "exchange".into(), source: Some("halo.c".into()), line: Some(42) }],
    };
    let copies = |from: u64| (0..5).map(move |i| copy(from + 10 * i, 10 + (i % 2) as u32, 0x7000 + 64 * i));
    let late = |input| match input {
        Input::Record(record) => Input::LateRecord(record),
        other => other,
    };
    let unknown = RawRecord::from_words(&[3_000, 10, 999, 1, 2]).expect("five words are a record");
    vec![
        vec![
            Input::Start(Box::new(start)),
            process(10, 0),
            process(11, 1),
            Input::Plan(Box::new(Plan { probes: vec![probe.clone()], ..Plan::default() })),
        ],
        copies(2_000).chain([alloc(2_100, 10), Input::Tick { time_ns: 2_200 }]).collect(),
        copies(3_000).chain([Input::Record(unknown), late(copy(2_500, 11, 0x100))]).collect(),
        vec![Input::Symbols(vec![symbol])],
        copies(4_000).collect(),
        vec![Input::Loss(Loss { pid: 10, from_ns: 4_100, to_ns: 4_200, movements: 7, calls: 2, state: 1 })],
        copies(5_000).collect(),
        vec![Input::End(End {
            time_ns: 6_000,
            reason: "job ended".into(),
            failed_probes: vec![probe],
            strangers: None,
        })],
    ]
}

/// The same, of several nodes whose agents counted what happened.
pub fn small_session_of_nodes() -> Vec<Vec<Input>> {
    let mut groups = small_session();
    if let Input::Start(start) = &mut groups[0][0] {
        (start.sums, start.nodes) = (true, vec!["node1".into(), "node2".into()]);
    }
    let digest = |node: u32, number: u64| {
        Input::Digest(Box::new(Digest {
            node,
            session: 1_700_000_000_000_000_000,
            number,
            time_ns: 5_500 + number,
            pids: vec![10, 11],
            files: vec![FileId { dev: 5, inode: 6 }],
            probes: vec![3],
            content: vec![1, 2, 3, node as u8],
        }))
    };
    let clocks =
        ClockReading { node: 1, time_ns: 5_499, wall_clock_ns: 1_700_000_000_000_000_099, error_ns: Some(7) };
    groups.insert(7, vec![Input::Clock(clocks), digest(0, 0), digest(1, 0), digest(0, 1)]);
    groups
}
