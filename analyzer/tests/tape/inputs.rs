//! Arbitrary inputs.

use analyzer::input::{
    End, Frame, HitKind, HitPrice, Input, Loss, Mapping, MpiKind, OwnTime, ProbeCosts, ProcessFacts,
    Quantiles, Start, StrangerCost, Symbol, UnrecordedHits,
};
use analyzer::plan::{
    Datatype, LeftOut, MpiObjects, NamedObject, Plan, PlannedFile, Probe, ProbeClass, ProbePlace, Read,
    ReadCount, Results, SentBuffers,
};
use analyzer::tape::Digest;
use analyzer::wire::{FileId, HEADER_WORDS, MAX_WORDS, RawRecord};
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
                alloc_min_bytes: 4096,
                dmscope_version,
                host,
                kernel,
                time_ns,
                wall_clock_s,
                wall_clock_rest_ns: 7,
                wall_clock_error_ns: None,
                node_clock_errors_ns: Vec::new(),
                nodes: Vec::new(),
                sums: wall_clock_s % 2 == 0,
                job,
                launched,
            }))
        },
    )
}

fn results(id: u32) -> Results {
    let read = Read { argument: 3, at_return: true, element_bytes: 24, count: ReadCount::Behind(id as u8) };
    let buffers =
        id.is_multiple_of(2).then_some(SentBuffers::Sent { buffer: 0, count: 1, datatype: 2, request: 6 });
    Results { reads: vec![read], stack_arguments: id, answer: Some(2), buffers }
}

fn probe() -> impl Strategy<Value = Probe> {
    let class = prop::sample::select(vec![ProbeClass::Copy, ProbeClass::PollSuccess, ProbeClass::Free]);
    let place =
        prop::sample::select(vec![ProbePlace::Nop5, ProbePlace::ConditionalJump, ProbePlace::SingleStep]);
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
            results: (id % 3 == 0).then(|| results(id)),
            reason,
        },
    )
}

fn plan() -> impl Strategy<Value = Input> {
    let planned = (file(), text(), prop::option::of(text()), text(), any::<bool>()).prop_map(
        |(id, path, build_id, role, own)| PlannedFile {
            id,
            path,
            build_id,
            role,
            own,
            mpi: (id.inode % 2 == 0).then_some(MpiObjects {
                kind: MpiKind::OpenMpi,
                comm_world: Some(id.inode),
                complete_request: None,
            }),
            datatypes: (id.inode % 3 == 0)
                .then_some(Datatype { object: id.inode, size_bytes: id.inode as u8, group: None })
                .into_iter()
                .collect(),
            operations: (id.inode % 5 == 0)
                .then(|| NamedObject { object: id.inode, name: "MPI_SUM".into() })
                .into_iter()
                .collect(),
        },
    );
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

fn digest() -> impl Strategy<Value = Input> {
    let numbers = (any::<u32>(), number(), number(), number());
    let lists = (
        prop::collection::vec(any::<u32>(), 0..3),
        prop::collection::vec(file(), 0..3),
        prop::collection::vec(any::<u32>(), 0..3),
    );
    (numbers, lists, prop::collection::vec(any::<u8>(), 0..40)).prop_map(
        |((node, session, number, time_ns), (pids, files, probes), content)| {
            Input::Digest(Box::new(Digest { node, session, number, time_ns, pids, files, probes, content }))
        },
    )
}

fn strangers() -> impl Strategy<Value = StrangerCost> {
    let classes = prop::sample::select(vec![ProbeClass::Copy, ProbeClass::CallResults, ProbeClass::Free]);
    let numbers = any::<(u64, u64, u64, u64)>();
    let hits = prop::collection::btree_map(classes, any::<u64>(), 0..3);
    (numbers, hits).prop_map(|((processes, of_other_users, counted_ns, cost_ns), hits)| StrangerCost {
        processes,
        of_other_users,
        counted_ns,
        hits,
        cost_ns,
    })
}

fn quantiles() -> impl Strategy<Value = Quantiles> {
    any::<(u32, u32, u32, u32, u32)>().prop_map(|(p5, p25, p50, p75, p95)| Quantiles {
        p5,
        p25,
        p50,
        p75,
        p95,
    })
}

fn costs() -> impl Strategy<Value = Input> {
    let kind = prop::sample::select(vec![HitKind::Copy, HitKind::CallValues, HitKind::Refused]);
    let price = (kind, any::<(u32, u32)>(), quantiles(), quantiles(), quantiles()).prop_map(
        |(kind, (between_bytes, hits), before, inside, after)| HitPrice {
            kind,
            between_bytes,
            hits,
            before,
            inside,
            after,
        },
    );
    let own_time = prop::sample::select(vec![OwnTime::Unknown, OwnTime::Recorded, OwnTime::Apart]);
    (any::<(u32, u32)>(), own_time, number(), prop::collection::vec(price, 0..3)).prop_map(
        |((node, job_cpus), own_time, time_ns, hits)| {
            let program_runs = vec![];
            Input::ProbeCosts(Box::new(ProbeCosts { node, time_ns, job_cpus, own_time, hits, program_runs }))
        },
    )
}

fn unrecorded() -> impl Strategy<Value = Input> {
    any::<(u32, u64, u64, u64, u64, u64)>().prop_map(|(pid, from_ns, to_ns, lost, declined, refused)| {
        Input::Unrecorded(UnrecordedHits { pid, from_ns, to_ns, lost, declined, refused })
    })
}

/// Any input.
pub fn any_input() -> impl Strategy<Value = Input> {
    let loss = (any::<u32>(), any::<(u64, u64, u64, u64, u64)>()).prop_map(
        |(pid, (from_ns, to_ns, movements, calls, state))| {
            Input::Loss(Loss { pid, from_ns, to_ns, movements, calls, state })
        },
    );
    let end = (number(), text(), prop::collection::vec(probe(), 0..2), prop::option::of(strangers()));
    let end = end.prop_map(|(time_ns, reason, failed_probes, strangers)| {
        Input::End(End { time_ns, reason, failed_probes, strangers: strangers.map(Box::new) })
    });
    prop_oneof![
        20 => record().prop_map(Input::Record),
        3 => record().prop_map(Input::LateRecord),
        2 => number().prop_map(|time_ns| Input::Tick { time_ns }),
        1 => loss,
        1 => start(),
        1 => process(),
        1 => plan(),
        1 => symbols(),
        1 => digest(),
        1 => costs(),
        1 => unrecorded(),
        1 => end,
    ]
}
