//! Random programs against a model that lets every thread go as far as it can, again and again.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::job::messages::ids::{CommId, SequenceId};
use crate::mpi::calls::row;

/// What a rank does. Messages are numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Send(usize),
    Receive(usize),
    BeginSend(usize),
    BeginReceive(usize),
    /// Of what was begun.
    Wait(usize),
    /// A collective call on a communicator of its own, which nobody has to wait in.
    Broadcast(u64),
}

/// Actions of ranks in an order in which they can be done if all messages are buffered.
#[derive(Clone, Debug)]
struct Program {
    ranks: usize,
    /// From whom to whom each message goes.
    messages: Vec<(usize, usize)>,
    actions: Vec<(usize, Action)>,
}

/// Where a message's call is: rank and number.
type Places = Vec<[Option<(usize, u32)>; 2]>;

impl Program {
    fn of_rank(&self, rank: usize) -> Vec<Action> {
        self.actions.iter().filter(|(of, _)| *of == rank).map(|(_, action)| *action).collect()
    }

    /// Of each message the calls that post it, by number from 1.
    fn posts(&self) -> Places {
        let mut posts: Places = vec![[None; 2]; self.messages.len()];
        for rank in 0..self.ranks {
            for (number, action) in (1..).zip(self.of_rank(rank)) {
                match action {
                    Action::Send(message) | Action::BeginSend(message) => {
                        posts[message][0] = Some((rank, number));
                    }
                    Action::Receive(message) | Action::BeginReceive(message) => {
                        posts[message][1] = Some((rank, number));
                    }
                    Action::Wait(_) | Action::Broadcast(_) => {}
                }
            }
        }
        posts
    }

    /// Whether ranks come to their ends if nothing is buffered.
    fn ends_unbuffered(&self) -> bool {
        let posts = self.posts();
        let lists: Vec<Vec<Action>> = (0..self.ranks).map(|rank| self.of_rank(rank)).collect();
        // How many calls each rank has ended: it is in the next one.
        let mut ended = vec![0_usize; self.ranks];
        loop {
            let before = ended.clone();
            for rank in 0..self.ranks {
                let Some(action) = lists[rank].get(ended[rank]) else { continue };
                let is_reached = |at: Option<(usize, u32)>| {
                    at.is_some_and(|(rank, number)| before[rank] + 1 >= number as usize)
                };
                let may_end = match *action {
                    Action::BeginSend(_) | Action::BeginReceive(_) => true,
                    Action::Send(message) | Action::Receive(message) | Action::Wait(message) => {
                        let side = usize::from(self.messages[message].0 == rank);
                        is_reached(posts[message][side])
                    }
                    Action::Broadcast(number) => (0..self.ranks).all(|other| {
                        let at = lists[other].iter().position(|action| *action == Action::Broadcast(number));
                        at.is_some_and(|at| before[other] >= at)
                    }),
                };
                ended[rank] += usize::from(may_end);
            }
            if ended == before {
                return (0..self.ranks).all(|rank| ended[rank] == lists[rank].len());
            }
        }
    }
}

fn call(rank: usize, number: u32) -> CallId {
    CallId { rank: rank as u32, tid: 100 + rank as u32, number }
}

fn op(id: MessageId, sends: bool, peer: Option<usize>) -> Op {
    let origin = Origin { row: row("MPI_Send").expect("a call"), return_address: 0 };
    Op {
        id,
        origin,
        sends,
        place: Some((CommId(0), id.call.rank)),
        peer: peer.map(|peer| peer as u32),
        tag: 0,
        content: None,
        is_empty: false,
        element: None,
    }
}

/// What the job tells of a program, as it is run.
struct Told {
    unbuffered: Unbuffered,
    posts: Places,
    posted: BTreeSet<(usize, usize)>,
    numbers: Vec<u32>,
    /// Of which receives it is not certain whose message they get.
    from_anybody: bool,
}

impl Told {
    fn of(program: &Program) -> Self {
        Self {
            unbuffered: Unbuffered::default(),
            posts: program.posts(),
            posted: BTreeSet::new(),
            numbers: vec![0; program.ranks],
            from_anybody: false,
        }
    }

    fn id(&self, message: usize, side: usize) -> MessageId {
        let (rank, number) = self.posts[message][side].expect("all are posted");
        MessageId { call: call(rank, number), part: 0 }
    }

    fn post(&mut self, program: &Program, message: usize, side: usize) {
        let (from, to) = program.messages[message];
        let peer = if side == 0 { Some(to) } else { Some(from).filter(|_| !self.from_anybody) };
        let id = self.id(message, side);
        self.unbuffered.post(&op(id, side == 0, peer));
        self.posted.insert((message, side));
        if self.posted.contains(&(message, 1 - side)) {
            self.unbuffered.pair(self.id(message, 0), self.id(message, 1));
        }
    }

