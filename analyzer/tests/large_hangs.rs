//! Hangs of as many ranks as a session has at most: found at once, in little memory, and told in a few lines.

use std::time::Instant;

use analyzer::finding::{Alert, Evidence, Fault, Finding, Hang, HangGroup};
use analyzer::input::{
    CallInProgress, CodePlace, Input, Mapping, MpiFacts, MpiKind, ProcessFacts, Start, ThreadFacts,
    ThreadState, Threads,
};
use analyzer::options::Options;
use analyzer::pipeline::Pipeline;
use analyzer::process::Who;
use analyzer::render::{self, Style};
use analyzer::wire::FileId;

const RANKS: u32 = 1 << 16;
const OF_A_NODE: u32 = 64;
const S: u64 = 1_000_000_000;
const WORLD: u64 = 0x4400_0000;
const ANY: i32 = -2;
const FILE: FileId = FileId { dev: 1, inode: 7 };
const MOST_LOOKS: u64 = 20;
/// Of one evaluation, on a machine that does other things as well.
const MOST_EVALUATION_S: f64 = 5.0;
/// A page of text, and what a program reads of it.
const MOST_LINES: usize = 40;
const MOST_TEXT_BYTES: usize = 8 << 10;
const MOST_JSON_BYTES: usize = 256 << 10;
/// The same where no two neighbours do the same.
const MOST_SCATTERED_BYTES: usize = 2 << 20;

