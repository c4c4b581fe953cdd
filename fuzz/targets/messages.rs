//! Calls of any session: following messages does not panic, every send is got once at most and every
//! receive gets one message at most, and what was learnt can be shown.

#![no_main]

use std::collections::HashSet;

use analyzer::input::Input;
use analyzer::messages::MessageEvent;
use analyzer::options::Options;
use analyzer::pipeline::Pipeline;
use analyzer::wire::{Body, Record};
use dmscope_fuzz::session::session_of;
use dmscope_fuzz::limits::within_a_second;
use libfuzzer_sys::fuzz_target;

/// After the end of a process its number may be another's, whose calls are counted anew.
fn begins_anew(input: &Input) -> bool {
    let (Input::Record(raw) | Input::LateRecord(raw)) = input else { return false };
    Record::decode(raw).is_ok_and(|record| matches!(record.body, Body::Exit { .. } | Body::Exec))
}

/// The same process may be said to be another rank later.
fn names_a_process(input: &Input) -> bool {
    matches!(input, Input::Process(_))
}

fn run(bytes: &[u8]) {
    let inputs = session_of(bytes);
    let mut pipeline = Pipeline::with_events(Options::default());
    let (mut sends, mut receives) = (HashSet::new(), HashSet::new());
    let is_plain = !inputs.iter().any(begins_anew)
        && inputs.iter().skip_while(|input| !names_a_process(input)).filter(|i| names_a_process(i)).count()
            <= 5;
    for input in &inputs {
        match input {
            Input::Record(raw) => pipeline.push_record(raw),
            other => pipeline.push(other),
        }
        for event in pipeline.take_events() {
            match event {
                MessageEvent::Call { call, .. } => {
                    let messages = pipeline.messages();
                    let _ = messages.shown(&call);
                    let _ = pipeline.call_place(&call).map(|place| pipeline.path(place.file));
                }
                MessageEvent::Matched { send, receive } if is_plain => {
                    assert!(sends.insert(send), "{send} was received twice");
                    assert!(receives.insert(receive), "{receive} got two messages");
                }
                _ => {}
            }
        }
    }
    let messages = pipeline.messages();
    let _ = (messages.lost().count(), messages.strangers(), messages.leaks());
}

fuzz_target!(|bytes: &[u8]| within_a_second(|| run(bytes)));
