//! Who is in communicators that are made of grids, of those that share memory, and of two groups. The library is MPICH.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::common::calls::{ANY_SOURCE, Job, POINTER, TAG, WORLD};
use analyzer::input::Input;
use analyzer::messages::{LeakKind, MessageEvent, MessageId};
use analyzer::options::Options;
use analyzer::pipeline::Pipeline;

const NO_INFO: u64 = 0x1c00_0000;
const SHARED: u64 = 1;
const UNDEFINED: u64 = -32766i64 as u64;
/// Handles that tests give out.
const HALF: u64 = 0x8400_0001;
const INTER: u64 = 0x8400_0002;
const OTHER: u64 = 0x8400_0003;
const GROUP: u64 = 0x8800_0001;

trait Communicating {
    /// A call that ranks make together: none returns before all have begun.
    fn together(&mut self, ranks: Range<u32>, name: &str, args: impl Fn(u32) -> [u64; 6], made: (u32, u64));
    fn split_type(&mut self, args: impl Fn(u32) -> (u64, i32, u64));
    /// A grid of all, and of it what remains.
    fn grid(&mut self, sizes: &[i32], remain: &[i32]);
    /// Two halves, which know each other: the lower ranks led by their last one, the higher ones by their first.
    fn between(&mut self);
    /// `leaders`: the own one's rank in the half, the other one's in the world. Others than leaders pass what means
    /// nothing.
    fn bridge(&mut self, leaders: impl Fn(u32) -> [u64; 2]);
    fn merge(&mut self, high: impl Fn(u32) -> u64);
    fn send_in(&mut self, rank: u32, comm: u64, dest: u64);
    /// `told`: the source in the status.
    fn receive_in(&mut self, rank: u32, comm: u64, source: u64, told: i32);
    /// Which receive got which send.
    fn told(self) -> (Pipeline, Vec<(MessageId, MessageId)>);
    /// Ranks of MPI_COMM_WORLD: who sent, and who received it.
    fn matched(self) -> Vec<(u32, u32)>;
}

impl Communicating for Job {
    fn together(&mut self, ranks: Range<u32>, name: &str, args: impl Fn(u32) -> [u64; 6], made: (u32, u64)) {
        ranks.clone().for_each(|rank| self.begin(rank, name, args(rank), 0));
        ranks.for_each(|rank| self.over(rank, name, Some(made)));
    }

    fn split_type(&mut self, args: impl Fn(u32) -> (u64, i32, u64)) {
        let args = |rank| {
            let (kind, key, info) = args(rank);
            [WORLD, kind, u64::from(key.cast_unsigned()), info, POINTER, 0]
        };
        self.together(0..self.ranks, "MPI_Comm_split_type", args, (4, OTHER));
    }

    fn grid(&mut self, sizes: &[i32], remain: &[i32]) {
        let (create, sub) = ("MPI_Cart_create", "MPI_Cart_sub");
        for rank in 0..self.ranks {
            self.begin(rank, create, [WORLD, sizes.len() as u64, POINTER, POINTER, 0, POINTER], 0);
            self.points(rank, create, 2, false, sizes);
            self.over(rank, create, Some((5, INTER)));
        }
        self.together(0..self.ranks, "MPI_Comm_dup", |_| [INTER, POINTER, 0, 0, 0, 0], (1, HALF));
        for rank in 0..self.ranks {
            self.begin(rank, sub, [HALF, POINTER, POINTER, 0, 0, 0], 0);
            if !remain.is_empty() {
                self.points(rank, sub, 1, false, remain);
            }
            self.over(rank, sub, Some((2, OTHER)));
        }
    }

    fn between(&mut self) {
        let half = self.ranks / 2;
        let args = |rank| [WORLD, u64::from(rank >= half), 0, POINTER, 0, 0];
        self.together(0..self.ranks, "MPI_Comm_split", args, (3, HALF));
        self.bridge(|rank| if rank < half { [half - 1, half] } else { [0, half - 1] }.map(u64::from));
    }

