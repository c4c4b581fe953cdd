//! Inputs for tests: arbitrary ones, and a small session.

use analyzer::input::{End, Frame, Input, Loss, Mapping, ProcessFacts, Start, Symbol};
use analyzer::plan::{LeftOut, Place, Plan, PlannedFile, Probe, ProbeClass};
use analyzer::wire::{Body, CallContext, FileId, HEADER_WORDS, Header, MAX_WORDS, RawRecord, Record};
use proptest::prelude::*;

/// Numbers as they come: small, near each other, or anything.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0_u64..4, 0x7f00_0000_0000_u64..0x7f00_0000_1000, any::<u64>()]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "[a-z/_]{1,12}", any::<String>()]
}

fn record() -> impl Strategy<Value = RawRecord> {
    let any_words = prop::collection::vec(number(), HEADER_WORDS..=MAX_WORDS);
    prop_oneof![
        3 => (any_words, 0_u64..3, 0_u64..16).prop_map(|(mut words, thread, kind)| {
            words[1] = thread;
            words[2] = kind;
            words
        }),
        1 => prop::collection::vec(number(), HEADER_WORDS..=MAX_WORDS),
    ]
    .prop_map(|words| RawRecord::from_words(&words).expect("a length within the limits"))
}

fn file() -> impl Strategy<Value = FileId> {
    (any::<u32>(), any::<u64>()).prop_map(|(dev, inode)| FileId { dev, inode })
}

fn mapping() -> impl Strategy<Value = Mapping> {
    (number(), number(), number(), file(), any::<(bool, bool)>(), text()).prop_map(
        |(start, end, offset_bytes, file, (shared, exec), name)| Mapping {
            start,
            end,
            offset_bytes,
            file,
            shared,
            exec,
            name,
        },
    )
}

fn process() -> impl Strategy<Value = Input> {
    let ids = any::<(u32, u32, u64, Option<u32>, Option<u32>)>();
    (ids, text(), prop::collection::vec(mapping(), 0..4), number()).prop_map(
        |((pid, namespace_pid, pid_namespace, rank, size), exe, mappings, time_ns)| {
            Input::Process(Box::new(ProcessFacts {
                pid,
                namespace_pid,
                pid_namespace,
                rank,
                size,
                exe,
                mappings,
                time_ns,
            }))
        },
    )
}

fn start() -> impl Strategy<Value = Input> {
    (text(), text(), text(), number(), number(), text(), any::<bool>()).prop_map(
        |(dmscope_version, host, kernel, time_ns, wall_clock_s, job, launched)| {
            Input::Start(Box::new(Start {
                dmscope_version,
                host,
                kernel,
                time_ns,
                wall_clock_s,
                job,
                launched,
            }))
        },
    )
}

fn probe() -> impl Strategy<Value = Probe> {
    let class = prop::sample::select(vec![ProbeClass::Copy, ProbeClass::PollSuccess, ProbeClass::Free]);
    let place = prop::sample::select(vec![Place::Nop5, Place::ConditionalJump, Place::SingleStep]);
    (any::<(u32, u32)>(), file(), number(), number(), class, place, text(), text()).prop_map(
        |((id, stack_bytes), file, offset_bytes, site_offset_bytes, class, place, function, reason)| Probe {
            id,
            file,
            offset_bytes,
            site_offset_bytes,
            class,
            function,
            place,
            stack_bytes,
            argument: offset_bytes >> 7,
            reason,
        },
    )
}

fn plan() -> impl Strategy<Value = Input> {
    let planned = (file(), text(), prop::option::of(text()), text())
        .prop_map(|(id, path, build_id, role)| PlannedFile { id, path, build_id, role });
    let left_out = (file(), any::<Option<u64>>(), text(), text())
        .prop_map(|(file, offset_bytes, what, reason)| LeftOut { file, offset_bytes, what, reason });
    (
        prop::collection::vec(planned, 0..3),
        prop::collection::vec(probe(), 0..3),
        prop::collection::vec(left_out, 0..3),
    )
        .prop_map(|(files, probes, left_out)| Input::Plan(Box::new(Plan { files, probes, left_out })))
}

fn symbols() -> impl Strategy<Value = Input> {
    let frame = (text(), prop::option::of(text()), any::<Option<u32>>())
        .prop_map(|(function, source, line)| Frame { function, source, line });
    let symbol = (file(), any::<u64>(), prop::collection::vec(frame, 0..3))
        .prop_map(|(file, offset_bytes, frames)| Symbol { file, offset_bytes, frames });
    prop::collection::vec(symbol, 0..3).prop_map(Input::Symbols)
}

/// Any input.
pub fn any_input() -> impl Strategy<Value = Input> {
    let loss = (any::<u32>(), any::<(u64, u64, u64, u64)>()).prop_map(
        |(pid, (from_ns, to_ns, movements, state))| {
            Input::Loss(Loss { pid, from_ns, to_ns, movements, state })
        },
    );
    let end = (number(), text(), prop::collection::vec(probe(), 0..2))
        .prop_map(|(time_ns, reason, failed_probes)| Input::End(End { time_ns, reason, failed_probes }));
    prop_oneof![
        20 => record().prop_map(Input::Record),
        3 => record().prop_map(Input::LateRecord),
        2 => number().prop_map(|time_ns| Input::Tick { time_ns }),
        1 => loss,
        1 => start(),
        1 => process(),
        1 => plan(),
        1 => symbols(),
        1 => end,
    ]
}

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
        dmscope_version: "0.1.0".into(),
        host: "node1".into(),
        kernel: "6.12.0".into(),
        time_ns: 1_000,
        wall_clock_s: 1_700_000_000,
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
        place: Place::Nop,
        stack_bytes: 0,
        argument: 0,
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
        vec![Input::Loss(Loss { pid: 10, from_ns: 4_100, to_ns: 4_200, movements: 7, state: 1 })],
        copies(5_000).collect(),
        vec![Input::End(End { time_ns: 6_000, reason: "job ended".into(), failed_probes: vec![probe] })],
    ]
}
