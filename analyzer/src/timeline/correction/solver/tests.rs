use super::*;

/// A send of rank 0, or a receive of rank 1.
fn call(rank: u32, number: u32) -> TimedCall {
    let id = CallId { rank, tid: 100 + rank, number };
    let begin_ns = 1000 * u64::from(number) + u64::from(rank);
    TimedCall {
        id,
        pid: id.tid,
        name: if rank == 0 { "MPI_Send" } else { "MPI_Recv" },
        kind: CallKind::Waits,
        shape: CollectiveShape::Some,
        begin_ns,
        end_ns: Some(begin_ns + 100),
        costs: CallCosts::default(),
        sent_bytes: (rank == 0).then_some(8),
        posts: true,
        posted: 1,
        is_from_anybody: false,
        place: None,
        sends: None,
        receives: None,
        completed: vec![MessageId { call: id, part: 0 }],
        left: Vec::new(),
        waits_in_vain: false,
        entered: Vec::new(),
        awaited: Vec::new(),
        ends_what_it_enters: true,
    }
}

fn registrations(solver: &Solver) -> usize {
    solver.awaited.values().map(Vec::len).sum()
}

fn ended(solver: &mut Solver) -> usize {
    solver.take().iter().filter(|moment| matches!(moment, SolvedMoment::Ends(_))).count()
}

#[test]
fn a_thread_that_waits_is_registered_once_however_far_it_is_ahead() {
    const CALLS: u32 = 1000;
    let mut solver = Solver::new(&Transfers::default(), 0.0);
    (1..=CALLS).for_each(|number| solver.call(call(0, number)));
    assert_eq!((registrations(&solver), ended(&mut solver)), (1, 0));
    for number in 1..=CALLS {
        let [send, receive] = [0, 1].map(|rank| MessageId { call: call(rank, number).id, part: 0 });
        solver.matched(send, receive);
        solver.call(call(1, number));
        assert!(registrations(&solver) <= 1);
    }
    assert_eq!(ended(&mut solver), 2 * CALLS as usize);
}

#[test]
fn a_call_that_waits_in_vain_goes_on_at_once_and_nobody_waits_any_more_for_what_was_given_up() {
    let mut solver = Solver::new(&Transfers::default(), 0.0);
    solver.call(TimedCall { waits_in_vain: true, ..call(0, 1) });
    let moments = solver.take();
    assert!(matches!(&moments[..], [SolvedMoment::Ends(end)] if end.is_open), "{moments:?}");
    solver.call(call(0, 2));
    assert_eq!((registrations(&solver), ended(&mut solver)), (1, 0));
    solver.finish();
    assert_eq!((registrations(&solver), ended(&mut solver)), (0, 1));
}