    fn bridge(&mut self, leaders: impl Fn(u32) -> [u64; 2]) {
        let half = self.ranks / 2;
        let args = |rank| {
            let [own, other] = leaders(rank);
            let is_leader = rank - if rank < half { 0 } else { half } == own as u32;
            let [peer, other] = if is_leader { [WORLD, other] } else { [0x9999, 0xffff_ffff] };
            [HALF, own, peer, other, 9, POINTER]
        };
        self.together(0..self.ranks, "MPI_Intercomm_create", args, (5, INTER));
    }

    fn merge(&mut self, high: impl Fn(u32) -> u64) {
        let args = |rank| [INTER, high(rank), POINTER, 0, 0, 0];
        self.together(0..self.ranks, "MPI_Intercomm_merge", args, (2, OTHER));
    }

    fn send_in(&mut self, rank: u32, comm: u64, dest: u64) {
        self.call(rank, "MPI_Send", [0x1000, 8, 5, dest, TAG, comm], 0, None);
    }

    fn receive_in(&mut self, rank: u32, comm: u64, source: u64, told: i32) {
        self.begin(rank, "MPI_Recv", [0x1000, 8, 5, source, TAG, comm], 0);
        self.points(rank, "MPI_Recv", 6, true, &[8, 0, told, TAG as i32, 0]);
        self.over(rank, "MPI_Recv", None);
    }

    fn told(self) -> (Pipeline, Vec<(MessageId, MessageId)>) {
        let mut pipeline = Pipeline::with_events(Options::default());
        let mut matched = Vec::new();
        for input in self.t.end() {
            pipeline.push(&input);
            let events = pipeline.take_events().into_iter();
            matched.extend(events.filter_map(|event| match event {
                MessageEvent::Matched { send, receive } => Some((send, receive)),
                _ => None,
            }));
        }
        (pipeline, matched)
    }

    fn matched(self) -> Vec<(u32, u32)> {
        self.told().1.into_iter().map(|(send, receive)| (send.call.rank, receive.call.rank)).collect()
    }
}

#[test]
fn those_that_share_memory_are_in_order_of_their_keys() {
    let mut job = Job::begun(3);
    job.split_type(|rank| (if rank == 1 { UNDEFINED } else { SHARED }, -(rank as i32), NO_INFO));
    job.send_in(0, OTHER, 0);
    job.receive_in(2, OTHER, 1, 1);
    // Who gave no type is in nothing.
    job.send_in(1, OTHER, 0);
    assert_eq!(job.matched(), [(0, 2)]);
}

#[test]
fn who_shares_memory_is_not_known_if_a_member_was_never_seen() {
    let mut job = Job::begun(3);
    let args = |_| [WORLD, SHARED, 0, NO_INFO, POINTER, 0];
    job.together(0..2, "MPI_Comm_split_type", args, (4, OTHER));
    job.send_in(0, OTHER, 1);
    job.receive_in(1, OTHER, 0, 0);
    assert_eq!(job.matched(), []);
}

#[test]
fn who_shares_memory_is_not_known_in_containers_with_hints_or_by_other_types() {
    let talks = |mut job: Job| {
        job.send_in(0, OTHER, 1);
        job.receive_in(1, OTHER, 0, 0);
        job.matched()
    };
    for (kind, info, matched) in [
        (SHARED, NO_INFO, &[(0, 1)][..]),
        (SHARED, 0x9c00_0000, &[]),
        (2, NO_INFO, &[]),
        (0x8000_0000, NO_INFO, &[]),
    ] {
        let mut job = Job::begun(2);
        job.split_type(|_| (kind, 0, info));
        assert_eq!(talks(job), matched, "{kind} {info:#x}");
    }
    let mut job = Job::begun(2);
    for input in &mut job.t.inputs {
        if let Input::Process(facts) = input
            && facts.rank == Some(1)
        {
            facts.pid_namespace = 2;
        }
    }
    job.split_type(|_| (SHARED, 0, NO_INFO));
    assert_eq!(talks(job), []);
}

