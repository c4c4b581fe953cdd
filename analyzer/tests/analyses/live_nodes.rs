//! Sessions of several nodes that are under way are joined as they come.

use crate::common::nodes::{RANKS, joined, part, ring, shifted};
use crate::common::{Trace, pid};
use analyzer::input::{End, Input, Loss, ProcessFacts, Start};
use analyzer::tape::{LiveJoin, MAX_NODES, Patience, node_of, pid_on_node};
use analyzer::wire::{Body, CallContext, Header, Record};
use proptest::prelude::*;

const S: u64 = 1_000_000_000;
const PATIENCE: Patience = Patience { at_first_ns: 0, silence_ns: 5 * S, inputs_ns: 30 * S };
const NODES: [usize; RANKS as usize] = [0, 0, 1, 1, 2, 2];

/// What each of three nodes has of a job.
fn parts(whole: &[Input]) -> Vec<Vec<Input>> {
    let whole: Vec<Input> = whole.iter().map(|input| shifted(input, 1000 * S as i64)).collect();
    (0..3).map(|node| part(&whole, node, &NODES, 0)).collect()
}

/// Of one whose ranks have nothing to do with each other.
fn tapes(steps: u64) -> Vec<Vec<Input>> {
    let mut t = Trace::new(RANKS, true);
    for _ in 0..steps {
        for rank in 0..RANKS {
            let (data, staged) = (t.heap(rank, "data"), t.heap(rank, "staged"));
            t.copy(rank, "stage", data, staged, 64);
            t.copy(rank, "deliver", staged, data, 64);
        }
        t.tick();
    }
    parts(&t.end())
}

fn all_of(join: &mut LiveJoin) -> Vec<Input> {
    std::iter::from_fn(|| join.take()).collect()
}

fn losses(inputs: &[Input]) -> Vec<Loss> {
    inputs.iter().filter_map(|input| if let Input::Loss(loss) = input { Some(*loss) } else { None }).collect()
}

fn starts(inputs: &[Input]) -> Vec<Start> {
    let start = |input: &Input| if let Input::Start(start) = input { Some((**start).clone()) } else { None };
    inputs.iter().filter_map(start).collect()
}

/// Node and process of each loss.
fn lost_places(inputs: &[Input]) -> Vec<(usize, u32)> {
    losses(inputs).iter().map(|loss| (node_of(loss.pid), pid_on_node(loss.pid))).collect()
}

fn records(inputs: &[Input]) -> usize {
    inputs.iter().filter(|input| matches!(input, Input::Record(_))).count()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn however_inputs_come_they_are_in_the_order_of_the_joined_tapes(
        order in prop::collection::vec((0usize..3, 1usize..40), 1..60),
    ) {
        let tapes = parts(&ring(20, |_, _| false));
        let expected = joined(tapes.clone());
        let mut join = LiveJoin::new(PATIENCE);
        let mut left: Vec<_> = tapes.into_iter().map(Vec::into_iter).collect();
        // All have begun before anything else comes: who comes later is told later.
        for (node, inputs) in left.iter_mut().enumerate() {
            prop_assert!(join.push(node, inputs.next().expect("a start")));
        }
        let mut all = Vec::new();
        for (number, (node, count)) in order.into_iter().enumerate() {
            for input in left[node].by_ref().take(count) {
                prop_assert!(join.push(node, input));
            }
            join.advance(number as u64 * S / 100);
            all.extend(all_of(&mut join));
        }
        for (node, inputs) in left.into_iter().enumerate() {
            inputs.for_each(|input| assert!(join.push(node, input)));
        }
        all.extend(all_of(&mut join));
        prop_assert!(join.is_over());
        join.finish();
        all.extend(all_of(&mut join));
        let told = starts(&all);
        prop_assert_eq!(&told.last().expect("a start").nodes, &["node0", "node1", "node2"]);
        let without_starts = |inputs: &[Input]| {
            inputs.iter().filter(|i| !matches!(i, Input::Start(_))).cloned().collect::<Vec<_>>()
        };
        prop_assert_eq!(without_starts(&all), without_starts(&expected));
    }
}

