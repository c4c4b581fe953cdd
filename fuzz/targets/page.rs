//! Any session: gathering what a page shows does not panic, its events fit its rows, it is JSON that
//! reads the same, and records given one by one make the same page.

#![no_main]

use analyzer::input::Input;
use analyzer::options::Options;
use analyzer::page::Page;
use analyzer::pipeline::Pipeline;
use dmscope_fuzz::session::session_of;
use dmscope_fuzz::limits::within_a_second;
use libfuzzer_sys::fuzz_target;

/// Few, so that some are given up.
const CALLS: usize = 16;

type Push = fn(&mut Pipeline, &Input);

fn page_of(inputs: &[Input], push: Push) -> Page {
    let mut pipeline = Pipeline::with_timeline(Options::default(), CALLS);
    inputs.iter().for_each(|input| push(&mut pipeline, input));
    let mut report = pipeline.report();
    report.symbolize(pipeline.symbols());
    let _ = pipeline.wanted_by_timeline(pipeline.symbols());
    pipeline.page(report).expect("a timeline was asked for")
}

fn one_by_one(pipeline: &mut Pipeline, input: &Input) {
    match input {
        Input::Record(raw) => pipeline.push_record(raw),
        other => pipeline.push(other),
    }
}

fn check(page: &Page) {
    let t = &page.timeline;
    let is_event = |number: &u32| (*number as usize) < t.events.len();
    for (number, row) in (0..).zip(&t.rows) {
        let events = &t.events[row.first_event as usize..(row.first_event + row.events) as usize];
        assert!(events.iter().all(|event| event.row == number), "an event is in another row");
        assert!(row.waits_for.iter().all(|row| (*row as usize) < t.rows.len()), "it waits for no row");
    }
    for event in &t.events {
        assert!(event.function.is_none_or(|at| (at as usize) < t.functions.len()), "no such function");
        let mut places = event.place.iter().chain(&event.stack);
        assert!(places.all(|at| (*at as usize) < t.places.len()), "no such place");
        assert!(event.sent_to.iter().chain(&event.got_from).all(is_event), "no such event");
    }
}

fn run(bytes: &[u8]) {
    let inputs = session_of(bytes);
    let page = page_of(&inputs, Pipeline::push);
    check(&page);
    let json = serde_json::to_string(&page).expect("a page is JSON");
    let read: Page = serde_json::from_str(&json).expect("what was written can be read");
    assert!(serde_json::to_string(&read).expect("a page is JSON") == json, "it reads differently");
    if bytes.len() % 4 == 0 {
        let again = serde_json::to_string(&page_of(&inputs, one_by_one)).expect("a page is JSON");
        assert!(again == json, "one by one, the records make another page");
    }
}

fuzz_target!(|bytes: &[u8]| within_a_second(|| run(bytes)));
