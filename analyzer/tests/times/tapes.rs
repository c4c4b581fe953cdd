//! From the inputs of a tape to corrected times.

use analyzer::input::{HitKind, HitPrice, Input, OwnTime, ProbeCosts, Quantiles, UnrecordedHits};
use analyzer::pipeline::TimesPipeline;
use analyzer::timeline::correction::bounds::Bounds;
use analyzer::timeline::correction::summary::ComparedTime;
use analyzer::timeline::correction::{CorrectedTimes, Refusal};
use analyzer::wire::Body;

use crate::common::calls::{ANY_SOURCE, Job, POINTER, TAG, WORLD};
use crate::common::{Trace, pid};

/// Two ranks that exchange messages, a record each microsecond of the job.
fn inputs() -> Vec<Input> {
    let mut job = Job::begun(2);
    for _ in 0..20 {
        job.send(0, 1, 10);
        job.receive(1, 0);
        job.send(1, 0, 11);
        job.receive(0, 1);
    }
    job.finalize();
    job.t.end()
}

fn costs(ns: u32) -> Input {
    let all = Quantiles { p5: ns, p25: ns, p50: ns, p75: ns, p95: ns };
    let nothing = Quantiles::default();
    let price =
        |kind, inside| HitPrice { kind, between_bytes: 1 << 18, hits: 100, before: all, inside, after: all };
    let hits = vec![
        price(HitKind::Call, nothing),
        price(HitKind::CallResults, all),
        price(HitKind::CallValues, all),
        HitPrice { before: nothing, ..price(HitKind::Declined, nothing) },
    ];
    Input::ProbeCosts(Box::new(ProbeCosts { hits, ..ProbeCosts::default() }))
}

fn times(inputs: &[Input]) -> CorrectedTimes {
    let pushed = |mut pipeline: TimesPipeline| {
        inputs.iter().for_each(|input| pipeline.push(input));
        pipeline
    };
    let survey = pushed(TimesPipeline::survey(true)).into_survey();
    let mut second = pushed(TimesPipeline::correct(survey, false, false));
    second.finish();
    second.result(1.0)
}

fn with(extra: impl IntoIterator<Item = Input>) -> Vec<Input> {
    let mut inputs = inputs();
    inputs.splice(1..1, extra);
    inputs
}

#[test]
fn what_hits_cost_by_the_tape_is_taken_out_of_its_times() {
    let free = times(&with([costs(0)]));
    assert_eq!(free.refused, None);
    assert_eq!(free.total.corrected.likely_ns, free.total.measured_ns as f64);
    assert_eq!(free.total.corrected.width_ns(), 0.0);
    let paid = times(&with([costs(100)]));
    assert_eq!((paid.refused, paid.limits.assumed_prices), (None, false));
    assert_eq!(paid.total.measured_ns, free.total.measured_ns);
    // Each rank waits for the other: all hits are on the way of the job, 300 ns for each of about 80 calls.
    let saved_ns = paid.total.measured_ns as f64 - paid.total.corrected.likely_ns;
    assert!((10_000.0..30_000.0).contains(&saved_ns), "{saved_ns} {:?}", paid.total);
    let calls = paid.hits.iter().find(|(kind, _)| *kind == HitKind::CallResults).expect("calls").1;
    assert_eq!((calls.hits, calls.cost.likely_ns), (84, 84.0 * 300.0));
    assert_eq!(paid.ranks.iter().map(|rank| rank.calls).collect::<Vec<_>>(), [41, 41]);
}

#[test]
fn hits_without_a_record_are_taken_out_of_the_time_in_which_they_were() {
    let begin_ns = Trace::new(1, true).now_ns;
    let hits = UnrecordedHits {
        pid: pid(0),
        from_ns: begin_ns,
        to_ns: begin_ns + 400_000,
        declined: 1000,
        ..Default::default()
    };
    let (without, with) = (times(&with([costs(10)])), times(&with([costs(10), Input::Unrecorded(hits)])));
    assert!(with.ranks[0].cost.likely_ns > without.ranks[0].cost.likely_ns + 2000.0, "{with:?}");
    assert_eq!(with.ranks[1].cost, without.ranks[1].cost);
    let declined = with.hits.iter().find(|(kind, _)| *kind == HitKind::Declined).expect("counted").1;
    assert_eq!((declined.hits, declined.cost.likely_ns), (1000, 10_000.0));
}