/// What a rank is found doing.
#[derive(Clone, Copy)]
enum At {
    Call(&'static str, u64, [u64; 6]),
    Sleeps,
    Stopped,
}

fn word(value: i32) -> u64 {
    u64::from(value as u32)
}

fn receive(source: i32) -> At {
    At::Call("MPI_Recv", 0x100, [0x1000, 1, 5, word(source), 9, WORLD])
}

fn barrier() -> At {
    At::Call("MPI_Barrier", 0x200, [WORLD, 0, 0, 0, 0, 0])
}

fn broadcast(root: i32) -> At {
    At::Call("MPI_Bcast", 0x300, [0x1000, 1, 5, word(root), WORLD, 0])
}

fn thread(rank: u32, at: At, ran_ns: u64) -> ThreadFacts {
    let place = |offset_bytes| CodePlace { file: FILE, offset_bytes };
    let (state, ran_ns) = match at {
        At::Stopped => (ThreadState::Stopped, 0),
        At::Sleeps => (ThreadState::Sleeping, 0),
        At::Call(..) => (ThreadState::Running, ran_ns),
    };
    let call = match at {
        At::Call(function, site, arguments) => Some(CallInProgress {
            function: function.to_owned(),
            mpi: Some(MpiFacts { kind: MpiKind::Mpich, comm_world: Some(WORLD) }),
            site: Some(place(site)),
            return_slot: 0x7000_0000,
            arguments: arguments.map(Some).into(),
            ..CallInProgress::default()
        }),
        At::Sleeps | At::Stopped => None,
    };
    let frames = (0..12).map(|frame| place(0x1000 + frame * 0x40)).collect();
    ThreadFacts { pid: 1000 + rank, tid: 1000 + rank, state, ran_ns, call, frames, cut: None }
}

/// A job of all ranks that is looked at each second until something is found; alerts as they come, and how long the longest
/// evaluation took.
fn watched(at: impl Fn(u32) -> At) -> (Vec<Finding>, f64) {
    let mut pipeline = Pipeline::new(Options::default());
    pipeline.push(&Input::Start(Box::new(Start { time_ns: S, ..Start::default() })));
    for rank in 0..RANKS {
        pipeline.push(&Input::Process(Box::new(ProcessFacts {
            pid: 1000 + rank,
            namespace_pid: 1000 + rank,
            pid_namespace: 1,
            rank: Some(rank),
            size: Some(RANKS),
            exe: "/bin/job".into(),
            mappings: Vec::<Mapping>::new(),
            time_ns: S,
        })));
    }
    let mut longest_s = 0f64;
    let mut raised = Vec::new();
    for second in 2..MOST_LOOKS {
        let time_ns = second * S;
        for node in 0..RANKS / OF_A_NODE {
            let ranks = node * OF_A_NODE..(node + 1) * OF_A_NODE;
            let threads = ranks.map(|rank| thread(rank, at(rank), second * S / 2)).collect();
            pipeline.push(&Input::Threads(Box::new(Threads { time_ns, threads })));
        }
        let begun = Instant::now();
        pipeline.push(&Input::Tick { time_ns });
        longest_s = longest_s.max(begun.elapsed().as_secs_f64());
        raised.extend(pipeline.take_alerts().into_iter().filter_map(|alert| match alert {
            Alert::Raised(finding) => Some(*finding),
            Alert::Withdrawn { .. } => None,
        }));
        if !raised.is_empty() {
            break;
        }
    }
    (raised, longest_s)
}

fn hang(finding: &Finding) -> &Hang {
    match &finding.evidence {
        Evidence::Hang(hang) => hang,
        other => panic!("no hang: {other:?}"),
    }
}

fn ranks(who: &[Who]) -> Vec<u32> {
    who.iter().map(|who| if let Who::Rank(rank) = who { *rank } else { panic!("no rank") }).collect()
}

/// The one finding, of this fault and these ranks; all others wait for them.
fn is_found(name: &str, at: impl Fn(u32) -> At, fault: Fault, at_fault: &[u32]) -> Finding {
    let (mut found, longest_s) = watched(at);
    let finding = found.pop().unwrap_or_else(|| panic!("{name}: nothing is found"));
    assert!(found.is_empty(), "{name}: {} more", found.len());
    let text = render::finding(&finding, Style::default());
    let json = serde_json::to_string(&finding).expect("it has a form");
    println!("{name}: {longest_s:.2} s, {} bytes of JSON\n{text}", json.len());
    let of = hang(&finding);
    assert_eq!((of.fault, ranks(&of.who_at_fault())), (fault, at_fault.to_vec()), "{name}");
    assert_eq!(of.who_waits().len() + at_fault.len(), RANKS as usize, "{name}");
    assert!(longest_s < MOST_EVALUATION_S, "{name}: {longest_s} s");
    assert!(text.lines().count() <= MOST_LINES && text.len() <= MOST_TEXT_BYTES, "{name}: {text}");
    let neighbours = |group: &HangGroup| group.ranks.windows(2).any(|two| ranks(two)[0] + 1 == ranks(two)[1]);
    let is_scattered = of.groups.iter().all(|group| group.ranks.len() > 1 && !neighbours(group));
    let most = if is_scattered { MOST_SCATTERED_BYTES } else { MOST_JSON_BYTES };
    assert!(json.len() <= most, "{name}: {} bytes", json.len());
    assert_eq!(serde_json::from_str::<Finding>(&json).expect("what was written"), finding, "{name}");
    finding
}

#[test]
fn two_ranks_that_wait_for_each_other_and_all_others_for_them_are_told_in_a_few_lines() {
    let cycle = [3, RANKS - 7];
    let at = |rank| match cycle.iter().position(|one| *one == rank) {
        Some(own) => receive(cycle[1 - own] as i32),
        None => barrier(),
    };
    let finding = is_found("a deadlock", at, Fault::Deadlock, &cycle);
    let text = render::finding(&finding, Style::default());
    let wanted = [
        "Deadlock: ranks 3, 65529 wait for each other: rank 3 in MPI_Recv(count 1, source 65529, tag 9, comm MPI_COMM_WORLD)",
        "ranks 0-2, 4-65528, 65530-65535, waiting: MPI_Barrier(comm MPI_COMM_WORLD)",
        "waits for ranks 3, 65529",
    ];
    assert!(wanted.iter().all(|part| text.contains(part)), "{text}");
}

#[test]
fn all_ranks_that_wait_for_their_neighbours_are_one_group() {
    let all: Vec<u32> = (0..RANKS).collect();
    let at = |rank| receive(((rank + 1) % RANKS) as i32);
    let finding = is_found("a ring", at, Fault::Deadlock, &all);
    assert_eq!((hang(&finding).groups.len(), hang(&finding).ranks.len()), (1, 64));
    is_found("receives from anybody", |_| receive(ANY), Fault::Deadlock, &all);
}

#[test]
fn ranks_in_another_collective_call_than_the_rest_are_told_and_halves_of_them_too() {
    let odd = |rank| if rank == 17 { broadcast(0) } else { barrier() };
    is_found("one in another call", odd, Fault::MismatchedCollective, &[17]);
    let few: Vec<u32> = (0..RANKS).filter(|rank| rank % 1000 == 7).collect();
    let odd = |rank: u32| if rank % 1000 == 7 { broadcast(0) } else { barrier() };
    is_found("some in another call", odd, Fault::MismatchedCollective, &few);
    let all: Vec<u32> = (0..RANKS).collect();
    let half = |rank: u32| if rank.is_multiple_of(2) { broadcast(0) } else { barrier() };
    is_found("every second one in another call", half, Fault::MismatchedCollective, &all);
}

#[test]
fn a_node_that_is_stopped_or_does_nothing_is_one_finding() {
    let node: Vec<u32> = (640..704).collect();
    let at = |what: At| move |rank: u32| if (640..704).contains(&rank) { what } else { barrier() };
    is_found("a stopped node", at(At::Stopped), Fault::Stopped, &node);
    is_found("a node that sleeps", at(At::Sleeps), Fault::Outside, &node);
}

#[test]
fn a_hang_of_unknown_cause_is_told_by_what_ranks_are_in() {
    // What the requests of this call stand for is not known.
    let at = |rank: u32| match rank {
        5 => At::Call("MPI_Waitall", 0x400, [3, 0x1000, 0, 0, 0, 0]),
        _ => barrier(),
    };
    let (found, longest_s) = watched(at);
    let finding = found.first().expect("it is found");
    let text = render::finding(finding, Style::default());
    assert_eq!(hang(finding).fault, Fault::UnknownHang);
    assert!(text.contains("ranks 0-4, 6-65535: MPI_Barrier(comm MPI_COMM_WORLD)"), "{text}");
    assert!(text.contains("rank 5: MPI_Waitall") && text.lines().count() <= MOST_LINES, "{text}");
    assert!(longest_s < MOST_EVALUATION_S, "{longest_s} s");
}