#[test]
fn parts_of_a_grids_duplicate_have_those_of_the_same_coordinates() {
    let mut job = Job::begun(6);
    job.grid(&[2, 3], &[1, 0, 7, 7]);
    // Columns: 0 and 3, 1 and 4, 2 and 5.
    job.send_in(4, OTHER, 0);
    job.receive_in(1, OTHER, 1, 1);
    job.send_in(2, OTHER, 1);
    job.receive_in(5, OTHER, ANY_SOURCE, 0);
    assert_eq!(job.matched(), [(4, 1), (2, 5)]);
}

#[test]
fn of_grids_that_cannot_be_nothing_is_matched() {
    let absurd: [(&[i32], &[i32]); 6] = [
        (&[2, 3], &[]),
        (&[2, 3], &[1]),
        (&[-2, -3], &[1, 0]),
        (&[0, 3], &[1, 0]),
        (&[i32::MAX, i32::MAX, i32::MAX], &[1, 1, 1]),
        (&[], &[1, 1]),
    ];
    for (sizes, remain) in absurd {
        let mut job = Job::begun(6);
        job.grid(sizes, remain);
        job.send_in(0, OTHER, 0);
        job.receive_in(0, OTHER, 0, 0);
        assert_eq!(job.matched(), [], "{sizes:?} {remain:?}");
    }
}

#[test]
fn calls_on_an_intercommunicator_name_ranks_of_the_other_group() {
    let mut job = Job::begun(5);
    job.between();
    job.send_in(0, INTER, 0);
    job.receive_in(2, INTER, 0, 0);
    job.send_in(4, INTER, 0);
    job.receive_in(0, INTER, ANY_SOURCE, 2);
    // Nobody has this rank on the other side.
    job.send_in(4, INTER, 2);
    job.receive_in(2, INTER, 2, 2);
    assert_eq!(job.matched(), [(0, 2), (4, 0)]);
}

#[test]
fn duplicates_and_parts_of_an_intercommunicator_have_two_groups() {
    let mut job = Job::begun(4);
    job.between();
    job.together(0..job.ranks, "MPI_Comm_dup", |_| [INTER, POINTER, 0, 0, 0, 0], (1, OTHER));
    job.send_in(1, OTHER, 0);
    job.receive_in(2, OTHER, 1, 1);
    let args = |rank| [OTHER, u64::from(rank % 2), 0, POINTER, 0, 0];
    job.together(0..job.ranks, "MPI_Comm_split", args, (3, HALF));
    job.send_in(3, HALF, 0);
    job.receive_in(1, HALF, 0, 0);
    assert_eq!(job.matched(), [(1, 2), (3, 1)]);
}

#[test]
fn merged_groups_are_in_the_order_that_they_asked_for() {
    for (high, matched) in [([0, 1], &[(0, 2)][..]), ([5, 0], &[(0, 0)]), ([0, 0], &[]), ([1, 1], &[])] {
        let mut job = Job::begun(4);
        job.between();
        job.merge(|rank| high[usize::from(rank >= 2)]);
        job.send_in(0, OTHER, 2);
        job.receive_in(2, OTHER, 0, 0);
        job.receive_in(0, OTHER, 2, 2);
        assert_eq!(job.matched(), matched, "{high:?}");
    }
}

#[test]
fn groups_of_an_intercommunicator_are_those_of_both_sides() {
    let mut job = Job::begun(4);
    job.between();
    // The group of the higher ranks.
    for rank in 0..4 {
        let function = if rank < 2 { "MPI_Comm_remote_group" } else { "MPI_Comm_group" };
        job.call(rank, function, [INTER, POINTER, 0, 0, 0, 0], 0, Some((1, GROUP)));
    }
    job.together(0..job.ranks, "MPI_Comm_create", |_| [WORLD, GROUP, POINTER, 0, 0, 0], (2, OTHER));
    job.send_in(2, OTHER, 1);
    job.receive_in(3, OTHER, 0, 0);
    assert_eq!(job.matched(), [(2, 3)]);
}