    /// A call, from its beginning to its end.
    fn run(&mut self, program: &Program, rank: usize, action: Action) {
        self.numbers[rank] += 1;
        let id = call(rank, self.numbers[rank]);
        let (name, own) = match action {
            Action::Send(message) => {
                self.post(program, message, 0);
                self.unbuffered.complete(self.id(message, 0));
                ("MPI_Send", None)
            }
            Action::Receive(message) => {
                self.post(program, message, 1);
                self.unbuffered.complete(self.id(message, 1));
                ("MPI_Recv", None)
            }
            Action::BeginSend(message) => {
                self.post(program, message, 0);
                ("MPI_Isend", None)
            }
            Action::BeginReceive(message) => {
                self.post(program, message, 1);
                ("MPI_Irecv", None)
            }
            Action::Wait(message) => {
                let side = usize::from(program.messages[message].0 != rank);
                self.unbuffered.complete(self.id(message, side));
                ("MPI_Wait", None)
            }
            Action::Broadcast(number) => {
                let collective = CollectiveId { sequence: SequenceId::of(number as u32), position: 0 };
                let row = row("MPI_Bcast").expect("a call");
                self.unbuffered.enter(row, collective, id, program.ranks, false);
                ("MPI_Bcast", Some(collective))
            }
        };
        // Each call of a rank is at a place of its own.
        self.unbuffered.over(row(name).expect("a call"), u64::from(id.number), id, own);
    }

    fn all(mut self, program: &Program) -> Vec<UnbufferedCycle> {
        for (rank, action) in &program.actions {
            self.run(program, *rank, *action);
        }
        self.unbuffered.find_places(
            |_, at| Some(CodePlace { offset_bytes: at, ..CodePlace::default() }),
            |_| Vec::new(),
        );
        self.unbuffered.found().cloned().collect()
    }
}