#[test]
fn a_node_that_is_silent_for_too_long_holds_up_nobody_and_is_a_loss() {
    let mut tapes = tapes(40);
    let rest = tapes[1].split_off(60);
    let mut join = LiveJoin::new(PATIENCE);
    for (node, tape) in tapes.iter().enumerate() {
        tape[..tape.len() - 1].iter().for_each(|input| assert!(join.push(node, input.clone())));
    }
    let before = all_of(&mut join);
    join.advance(4 * S);
    assert_eq!(all_of(&mut join), [], "it may only be slow");
    for node in [0, 2] {
        join.push(node, Input::Tick { time_ns: 1001 * S });
    }
    join.advance(6 * S);
    let after = all_of(&mut join);
    assert_eq!(lost_places(&after), [(1, pid(2)), (1, pid(3))]);
    assert!(losses(&after).iter().all(|loss| loss.calls == Loss::UNKNOWN && loss.state > 0));
    assert!(losses(&after).iter().all(|loss| loss.from_ns < loss.to_ns && loss.to_ns >= 1000 * S));
    let of_others = |inputs: &[Input]| {
        records(&inputs.iter().filter(|i| node_of_record(i) != Some(1)).cloned().collect::<Vec<_>>())
    };
    assert_eq!(of_others(&before) + of_others(&after), of_others(&tapes[0]) + of_others(&tapes[2]));
    assert!(matches!(after.last(), Some(Input::Tick { .. })));

    // It was only slow, after all: what was missing is a loss that ends here.
    let told = rest.len() - 1;
    rest.into_iter().take(told).for_each(|input| assert!(join.push(1, input)));
    for node in [0, 2] {
        join.push(node, Input::Tick { time_ns: 1002 * S });
    }
    let late = all_of(&mut join);
    assert_eq!(lost_places(&late), [(1, pid(2)), (1, pid(3))]);
    assert!(records(&late) > 0);
}

fn node_of_record(input: &Input) -> Option<usize> {
    if let Input::Record(record) = input { Some(node_of(record.pid())) } else { None }
}

fn stream(stream: u64, position: u32, receive: bool) -> Body {
    Body::Stream { addr: 1, stream, position, len_bytes: 4, receive, context: CallContext::default() }
}

fn record(time_ns: u64, pid: u32, body: Body) -> Input {
    Input::Record(Record { header: Header { time_ns, pid, tid: pid, probe: 0 }, body }.encode())
}

/// Node 1 waits for what the child sends, and node 0 for what its daemon was told by somebody who is not watched.
#[test]
fn what_a_process_does_comes_after_it_was_started_even_if_others_wait_for_it() {
    const DAEMON: u32 = 5;
    const CHILD: u32 = 6;
    let facts = ProcessFacts { pid: CHILD, time_ns: 13, ..ProcessFacts::default() };
    let mut join = LiveJoin::new(PATIENCE);
    let of_node_0 = [
        record(10, DAEMON, stream(9, 0, true)),
        record(11, DAEMON, Body::Fork { child: CHILD }),
        record(12, CHILD, Body::Exec),
        Input::Process(Box::new(facts)),
        record(14, CHILD, stream(1, 0, false)),
    ];
    let of_node_1 = [record(12, DAEMON, stream(1, 0, true)), record(13, DAEMON, Body::Exec)];
    for (node, inputs) in [of_node_0.to_vec(), of_node_1.to_vec()].into_iter().enumerate() {
        join.push(node, Input::Start(Box::default()));
        inputs.into_iter().for_each(|input| assert!(join.push(node, input)));
        join.push(node, Input::End(End { time_ns: 50, ..End::default() }));
    }
    join.finish();
    let all = all_of(&mut join);
    let time_on_node_0 = |input: &Input| match input {
        Input::Record(raw) => Some(raw.time_ns()).filter(|_| node_of(raw.pid()) == 0),
        Input::Process(facts) => Some(facts.time_ns),
        _ => None,
    };
    let times: Vec<u64> = all.iter().filter_map(time_on_node_0).collect();
    assert_eq!(times, [10, 11, 12, 13, 14]);
}

