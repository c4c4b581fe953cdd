//! Any input is taken; the same inputs give the same words.

use crate::common::random::{options, step, trace};
use crate::common::{HEAP_AT, PROGRAM_AT, segment_at};
use analyzer::finding::Alert;
use analyzer::input::{End, Input, Loss, Mapping, ProcessFacts};
use analyzer::pipeline::Pipeline;
use analyzer::render::{self, Style};
use analyzer::symbols::SymbolTable;
use analyzer::wire::{FileId, RawRecord};
use proptest::prelude::*;

fn number() -> impl Strategy<Value = u64> {
    let edges =
        [0, 1, 2, 64, u64::MAX, u64::MAX - 7, 1 << 63, 1 << 32, HEAP_AT, PROGRAM_AT + 0x105, 1000, 1001];
    prop_oneof![
        4 => proptest::sample::select(edges.to_vec()),
        1 => (0..64u64).prop_map(|n| HEAP_AT + n),
        1 => (0..64u64).prop_map(|n| segment_at(1) + n),
        1 => any::<u64>(),
    ]
}

/// Words that mostly decode, with values from anywhere.
fn record() -> impl Strategy<Value = RawRecord> {
    let lengths = [3usize, 8, 9, 9, 10, 3, 7, 5, 8, 5, 4, 4, 4, 3];
    (0..14u64, 0..3u64, 0..3u64, any::<bool>(), proptest::collection::vec(number(), 10)).prop_map(
        move |(kind, pid, probe, flag, mut words)| {
            words[1] = (1000 + pid) | ((1000 + probe) << 32);
            words[2] = kind | (u64::from(flag) << 16) | (probe << 32);
            words.truncate(lengths[kind as usize]);
            RawRecord::from_words(&words).expect("of a right length")
        },
    )
}

fn mapping() -> impl Strategy<Value = Mapping> {
    (number(), number(), number(), 0..3u64, any::<bool>(), any::<bool>(), 0..4usize).prop_map(
        |(start, end, offset_bytes, inode, shared, exec, name)| Mapping {
            start,
            end,
            offset_bytes,
            file: FileId { dev: 1, inode },
            shared,
            exec,
            name: ["", "[heap]", "[stack]", "/dev/shm/é.1"][name].into(),
        },
    )
}

fn input() -> impl Strategy<Value = Input> {
    prop_oneof![
        20 => record().prop_map(Input::Record),
        2 => record().prop_map(Input::LateRecord),
        1 => number().prop_map(|time_ns| Input::Tick { time_ns }),
        1 => (number(), number(), 0..2u64, 0..2u64, 0..2u64).prop_map(|(from_ns, to_ns, movements, calls, state)| {
            let [movements, calls] = [movements, calls].map(|lost| lost * u64::MAX);
            Input::Loss(Loss { pid: 1000, from_ns, to_ns, movements, calls, state })
        }),
        2 => (0..3u32, proptest::option::of(0..3u32), proptest::collection::vec(mapping(), 0..6)).prop_map(
            |(n, rank, mappings)| Input::Process(Box::new(ProcessFacts {
                pid: 1000 + n,
                namespace_pid: n,
                rank,
                mappings,
                ..ProcessFacts::default()
            }))
        ),
        1 => number().prop_map(|time_ns| Input::End(End { time_ns, ..End::default() })),
    ]
}

proptest! {
    #[test]
    fn nothing_that_is_pushed_can_stop_it(inputs in proptest::collection::vec(input(), 0..80)) {
        let mut pipeline = Pipeline::with_timeline(options(), 20);
        inputs.iter().for_each(|input| pipeline.push(input));
        let report = pipeline.report();
        let page = pipeline.page_with(report.clone(), &SymbolTable::default()).expect("a timeline was asked for");
        serde_json::to_string(&page).expect("a page has a JSON form");
        render::report(&report, Style::default());
        render::statistics(&report.statistics, Style { colour: true, all: true });
        serde_json::to_string(&report).expect("a report has a JSON form");
    }

    #[test]
    fn the_same_inputs_give_the_same_words(steps in proptest::collection::vec(step(), 1..120), looks in 1..40usize) {
        let inputs: Vec<Input> = ticking(trace(&steps, false));
        let (quiet, watched) = (words(&inputs, usize::MAX), words(&inputs, looks));
        prop_assert_eq!(quiet, watched);
    }
}

/// A tick after every 20 inputs.
fn ticking(inputs: Vec<Input>) -> Vec<Input> {
    let mut out = Vec::new();
    let mut now_ns = 0;
    for (at, input) in inputs.into_iter().enumerate() {
        if let Input::Record(raw) = &input {
            now_ns = raw.time_ns();
        }
        out.push(input);
        if at % 20 == 19 {
            out.push(Input::Tick { time_ns: now_ns });
        }
    }
    out
}

/// Report, alerts, and the wanted symbols. Someone asks for the report every `looks` inputs.
fn words(inputs: &[Input], looks: usize) -> (String, Vec<Alert>, String) {
    let mut pipeline = Pipeline::new(options());
    let mut alerts = Vec::new();
    for (at, input) in inputs.iter().enumerate() {
        pipeline.push(input);
        alerts.extend(pipeline.take_alerts());
        if at % looks == looks - 1 {
            pipeline.report();
            pipeline.wanted_symbols();
        }
    }
    let report = pipeline.report();
    let json = serde_json::to_string(&report).expect("a report has a JSON form");
    (json, alerts, format!("{:?}", pipeline.wanted_symbols()))
}