/// A rank was held up until now.
pub fn held_up(job: &mut Job, rank: u32, ns: u64) {
    job.t.record(rank, 0, Body::HeldUp { waited_ns: ns, own_ns: ns, moved: false, slept: false });
}

pub fn recorded(job: Job, own_time: OwnTime) -> Vec<Input> {
    let Input::ProbeCosts(free) = costs(0) else { panic!("no costs") };
    let mut inputs = job.t.end();
    inputs.insert(1, Input::ProbeCosts(Box::new(ProbeCosts { own_time, ..*free })));
    inputs
}

#[test]
fn what_dmscope_ran_in_the_place_of_a_rank_is_taken_out_of_its_time_and_that_of_who_waits_for_it() {
    let mut job = Job::begun(2);
    job.send(0, 1, 10);
    job.begin(1, "MPI_Recv", [0x1000, 8, 5, 0, TAG, WORLD], 20);
    job.over(1, "MPI_Recv", None);
    job.t.now_ns += 200_000;
    job.begin(1, "MPI_Recv", [0x1000, 8, 5, 0, TAG, WORLD], 20);
    job.t.now_ns += 40_000;
    held_up(&mut job, 0, 40_000);
    job.send(0, 1, 10);
    job.over(1, "MPI_Recv", None);
    job.begin(1, "MPI_Recv", [0x1000, 8, 5, 0, TAG, WORLD], 20);
    job.t.now_ns += 30_000;
    held_up(&mut job, 0, 30_000);
    job.send(0, 1, 10);
    job.over(1, "MPI_Recv", None);
    job.finalize();
    let times = times(&recorded(job, OwnTime::Recorded));
    assert_eq!((times.refused, times.limits.own_time), (None, OwnTime::Recorded));
    assert_eq!((times.held_up.hits, times.held_up.cost), (2, Bounds::exactly(70_000.0)));
    for rank in &times.ranks {
        let saved_ns = rank.time.measured_ns as f64 - rank.time.corrected.likely_ns;
        assert!((saved_ns - 70_000.0).abs() < 1.0, "{rank:?}");
    }
}

#[test]
fn a_rank_that_was_held_up_while_it_waited_lost_nothing() {
    let mut job = Job::begun(2);
    job.begin(1, "MPI_Recv", [0x1000, 8, 5, 0, TAG, WORLD], 20);
    job.t.now_ns += 50_000;
    job.send(0, 1, 10);
    held_up(&mut job, 1, 40_000);
    job.over(1, "MPI_Recv", None);
    job.finalize();
    let times = times(&recorded(job, OwnTime::Recorded));
    let saved_ns = times.total.measured_ns as f64 - times.total.corrected.likely_ns;
    assert!(saved_ns < 5_000.0, "{:?}", times.total);
    assert!(times.total.corrected.contains(times.total.measured_ns as f64), "{:?}", times.total);
}

#[test]
fn a_tape_that_does_not_tell_what_dmscope_itself_ran_is_said_to_be_so() {
    let own_time = |own_time| times(&recorded(Job::begun(2), own_time)).limits.own_time;
    assert_eq!(own_time(OwnTime::Unknown), OwnTime::Unknown);
    assert_eq!(own_time(OwnTime::Apart), OwnTime::Apart);
    assert_eq!(times(&inputs()).limits.own_time, OwnTime::Unknown);
}

#[test]
fn without_recorded_costs_the_bounds_are_wide_and_it_is_said() {
    let times = times(&inputs());
    assert!(times.limits.assumed_prices);
    assert!(times.total.corrected.width_ns() > 0.0);
}