/// It came from a launcher that nobody watches, say, and all was over before it was given up.
#[test]
fn what_waits_for_bytes_that_nobody_sent_is_given_out_at_the_end() {
    let mut join = LiveJoin::new(PATIENCE);
    let received = |position: u32| record(position.into(), 5, stream(7, position, true));
    for node in 0..2 {
        join.push(node, Input::Start(Box::default()));
        (1..4).for_each(|position| assert!(join.push(node, received(4 * position))));
        join.push(node, Input::End(End { time_ns: 50, ..End::default() }));
    }
    let before = records(&all_of(&mut join));
    join.finish();
    let after = all_of(&mut join);
    assert_eq!(before + records(&after), 6);
    assert!(matches!(after.last(), Some(Input::End(_))));
}

#[test]
fn a_node_that_ends_keeps_nobody_waiting_and_the_end_of_all_comes_when_it_is_asked_for() {
    let tapes = tapes(10);
    let mut join = LiveJoin::new(PATIENCE);
    for (node, tape) in tapes.iter().enumerate() {
        let whole = if node == 2 { tape.len() - 1 } else { tape.len() };
        tape[..whole].iter().for_each(|input| assert!(join.push(node, input.clone())));
    }
    assert!(!join.is_over());
    let mut all = all_of(&mut join);
    assert!(join.push(2, tapes[2].last().expect("an end").clone()));
    all.extend(all_of(&mut join));
    assert!(join.is_over());
    assert!(!all.iter().any(|input| matches!(input, Input::End(_))), "another node may come");
    join.finish();
    all.extend(all_of(&mut join));
    assert!(matches!(all.last(), Some(Input::End(_))));
    assert_eq!(losses(&all), []);
}

#[test]
fn a_node_without_an_end_is_a_loss_at_the_end() {
    let tapes = tapes(10);
    let mut join = LiveJoin::new(PATIENCE);
    for (node, tape) in tapes.iter().enumerate() {
        let whole = if node == 1 { tape.len() - 1 } else { tape.len() };
        tape[..whole].iter().for_each(|input| assert!(join.push(node, input.clone())));
    }
    join.finish();
    let all = all_of(&mut join);
    assert_eq!(lost_places(&all), [(1, pid(2)), (1, pid(3))]);
    assert!(matches!(all.last(), Some(Input::End(_))));
}

#[test]
fn who_comes_later_is_named_by_another_start() {
    let tapes = tapes(20);
    let mut join = LiveJoin::new(PATIENCE);
    for node in [2, 0] {
        tapes[node].iter().take(50).for_each(|input| assert!(join.push(node, input.clone())));
    }
    let first = all_of(&mut join);
    assert_eq!(starts(&first).last().expect("a start").nodes, ["node0", "", "node2"]);
    assert_eq!(starts(&first).last().expect("a start").host, "node0, node2");
    tapes[1].iter().take(50).for_each(|input| assert!(join.push(1, input.clone())));
    let later = all_of(&mut join);
    assert_eq!(starts(&later)[0].nodes, ["node0", "node1", "node2"]);
    assert_eq!(losses(&later), [], "it has only begun");
}

#[test]
fn what_the_first_node_has_waits_for_the_others_for_a_while() {
    let tapes = tapes(20);
    let mut join = LiveJoin::new(Patience { at_first_ns: 2 * S, ..PATIENCE });
    join.advance(100 * S);
    tapes[0].iter().take(50).for_each(|input| assert!(join.push(0, input.clone())));
    join.advance(101 * S);
    assert_eq!(all_of(&mut join), []);
    join.advance(102 * S);
    assert!(records(&all_of(&mut join)) > 0);

    let mut join = LiveJoin::new(Patience { at_first_ns: 2 * S, ..PATIENCE });
    tapes[0].iter().take(50).for_each(|input| assert!(join.push(0, input.clone())));
    assert_eq!(all_of(&mut join), []);
    join.open();
    assert!(records(&all_of(&mut join)) > 0, "nobody else is to come");
}

