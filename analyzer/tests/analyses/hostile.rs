//! Sessions that no job would give: what fuzzing found, one test each.

use analyzer::input::{Input, Loss};
use analyzer::options::Options;
use analyzer::pipeline::Pipeline;
use analyzer::render::{self, Style};

/// What a person sees of a session.
fn shown(inputs: &[Input]) -> String {
    let mut pipeline = Pipeline::new(Options::default());
    inputs.iter().for_each(|input| pipeline.push(input));
    render::report(&pipeline.report(), Style::default())
}

#[test]
fn losses_beyond_counting_are_shown() {
    let loss = |movements, state| {
        Input::Loss(Loss { pid: 10, from_ns: 0, to_ns: 1, movements, calls: movements, state })
    };
    let text = shown(&[loss(u64::MAX, 0), loss(1, u64::MAX)]);
    assert!(text.contains("an unknown number of records were lost"), "{text}");
}