#[test]
fn a_job_whose_watching_took_more_than_its_own_time_is_refused() {
    let refused = times(&with([costs(1500)])).refused;
    assert!(matches!(refused, Some(Refusal::Dilated { share, .. }) if share > 1.0), "{refused:?}");
}

#[test]
fn a_tape_without_ends_of_calls_or_without_calls_is_refused() {
    let mut trace = Trace::new(2, true);
    assert_eq!(times(&Trace::new(2, true).end()).refused, Some(Refusal::NoCalls));
    (0..2).for_each(|rank| (0..3).for_each(|_| trace.call(rank, "MPI_Barrier", "main")));
    let mut job = Job::new(2);
    for rank in 0..2 {
        (0..3).for_each(|_| job.begin(rank, "MPI_Barrier", [0x4400_0000, 0, 0, 0, 0, 0], 3));
    }
    assert_eq!(times(&job.t.end()).refused, Some(Refusal::NoReturns));
}

#[test]
fn a_loss_is_said_and_what_came_after_is_not_known() {
    let mut job = Job::begun(2);
    (0..5).for_each(|_| {
        job.send(0, 1, 10);
        job.receive(1, 0);
    });
    job.t.lose_calls(1, 3);
    (0..5).for_each(|_| {
        job.send(0, 1, 10);
        job.receive(1, ANY_SOURCE);
    });
    job.finalize();
    let mut inputs = job.t.end();
    inputs.insert(1, costs(100));
    let times = times(&inputs);
    assert_eq!((times.limits.lost_records, &times.limits.not_followed[..]), (3, &[1][..]));
    assert!(times.limits.open_calls > 0, "{:?}", times.limits);
    for rank in &times.ranks {
        let corrected = rank.time.corrected;
        assert!(corrected.least_ns <= corrected.likely_ns && corrected.likely_ns <= corrected.most_ns);
    }
}

#[test]
fn movements_are_asked_for_senders_that_nothing_else_tells() {
    for is_told in [true, false] {
        let mut job = Job::begun(3);
        job.send(1, 0, 10);
        job.send(2, 0, 10);
        job.begin(0, "MPI_Recv", [0x1000, 8, 5, ANY_SOURCE, TAG, WORLD], 20);
        if is_told {
            job.points(0, "MPI_Recv", 6, true, &[8, 0, 1, TAG as i32, 0]);
        }
        job.over(0, "MPI_Recv", None);
        job.finalize();
        let mut pipeline = TimesPipeline::survey(false);
        recorded(job, OwnTime::Recorded).iter().for_each(|input| pipeline.push(input));
        assert_eq!(pipeline.into_survey().asks_for_senders, !is_told);
    }
}

#[test]
fn a_collective_call_on_what_is_not_known_may_have_waited_for_anybody() {
    let open_calls = |function: &str, args: [u64; 6]| {
        let mut job = Job::begun(2);
        for rank in [0, 1] {
            job.begin(rank, function, args, 20);
        }
        for rank in [0, 1] {
            job.over(rank, function, None);
        }
        job.finalize();
        times(&recorded(job, OwnTime::Recorded)).limits.open_calls
    };
    assert_eq!(open_calls("MPI_Barrier", [WORLD, 0, 0, 0, 0, 0]), 0);
    assert_eq!(open_calls("MPI_Win_fence", [0, 0xa000_0000, 0, 0, 0, 0]), 2);
}