#[test]
fn a_node_that_speaks_is_waited_for_longer_than_one_that_is_silent() {
    let mut tapes = tapes(40);
    tapes[1].truncate(60);
    let mut join = LiveJoin::new(PATIENCE);
    join.advance(100 * S);
    for (node, tape) in tapes.iter().enumerate() {
        tape[..tape.len() - 1].iter().for_each(|input| assert!(join.push(node, input.clone())));
    }
    all_of(&mut join);
    for now_s in 101..130 {
        join.advance(now_s * S);
        for node in [0, 2] {
            assert!(join.push(node, Input::Tick { time_ns: now_s * S }));
        }
        join.hear(1);
        assert_eq!(losses(&all_of(&mut join)), []);
    }
    join.advance(131 * S);
    assert!(!losses(&all_of(&mut join)).is_empty(), "what it does is not known for too long");
}

#[test]
fn a_session_that_begins_again_on_a_node_leaves_a_gap() {
    let tapes = tapes(40);
    let mut join = LiveJoin::new(PATIENCE);
    for (node, tape) in tapes.iter().enumerate() {
        tape.iter().take(60).for_each(|input| assert!(join.push(node, input.clone())));
    }
    all_of(&mut join);
    let again =
        tapes[1].iter().enumerate().filter(|(at, input)| *at >= 80 || !matches!(input, Input::Record(_)));
    again.for_each(|(_, input)| assert!(join.push(1, input.clone())));
    for node in [0, 2] {
        tapes[node].iter().skip(60).for_each(|input| assert!(join.push(node, input.clone())));
    }
    let all = all_of(&mut join);
    assert_eq!(lost_places(&all), [(1, pid(2)), (1, pid(3))]);
    let gap = all.iter().position(|input| matches!(input, Input::Loss(_))).expect("a loss");
    let next = all.iter().position(|input| node_of_record(input) == Some(1)).expect("a record");
    assert!(gap < next, "the gap comes before what came after it");
}

#[test]
fn what_was_lost_on_the_way_is_told_before_what_came_after_it() {
    let tapes = tapes(20);
    let mut join = LiveJoin::new(PATIENCE);
    for (node, tape) in tapes.iter().enumerate() {
        tape.iter().take(60).for_each(|input| assert!(join.push(node, input.clone())));
    }
    let before = all_of(&mut join);
    join.lose(0);
    for (node, tape) in tapes.iter().enumerate() {
        let skipped = if node == 0 { 70 } else { 60 };
        tape.iter().skip(skipped).for_each(|input| assert!(join.push(node, input.clone())));
    }
    let after = all_of(&mut join);
    assert_eq!((losses(&before), lost_places(&after)), (vec![], vec![(0, pid(0)), (0, pid(1))]));
    assert!(losses(&after).iter().all(|loss| (loss.calls, loss.state) == (1, 0)));
    let gap = after.iter().position(|input| matches!(input, Input::Loss(_))).expect("a loss");
    assert!(after[..gap].iter().all(|input| node_of_record(input) != Some(0)));
}

#[test]
fn a_node_whose_wall_clock_is_wrong_goes_with_the_others() {
    for wrong_s in [-700i64, 700] {
        let mut join = LiveJoin::new(PATIENCE);
        let mut tapes = tapes(40);
        let Some(Input::Start(start)) = tapes[1].first_mut() else { panic!("no start") };
        start.wall_clock_s = start.wall_clock_s.wrapping_add_signed(wrong_s);
        let mut all = Vec::new();
        for at in 0..tapes[0].len() {
            for node in [0, 2, 1] {
                tapes[node].get(at).into_iter().for_each(|input| assert!(join.push(node, input.clone())));
            }
            join.advance(at as u64 * S / 1000);
            all.extend(all_of(&mut join));
        }
        let last = all.iter().rev().filter_map(node_of_record).take(60).collect::<Vec<_>>();
        assert!((0..3).all(|node| last.contains(&node)), "{wrong_s}: {last:?}");
    }
}

#[test]
fn what_belongs_to_no_session_is_not_taken() {
    let mut join = LiveJoin::new(PATIENCE);
    assert!(!join.push(0, Input::End(End::default())));
    assert!(!join.push(MAX_NODES, Input::Start(Box::default())));
    assert!(join.push(MAX_NODES - 1, Input::Start(Box::default())));
    assert!(!join.push(0, Input::Tick { time_ns: 1 }));
}