#[test]
fn leaders_that_name_nobody_lead_nowhere() {
    let absurd = [u64::MAX, 4, 0x7fff_ffff, 0x8000_0000];
    for other in absurd {
        let mut job = Job::begun(4);
        job.between();
        job.bridge(|rank| [0, if rank < 2 { other } else { 0 }]);
        job.send_in(0, INTER, 0);
        job.receive_in(2, INTER, 0, 0);
        // From there on it is not known which calls of leaders belong together.
        job.bridge(|rank| [0, if rank < 2 { 2 } else { 0 }]);
        job.send_in(0, INTER, 0);
        job.receive_in(2, INTER, 0, 0);
        assert_eq!(job.matched(), [], "{other:#x}");
    }
}

#[test]
fn what_is_open_at_the_end_in_an_intercommunicator_is_named_as_its_call_did() {
    let mut job = Job::begun(4);
    job.between();
    job.send_in(0, INTER, 1);
    job.finalize();
    let (pipeline, _) = job.told();
    let mut left = pipeline.messages().leaks();
    left.retain(|left| left.what == LeakKind::Message);
    assert_eq!((left.len(), left[0].rank, &left[0].peers[..]), (1, 0, &[3][..]));
    assert_eq!(left[0].arguments[0], ("dest", "1".to_owned()));
}

#[test]
fn a_request_open_at_the_end_in_a_communicator_that_is_not_known_is_named_as_its_call_did() {
    let mut job = Job::begun(2);
    job.begin(0, "MPI_Isend", [0x1000, 8, 5, 1, TAG, OTHER], 0);
    job.points(0, "MPI_Isend", 6, false, &[POINTER as i32, 0]);
    job.over(0, "MPI_Isend", Some((6, 7)));
    job.finalize();
    let left = job.told().0.messages().leaks();
    assert_eq!((left.len(), left[0].arguments[0].clone()), (1, ("dest", "1".to_owned())));
}

#[test]
fn a_request_open_at_the_end_in_a_communicator_that_was_given_back_says_so() {
    let mut job = Job::begun(2);
    job.together(0..2, "MPI_Comm_dup", |_| [WORLD, POINTER, 0, 0, 0, 0], (1, OTHER));
    job.begin(0, "MPI_Isend", [0x1000, 8, 5, 1, TAG, OTHER], 0);
    job.points(0, "MPI_Isend", 6, false, &[POINTER as i32, 0]);
    job.over(0, "MPI_Isend", Some((6, 7)));
    job.receive_in(1, OTHER, 0, 0);
    for rank in 0..2 {
        job.begin(rank, "MPI_Comm_free", [POINTER, 0, 0, 0, 0, 0], 0);
        job.points(rank, "MPI_Comm_free", 0, false, &[OTHER as i32]);
        job.over(rank, "MPI_Comm_free", None);
    }
    job.finalize();
    let left = job.told().0.messages().leaks();
    let comm = left[0].arguments.iter().find(|(name, _)| *name == "comm").map(|(_, value)| &value[..]);
    assert!(comm.is_some_and(|comm| comm.ends_with(" (freed since)")), "{comm:?}");
}

#[test]
fn handles_that_point_nowhere_make_nothing() {
    let absurd = [0, u64::MAX, 0x8000_0000, 0xdead_beef];
    let mut job = Job::begun(2);
    for (function, made) in [
        ("MPI_Intercomm_create", 5),
        ("MPI_Intercomm_merge", 2),
        ("MPI_Cart_sub", 2),
        ("MPI_Comm_split_type", 4),
        ("MPI_Comm_remote_group", 1),
    ] {
        for word in absurd {
            job.together(0..2, function, |_| [word; 6], (made, OTHER));
            job.together(0..2, function, |_| [WORLD, word, word, word, word, word], (made, OTHER));
            job.send_in(0, OTHER, 0);
            job.receive_in(0, OTHER, 0, 0);
        }
    }
    assert_eq!(job.matched(), []);
}

/// Numbers that look random.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn of(&mut self, all: &[u64]) -> u64 {
        all[self.roll(all.len() as u64) as usize]
    }

    fn integer(&mut self) -> i32 {
        [-1, 0, 1, 1, 2, 2, 3, i32::MAX, i32::MIN][self.roll(9) as usize]
    }

    fn comm(&mut self) -> u64 {
        self.of(&[WORLD, WORLD, HALF, INTER, OTHER, 0x0400_0000, u64::MAX])
    }
}

