//! Times without watching on a page.

use analyzer::input::{Input, OwnTime};
use analyzer::options::Options;
use analyzer::page::{Page, PageCorrection, PageEvent};
use analyzer::pipeline::{Pipeline, TimesPipeline};
use analyzer::symbols::SymbolTable;
use analyzer::timeline::DEFAULT_CALLS;

use crate::common::calls::{ANY_SOURCE, Job, TAG, WORLD};
use crate::tapes::{held_up, recorded};

fn page(inputs: &[Input]) -> Page {
    let mut pipeline = Pipeline::with_timeline(Options::default(), DEFAULT_CALLS);
    inputs.iter().for_each(|input| pipeline.push(input));
    let report = pipeline.report();
    pipeline.page_with(report, &SymbolTable::default()).expect("a timeline was asked for")
}

fn corrected(inputs: &[Input]) -> Page {
    let mut page = page(inputs);
    let mut first = TimesPipeline::survey(true);
    inputs.iter().for_each(|input| first.push(input));
    let mut second = TimesPipeline::correct(first.into_survey(), true, true);
    inputs.iter().for_each(|input| second.push(input));
    second.finish();
    let mut correction = PageCorrection::new(&page);
    second.take_calls().iter().for_each(|call| correction.call(call));
    second.take_orders().iter().for_each(|order| correction.order(order));
    correction.write(&mut page);
    page
}

/// The first rank receives from whoever comes first: `told`, whom it gets.
fn begin_receive(job: &mut Job) {
    job.begin(0, "MPI_Recv", [0x1000, 8, 5, ANY_SOURCE, TAG, WORLD], 20);
}

fn end_receive(job: &mut Job, told: i32) {
    job.points(0, "MPI_Recv", 6, true, &[8, 0, told, TAG as i32, 0]);
    job.over(0, "MPI_Recv", None);
}

/// Two senders, of whom the second was held up before it sent.
fn overtaken() -> Vec<Input> {
    let mut job = Job::begun(3);
    for _ in 0..10 {
        for sender in [1, 2] {
            begin_receive(&mut job);
            job.t.now_ns += 20_000;
            job.send(sender, 0, 10);
            end_receive(&mut job, sender as i32);
        }
    }
    begin_receive(&mut job);
    job.t.now_ns += 300_000;
    job.send(1, 0, 10);
    end_receive(&mut job, 1);
    begin_receive(&mut job);
    // It would have been the first.
    job.t.now_ns += 200_000;
    held_up(&mut job, 2, 400_000);
    job.send(2, 0, 10);
    end_receive(&mut job, 2);
    job.finalize();
    recorded(job, OwnTime::Recorded)
}

fn of_row(page: &Page, row: usize) -> &[PageEvent] {
    let row = &page.timeline.rows[row];
    &page.timeline.events[row.first_event as usize..][..row.events as usize]
}

#[test]
fn events_of_a_page_have_times_without_watching_beside_the_measured_ones() {
    let inputs = overtaken();
    assert!(page(&inputs).timeline.events.iter().all(|event| event.corrected.is_none()));
    let page = corrected(&inputs);
    let sends = of_row(&page, 2);
    let last = sends.iter().rfind(|event| !event.sent_to.is_empty()).expect("a send");
    let begin = last.corrected.expect("a call that was worked out").begin;
    assert_eq!(last.begin_ns as f64 - begin.likely_ns, 400_000.0, "{last:?}");
    assert!(begin.least_ns <= begin.likely_ns && begin.likely_ns <= begin.most_ns);
    // The end of the process, which is no call, moves with it.
    let end = sends.last().expect("an end");
    let moved = end.corrected.expect("something was before it").begin;
    assert!(end.begin_ns as f64 - moved.likely_ns > 300_000.0, "{end:?}");
}

#[test]
fn a_receive_that_would_have_got_another_message_is_marked_and_says_whose() {
    let page = corrected(&overtaken());
    let open: Vec<&PageEvent> = of_row(&page, 0).iter().filter(|event| event.order.is_some()).collect();
    let changed: Vec<&PageEvent> =
        open.into_iter().filter(|event| event.order.as_ref().is_some_and(|order| order.is_changed)).collect();
    let [event] = changed.as_slice() else { panic!("{changed:?}") };
    let text = &event.order.as_ref().expect("an order").text;
    assert_eq!(text, "It got the message of rank 1; without watching, that of rank 2 would have come first.");
}
