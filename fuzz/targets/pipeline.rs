//! Any session: the pipeline does not panic, its report is proper JSON and can be shown, and a
//! recording of the session gives the same report.

#![no_main]

use analyzer::input::Input;
use analyzer::options::Options;
use analyzer::pipeline::Pipeline;
use analyzer::tape::{Item, Reader, Writer};
use dmscope_fuzz::session::session_of;
use dmscope_fuzz::limits::within_a_second;
use libfuzzer_sys::fuzz_target;

/// Everything small, so that a few dozen records come to findings.
fn options() -> Options {
    Options {
        uniqueness_threshold: Some(2),
        min_frequent: 2,
        warm_up_chains: 4,
        max_age_ops: 64,
        max_chain_ops: 5,
        min_chains_per_rank: 2,
        ..Options::default()
    }
}

fn report_of<'a>(inputs: impl IntoIterator<Item = &'a Input>) -> String {
    let mut pipeline = Pipeline::new(options());
    let mut alerts = 0;
    for input in inputs {
        pipeline.push(input);
        alerts += pipeline.take_alerts().len();
    }
    let report = pipeline.report();
    let json = serde_json::to_string(&(alerts, &report)).expect("a report is JSON");
    assert!(!analyzer::render::report(&report, analyzer::render::Style::default()).is_empty());
    let _ = pipeline.wanted_symbols();
    let _ = pipeline.into_reference();
    json
}

fn recorded(inputs: &[Input]) -> Vec<Input> {
    let mut writer = Writer::new(Vec::new());
    for input in inputs {
        writer.push(input).expect("memory takes everything");
    }
    let tape = writer.finish().expect("memory takes everything");
    let items = Reader::new(&tape[..]).expect("a whole tape");
    items
        .filter_map(|item| match item.expect("memory can be read") {
            Item::Input(input) => Some(input),
            Item::Damage(_) => None,
        })
        .collect()
}

fn run(bytes: &[u8]) {
    let inputs = session_of(bytes);
    let live = report_of(&inputs);
    // Tapes are slow to set up: one session in sixteen.
    if !inputs.is_empty() && bytes.len() % 16 == 0 {
        assert!(report_of(&recorded(&inputs)) == live, "the recording gives another report");
    }
}

fuzz_target!(|bytes: &[u8]| within_a_second(|| run(bytes)));