/// Messages whose receives are done somewhere behind their sends, and broadcasts.
fn programs() -> impl Strategy<Value = Program> {
    let message = (0..4_usize, 0..4_usize, any::<bool>(), any::<bool>(), 0..6_usize, 0..6_usize, 0..6_usize);
    let messages = proptest::collection::vec((message, 0..8_u8), 1..12);
    (2..5_usize, messages).prop_map(|(ranks, all)| {
        // What is still to be done, and behind how many more messages.
        let mut later: Vec<(usize, usize, Action)> = Vec::new();
        let (mut messages, mut actions, mut broadcasts) = (Vec::new(), Vec::new(), 0);
        for ((from, to, begins_send, begins_receive, receive_in, wait_in, begun_before), broadcast) in all {
            let (from, to, message) = (from % ranks, to % ranks, messages.len());
            messages.push((from, to));
            if begins_receive && begun_before > 3 {
                actions.push((to, Action::BeginReceive(message)));
            }
            match begins_send {
                true => {
                    actions.push((from, Action::BeginSend(message)));
                    later.push((wait_in, from, Action::Wait(message)));
                }
                false => actions.push((from, Action::Send(message))),
            }
            match begins_receive {
                true => {
                    if begun_before <= 3 {
                        later.push((receive_in.min(wait_in), to, Action::BeginReceive(message)));
                    }
                    later.push((receive_in.max(wait_in), to, Action::Wait(message)));
                }
                false => later.push((receive_in, to, Action::Receive(message))),
            }
            if broadcast == 0 {
                let delays = [receive_in, wait_in, begun_before, 0];
                let enters = |rank: usize| (delays[rank % 4], rank, Action::Broadcast(broadcasts));
                later.extend((0..ranks).map(enters));
                broadcasts += 1;
            }
            let (due, rest): (Vec<_>, Vec<_>) = later.into_iter().partition(|(left, ..)| *left == 0);
            actions.extend(due.into_iter().map(|(_, rank, action)| (rank, action)));
            later = rest.into_iter().map(|(left, rank, action)| (left - 1, rank, action)).collect();
        }
        later.sort_by_key(|(left, ..)| *left);
        actions.extend(later.into_iter().map(|(_, rank, action)| (rank, action)));
        Program { ranks, messages, actions }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn a_cycle_is_found_if_and_only_if_ranks_do_not_come_to_their_ends_without_buffering(program in programs()) {
        let found = Told::of(&program).all(&program);
        prop_assert_eq!(found.is_empty(), program.ends_unbuffered(), "{:#?}", found);
    }

    #[test]
    fn receives_from_anybody_add_nothing_to_what_is_found(program in programs()) {
        let mut told = Told::of(&program);
        told.from_anybody = true;
        if program.ends_unbuffered() {
            prop_assert!(told.all(&program).is_empty());
        } else {
            // Whoever has not got its message yet could get another one.
            told.all(&program);
        }
    }
}

fn program(ranks: usize, messages: &[(usize, usize)], actions: &[(usize, Action)]) -> Program {
    Program { ranks, messages: messages.to_vec(), actions: actions.to_vec() }
}

#[test]
fn a_cycle_is_told_with_its_calls_in_the_order_in_which_they_wait() {
    use Action::{Broadcast, Receive, Send};
    let before_a_broadcast =
        program(2, &[(0, 1)], &[(0, Send(0)), (0, Broadcast(0)), (1, Broadcast(0)), (1, Receive(0))]);
    let found = Told::of(&before_a_broadcast).all(&before_a_broadcast);
    let [found] = &found[..] else { panic!("{found:#?}") };
    let calls: Vec<(&str, u32)> =
        found.calls.iter().map(|call| (call.function, *call.ranks.first().expect("one"))).collect();
    let mut sorted = calls.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, [("MPI_Bcast", 1), ("MPI_Send", 0)]);
    assert_eq!(found.first, calls.iter().map(|(_, rank)| *rank).collect::<Vec<_>>());
}

#[test]
fn a_send_that_an_open_receive_from_anybody_could_take_is_left_alone() {
    use Action::{BeginReceive, Receive, Send, Wait};
    // Rank 1 has posted a receive from anybody, which gets the message of rank 2 at last.
    let all = [
        (1, BeginReceive(0)),
        (0, Send(1)),
        (1, Send(2)),
        (1, Receive(1)),
        (0, Receive(2)),
        (2, Send(0)),
        (1, Wait(0)),
    ];
    let open = program(3, &[(2, 1), (0, 1), (1, 0)], &all);
    let mut told = Told::of(&open);
    told.from_anybody = true;
    assert_eq!(told.all(&open).len(), 0);
    assert_eq!(Told::of(&open).all(&open).len(), 1);
}

#[test]
fn a_call_that_was_told_waits_for_nothing_any_more() {
    use Action::{Receive, Send};
    let mut unbuffered = Unbuffered::default();
    let once = program(2, &[(0, 1), (1, 0)], &[(0, Send(0)), (1, Send(1)), (0, Receive(1)), (1, Receive(0))]);
    for time in 0..10 {
        let mut told = Told { unbuffered, ..Told::of(&once) };
        for side in told.posts.iter_mut().flatten().flatten() {
            side.1 += 2 * time;
        }
        told.numbers = vec![2 * time; 2];
        for (rank, action) in &once.actions {
            told.run(&once, *rank, *action);
        }
        unbuffered = told.unbuffered;
    }
    unbuffered
        .find_places(|_, at| Some(CodePlace { offset_bytes: at, ..CodePlace::default() }), |_| Vec::new());
    // A call is known by its place, which are its numbers here.
    assert_eq!(unbuffered.found().count(), 10);
    assert_eq!((unbuffered.steps, unbuffered.messages.len(), unbuffered.awaited.len()), (0, 0, 0));
}

#[test]
fn one_that_runs_far_ahead_is_let_go_and_too_much_is_given_up() {
    let mut unbuffered = Unbuffered::default();
    for number in 1..=(MOST_STEPS_OF_ONE as u32 + 10) {
        let id = call(0, number);
        let message = MessageId { call: id, part: 0 };
        unbuffered.post(&op(message, true, Some(1)));
        unbuffered.complete(message);
        unbuffered.over(row("MPI_Send").expect("a call"), 1, id, None);
    }
    assert_eq!(unbuffered.steps, MOST_STEPS_OF_ONE);
    assert_eq!(unbuffered.messages.len(), MOST_STEPS_OF_ONE);
    unbuffered.stop();
    unbuffered.post(&op(MessageId::default(), true, Some(1)));
    assert_eq!((unbuffered.steps, unbuffered.messages.len()), (0, 0));
}

#[test]
fn collective_calls_gather_all_but_on_windows_among_neighbours_and_to_free() {
    let gathers = |name: &&str| gathers(row(name).unwrap_or_else(|| panic!("{name}")));
    let all = [
        "MPI_Barrier",
        "MPI_Bcast",
        "MPI_Ibcast",
        "MPI_Alltoallw",
        "MPI_Scan",
        "MPI_Gatherv",
        "MPI_Comm_dup",
    ];
    let none = [
        "MPI_Win_fence",
        "MPI_Win_create",
        "MPI_Neighbor_alltoall",
        "MPI_Ineighbor_allgatherv",
        "MPI_Comm_free",
    ];
    assert_eq!(all.iter().filter(|name| !gathers(name)).collect::<Vec<_>>(), Vec::<&&str>::new());
    assert_eq!(none.iter().filter(|name| gathers(name)).collect::<Vec<_>>(), Vec::<&&str>::new());
}