const MAKERS: [(&str, u32); 8] = [
    ("MPI_Comm_dup", 1),
    ("MPI_Comm_split", 3),
    ("MPI_Comm_split_type", 4),
    ("MPI_Cart_create", 5),
    ("MPI_Cart_sub", 2),
    ("MPI_Intercomm_create", 5),
    ("MPI_Intercomm_merge", 2),
    ("MPI_Comm_create", 2),
];

/// A call that makes a communicator, of all ranks or of some, which mostly pass the same.
fn make(job: &mut Job, dice: &mut Dice) {
    let (function, made) = MAKERS[dice.roll(8) as usize];
    let ranks: Vec<u32> = (0..4).filter(|_| dice.roll(12) > 0).collect();
    let comm = dice.comm();
    let handle = dice.of(&[HALF, INTER, OTHER]);
    let integers: [i32; 10] = std::array::from_fn(|_| dice.integer());
    for rank in &ranks {
        let integer = |dice: &mut Dice| match dice.roll(4) {
            0 => u64::from(dice.integer().cast_unsigned()),
            1 => u64::from(*rank),
            _ => u64::from(*rank / 2),
        };
        let [first, second] = [integer(dice), integer(dice)];
        let args = match function {
            "MPI_Comm_split_type" => [comm, dice.of(&[SHARED, SHARED, 7]), first, NO_INFO, POINTER, 0],
            "MPI_Cart_create" => [comm, 2, POINTER, POINTER, 0, POINTER],
            "MPI_Intercomm_create" => [comm, first, dice.comm(), second, 0, POINTER],
            "MPI_Comm_create" => [comm, GROUP, POINTER, 0, 0, 0],
            _ => [comm, first, second, POINTER, 0, 0],
        };
        job.begin(*rank, function, args, 0);
        match function {
            "MPI_Cart_create" => job.points(*rank, function, 2, false, &integers[..2]),
            "MPI_Cart_sub" => job.points(*rank, function, 1, false, &integers),
            _ => {}
        }
    }
    ranks.iter().for_each(|rank| job.over(*rank, function, Some((made, handle))));
}

#[test]
fn whatever_ranks_pass_a_message_is_received_once_at_most() {
    let mut dice = Dice(5);
    let mut matched = 0;
    for _ in 0..1000 {
        let mut job = Job::begun(4);
        for _ in 0..60 {
            let (rank, comm, peer) = (dice.roll(4) as u32, dice.comm(), dice.integer());
            let group = ["MPI_Comm_group", "MPI_Comm_remote_group"][dice.roll(2) as usize];
            match dice.roll(8) {
                0 | 1 => job.send_in(rank, comm, u64::from(peer.cast_unsigned())),
                2 => job.receive_in(rank, comm, u64::from(peer.cast_unsigned()), peer),
                6 => job.receive_in(rank, comm, u64::from(rank ^ 1), peer),
                3 if dice.roll(8) == 0 => job.receive_in(rank, comm, ANY_SOURCE, peer),
                3 => job.send_in(rank, comm, u64::from(rank ^ 1)),
                4 => job.call(rank, group, [comm, POINTER, 0, 0, 0, 0], 0, Some((1, GROUP))),
                5 if dice.roll(6) == 0 => {
                    job.begin(rank, "MPI_Comm_free", [POINTER, 0, 0, 0, 0, 0], 0);
                    job.points(rank, "MPI_Comm_free", 0, false, &[comm as i32]);
                    job.over(rank, "MPI_Comm_free", None);
                }
                _ => make(&mut job, &mut dice),
            }
        }
        let (pipeline, pairs) = job.told();
        let sends: BTreeSet<MessageId> = pairs.iter().map(|pair| pair.0).collect();
        let receives: BTreeSet<MessageId> = pairs.iter().map(|pair| pair.1).collect();
        assert_eq!((sends.len(), receives.len()), (pairs.len(), pairs.len()));
        let _ = pipeline.messages().leaks();
        matched += pairs.len();
    }
    assert!(matched > 500, "{matched}");
}