#[test]
fn a_fence_on_a_window_that_calls_made_is_waited_in_like_a_barrier() {
    let of_first = |function: &str, args: [u64; 6]| {
        let mut job = Job::begun(2);
        for rank in [0, 1] {
            let made = Some((5, WINDOW + u64::from(rank)));
            job.call(rank, "MPI_Win_create", [0, 0, 1, 0, WORLD, POINTER], 10, made);
        }
        // Rank 0 comes first; what watching costs rank 1 meanwhile delays both.
        job.begin(0, function, args, 20);
        (0..10)
            .for_each(|_| job.call(1, "MPI_Comm_group", [WORLD, POINTER, 0, 0, 0, 0], 15, Some((1, 0x88))));
        job.begin(1, function, args.map(|arg| arg + u64::from(arg == WINDOW)), 20);
        [1, 0].iter().for_each(|rank| job.over(*rank, function, None));
        let mut inputs = job.t.end();
        inputs.insert(1, costs(100));
        let times = times(&inputs);
        let first = &times.ranks[0].time;
        (times.limits.open_calls, first.measured_ns as f64, first.corrected)
    };
    let barrier = of_first("MPI_Barrier", [WORLD, 0, 0, 0, 0, 0]);
    assert_eq!(of_first("MPI_Win_fence", [0, WINDOW, 0, 0, 0, 0]), barrier);
    assert_eq!(barrier.0, 0);
    assert!(barrier.2.most_ns < barrier.1 - 1_000.0, "{barrier:?}");
    // With MPI_MODE_NOPRECEDE it may have returned at once.
    let (.., unsure) = of_first("MPI_Win_fence", [8192, WINDOW, 0, 0, 0, 0]);
    assert!(unsure.most_ns > barrier.2.most_ns, "{unsure:?} {barrier:?}");
}

const WINDOW: u64 = 0xa000_0000;

/// Rank 1 opens its window for rank 0, and waits; rank 0 does something else before it starts. `knows_groups`: calls say whom groups name.
fn epoch(knows_groups: bool) -> CorrectedTimes {
    const ALL: u64 = 0x88;
    const ONE: u64 = 0x99;
    let mut job = Job::begun(2);
    for rank in [0, 1] {
        job.call(rank, "MPI_Win_create", [0, 0, 1, 0, WORLD, POINTER], 10, Some((5, WINDOW)));
        if knows_groups {
            job.call(rank, "MPI_Comm_group", [WORLD, POINTER, 0, 0, 0, 0], 11, Some((1, ALL)));
            job.begin(rank, "MPI_Group_incl", [ALL, 1, POINTER, POINTER, 0, 0], 12);
            job.points(rank, "MPI_Group_incl", 2, false, &[1 - rank as i32]);
            job.over(rank, "MPI_Group_incl", Some((3, ONE)));
        }
    }
    job.call(1, "MPI_Win_post", [ONE, 0, WINDOW, 0, 0, 0], 13, None);
    job.begin(1, "MPI_Win_wait", [WINDOW, 0, 0, 0, 0, 0], 14);
    (0..10).for_each(|_| job.call(0, "MPI_Comm_group", [WORLD, POINTER, 0, 0, 0, 0], 15, Some((1, ALL))));
    job.call(0, "MPI_Win_start", [ONE, 0, WINDOW, 0, 0, 0], 16, None);
    job.call(0, "MPI_Win_complete", [WINDOW, 0, 0, 0, 0, 0], 17, None);
    job.over(1, "MPI_Win_wait", None);
    let mut inputs = job.t.end();
    inputs.insert(1, costs(100));
    times(&inputs)
}

#[test]
fn who_waits_for_the_end_of_an_epoch_waits_for_those_that_it_was_opened_for() {
    let known = epoch(true);
    assert_eq!(known.limits.open_calls, 0, "{known:?}");
    // What watching cost rank 0 delayed rank 1: ten calls of 300 ns.
    let target = &known.ranks[1].time;
    assert!(target.corrected.likely_ns < target.measured_ns as f64 - 3_000.0, "{target:?}");
    assert!(target.corrected.most_ns < target.measured_ns as f64 - 1_000.0, "{target:?}");
    // Of whom is waited for nothing is known: in start, complete and wait.
    let unknown = epoch(false);
    assert_eq!(unknown.limits.open_calls, 3, "{unknown:?}");
    let saved_ns = |time: &ComparedTime| time.measured_ns as f64 - time.corrected.most_ns;
    assert!(saved_ns(&unknown.ranks[1].time) < saved_ns(target) / 2.0, "{unknown:?}");
}
