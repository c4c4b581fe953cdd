//! Races of random programs, against all that a reference of matching can do.

mod executor;

use std::collections::{BTreeSet, HashSet};

use executor::{Machine, Op, Program, Step};
use proptest::prelude::*;
use replay::races::{Alternative, CallPart, MessagePart, Race, RaceKind, Races, with_choice};

/// What a run could have done otherwise, as the analysis names it: rank, call, kind, and what comes instead.
type Found = BTreeSet<(u32, u64, bool, Alternative2)>;
/// A sender and its call, or an index.
type Alternative2 = (u32, u64);

fn op(ranks: usize) -> impl Strategy<Value = Op> {
    let rank = 0..ranks;
    let source = proptest::option::weighted(0.3, rank.clone());
    let tag = proptest::option::weighted(0.5, 0..2_u32);
    prop_oneof![
        6 => (rank.clone(), 0..2_u32).prop_map(|(dest, tag)| Op::Send { dest, tag, is_synchronous: false }),
        1 => (rank.clone(), 0..2_u32).prop_map(|(dest, tag)| Op::Send { dest, tag, is_synchronous: true }),
        1 => (rank, 0..2_u32).prop_map(|(dest, tag)| Op::Isend { dest, tag }),
        4 => (source.clone(), tag.clone()).prop_map(|(source, tag)| Op::Recv { source, tag }),
        4 => (source.clone(), tag.clone()).prop_map(|(source, tag)| Op::Irecv { source, tag }),
        1 => (source, tag).prop_map(|(source, tag)| Op::Probe { source, tag }),
        2 => any::<u8>().prop_map(|which| Op::Wait(which.into())),
        2 => proptest::collection::vec(0..8_usize, 1..3).prop_map(Op::Waitany),
        1 => Just(Op::Barrier),
    ]
}

/// Waits name requests that there are.
fn sound(mut program: Program) -> Program {
    for ops in &mut program {
        let mut requests = 0;
        ops.retain_mut(|op| match op {
            Op::Wait(which) => {
                *which = which.checked_rem(requests).unwrap_or(0);
                requests > 0
            }
            Op::Waitany(all) => {
                all.iter_mut().for_each(|which| *which = which.checked_rem(requests).unwrap_or(0));
                all.sort_unstable();
                all.dedup();
                requests > 0
            }
            Op::Isend { .. } | Op::Irecv { .. } => {
                requests += 1;
                true
            }
            _ => true,
        });
    }
    program
}

fn programs(most: usize) -> impl Strategy<Value = Program> {
    (2..=4_usize)
        .prop_flat_map(move |ranks| {
            let len = most / ranks;
            proptest::collection::vec(proptest::collection::vec(op(ranks), 1..=len), ranks)
        })
        .prop_map(sound)
}

/// Goes on by chance until nothing can happen.
fn walk(machine: &mut Machine<'_>, run: &mut Vec<Step>, mut chance: u64) {
    loop {
        let steps = machine.steps();
        if steps.is_empty() {
            return;
        }
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let step = steps[(chance >> 33) as usize % steps.len()];
        machine.take(step);
        run.push(step);
    }
}

/// What else could come in place of a step; none if the step has no choice.
fn instead(machine: &Machine<'_>, program: &Program, step: Step) -> Vec<(u32, u64, bool, Alternative2)> {
    let steps = machine.steps();
    let message = |(from, at): (usize, usize)| (from as u32, machine.sent((from, at)).0 as u64 + 1);
    match step {
        Step::Match { rank, receive, message: was } => {
            let other = |next: &Step| match *next {
                Step::Match { rank: r, receive: which, message: m }
                    if (r, which) == (rank, receive) && m != was =>
                {
                    let (call, is_wild) = machine.posted(rank, receive);
                    is_wild.then(|| (rank as u32, call as u64 + 1, false, message(m)))
                }
                _ => None,
            };
            steps.iter().filter_map(other).collect()
        }
        Step::End { rank, call, found: Some(was), .. } => {
            let other = |next: &Step| match *next {
                Step::End { rank: r, call: c, found: Some(m), .. } if (r, c) == (rank, call) && m != was => {
                    Some((rank as u32, call as u64 + 1, false, message(m)))
                }
                _ => None,
            };
            steps.iter().filter_map(other).collect()
        }
        Step::End { rank, call, taken: Some(was), .. } => {
            let Op::Waitany(requests) = &program[rank][call] else { return Vec::new() };
            let is_next = |at: usize| {
                steps.iter().any(|next| match *next {
                    Step::End { rank: r, call: c, taken, .. } => (r, c, taken) == (rank, call, Some(at)),
                    Step::Match { rank: r, receive, .. } => {
                        r == rank && machine.receive_of(rank, requests[at]) == Some(receive)
                    }
                    Step::Begin(_) => false,
                })
            };
            // It must have begun.
            if !machine.is_in(rank, call) {
                return Vec::new();
            }
            let others = (0..requests.len()).filter(|at| *at != was && is_next(*at));
            others.map(|at| (rank as u32, call as u64 + 1, true, (at as u32, 0))).collect()
        }
        _ => Vec::new(),
    }
}

/// By all orders in which the steps of a run can happen, without those that one of them keeps from happening.
fn brute_force(program: &Program, run: &[Step]) -> Found {
    let mut found = Found::new();
    for (at, without) in run.iter().enumerate() {
        if matches!(without, Step::Begin(_)) {
            continue;
        }
        let mut seen: HashSet<u64> = HashSet::new();
        let mut stack = vec![(Machine::new(program), 0_u64)];
        while let Some((machine, taken)) = stack.pop() {
            if !seen.insert(taken) {
                continue;
            }
            found.extend(instead(&machine, program, *without));
            let steps = machine.steps();
            for (next, step) in run.iter().enumerate() {
                let is_taken = taken >> next & 1 == 1;
                if next != at && !is_taken && steps.contains(step) && is_nth(run, next, taken, at) {
                    let mut machine = machine.clone();
                    machine.take(*step);
                    stack.push((machine, taken | 1 << next));
                }
            }
        }
    }
    found
}

/// Of equal steps (a rank begins its next call) only the first that is left counts.
fn is_nth(run: &[Step], next: usize, taken: u64, without: usize) -> bool {
    !(0..next).any(|before| before != without && taken >> before & 1 == 0 && run[before] == run[next])
}

fn named(races: &[Race]) -> Found {
    let mut found = Found::new();
    for race in races {
        for other in &race.others {
            let name = match *other {
                Alternative::Message { source, call, .. } => (source, call),
                Alternative::Request { index } => (index, 0),
            };
            found.insert((race.rank, race.call, race.kind == RaceKind::Choice, name));
        }
    }
    found
}

fn races(program: &Program, run: &[Step]) -> Races {
    let journals = Machine::journals(program, run);
    let journals: Vec<&[u8]> = journals.iter().map(Vec::as_slice).collect();
    Races::find(&journals).expect("a run that was")
}

/// What came of a run: all matches, what probes have found, what was taken.
fn outcome(run: &[Step]) -> BTreeSet<Step> {
    let is_decided = |step: &&Step| match step {
        Step::Begin(_) => false,
        Step::Match { .. } => true,
        Step::End { found, taken, .. } => found.is_some() || taken.is_some(),
    };
    run.iter().filter(is_decided).copied().collect()
}

/// What can come of a program, by all ways that it can go; none if there are too many.
fn all_outcomes(program: &Program) -> Option<BTreeSet<BTreeSet<Step>>> {
    let mut outcomes = BTreeSet::new();
    let mut seen: HashSet<BTreeSet<Step>> = HashSet::new();
    let mut stack: Vec<(Machine<'_>, Vec<Step>)> = vec![(Machine::new(program), Vec::new())];
    while let Some((machine, run)) = stack.pop() {
        let steps = machine.steps();
        if steps.is_empty() {
            outcomes.insert(outcome(&run));
        }
        for step in steps {
            let mut run = run.clone();
            run.push(step);
            // What has happened says where the ranks are: a call that has begun is counted.
            let begun = run.iter().enumerate().map(|(at, step)| match step {
                Step::Begin(rank) => {
                    Step::Match { rank: *rank, receive: usize::MAX, message: (count(&run[..at], *rank), 0) }
                }
                other => *other,
            });
            if seen.len() > 20_000 {
                return None;
            }
            if seen.insert(begun.collect()) {
                let mut machine = machine.clone();
                machine.take(step);
                stack.push((machine, run));
            }
        }
    }
    Some(outcomes)
}

fn count(run: &[Step], rank: usize) -> usize {
    run.iter().filter(|step| **step == Step::Begin(rank)).count()
}

/// Plays all of a run that can happen without a step, then takes another in its place, and goes on by chance.
fn turned_round(
    program: &Program,
    run: &[Step],
    race: &Race,
    other: Alternative,
    chance: u64,
) -> Option<Vec<Step>> {
    let at = run.iter().position(|step| is_place(program, run, *step, race))?;
    let mut machine = Machine::new(program);
    let mut left: Vec<Step> =
        run.iter().enumerate().filter(|(next, _)| *next != at).map(|(_, s)| *s).collect();
    let mut new = Vec::new();
    loop {
        let steps = machine.steps();
        let Some(next) = left.iter().position(|step| steps.contains(step)) else { break };
        let step = left.remove(next);
        machine.take(step);
        new.push(step);
    }
    let wanted = |machine: &Machine<'_>| {
        machine.steps().into_iter().find(|step| match (*step, run[at], other) {
            (
                Step::Match { rank, receive, message },
                Step::Match { rank: r, receive: which, .. },
                Alternative::Message { source, .. },
            ) => (rank, receive, message.0) == (r, which, source as usize),
            (
                Step::End { rank, found: Some(found), .. },
                Step::End { rank: r, found: Some(_), .. },
                Alternative::Message { source, .. },
            ) => (rank, found.0) == (r, source as usize),
            (
                Step::End { rank, taken: Some(taken), .. },
                Step::End { rank: r, taken: Some(_), .. },
                Alternative::Request { index },
            ) => (rank, taken) == (r, index as usize),
            _ => false,
        })
    };
    if wanted(&machine).is_none()
        && let (Step::End { rank, call, .. }, Alternative::Request { index }) = (run[at], other)
    {
        // Its receive gets a message first.
        let Op::Waitany(requests) = &program[rank][call] else { return None };
        let receive = machine.receive_of(rank, requests[index as usize]);
        let first = machine.steps().into_iter().find(|step| {
            matches!(*step, Step::Match { rank: r, receive: which, .. } if r == rank && Some(which) == receive)
        })?;
        machine.take(first);
        new.push(first);
    }
    let step = wanted(&machine)?;
    machine.take(step);
    new.push(step);
    walk(&mut machine, &mut new, chance);
    Some(new)
}

/// Whether a step of a run is where a race is.
fn is_place(program: &Program, run: &[Step], step: Step, race: &Race) -> bool {
    let mut machine = Machine::new(program);
    run.iter().for_each(|step| machine.take(*step));
    match (step, race.kind) {
        (Step::Match { rank, receive, .. }, RaceKind::Receive | RaceKind::Posted) => {
            rank as u32 == race.rank && machine.posted(rank, receive).0 as u64 + 1 == race.call
        }
        (Step::End { rank, call, found: Some(_), .. }, RaceKind::Probe)
        | (Step::End { rank, call, taken: Some(_), .. }, RaceKind::Choice) => {
            (rank as u32, call as u64 + 1) == (race.rank, race.call)
        }
        _ => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn races_are_those_that_all_interleavings_have(program in programs(16), chance in any::<u64>()) {
        let mut run = Vec::new();
        walk(&mut Machine::new(&program), &mut run, chance);
        prop_assume!(run.len() < 64);
        let races = races(&program, &run);
        prop_assert_eq!(named(&races.found), brute_force(&program, &run), "{:?}", run);
    }

    #[test]
    fn pictures_of_races_show_what_came_from_left_to_right(program in programs(16), chance in any::<u64>()) {
        let mut run = Vec::new();
        walk(&mut Machine::new(&program), &mut run, chance);
        let races = races(&program, &run);
        for race in &races.found {
            let drawn = races.diagram(race);
            let own: Vec<_> = drawn.calls.iter().filter(|call| call.part == CallPart::Race).collect();
            prop_assert_eq!(own.len(), 1);
            prop_assert_eq!(own[0].call, race.call);
            prop_assert_eq!(drawn.ranks[own[0].row as usize], race.rank);
            for call in &drawn.calls {
                prop_assert!(call.columns[0] < call.columns[1] && call.columns[1] < drawn.columns);
            }
            for message in &drawn.messages {
                let [from, to] = [message.from, message.to].map(|call| &drawn.calls[call as usize]);
                let is_drawn_right = from.columns[0] < to.columns[1];
                // Nobody has waited for the receive: it is drawn where it was posted.
                let is_open = race.kind == RaceKind::Posted && to.part == CallPart::Race;
                prop_assert!(is_drawn_right || is_open || message.part == MessagePart::Possible, "{drawn:?}");
            }
            if race.kind != RaceKind::Choice {
                let possible = drawn.messages.iter().filter(|message| message.part == MessagePart::Possible);
                prop_assert_eq!(possible.count(), race.others.len());
                let taken = drawn.messages.iter().filter(|message| message.part == MessagePart::Taken);
                prop_assert_eq!(taken.count(), 1);
            }
        }
    }

    #[test]
    fn turning_races_round_again_and_again_comes_to_all_that_can_happen(
        program in programs(12), chance in any::<u64>(),
    ) {
        let Some(all) = all_outcomes(&program) else { return Ok(()) };
        let mut run = Vec::new();
        walk(&mut Machine::new(&program), &mut run, chance);
        let mut outcomes = BTreeSet::new();
        let mut visited: HashSet<u64> = HashSet::new();
        let mut waiting = vec![run];
        while let Some(run) = waiting.pop() {
            outcomes.insert(outcome(&run));
            let races = races(&program, &run);
            visited.extend(&races.decided);
            for race in &races.found {
                for other in &race.others {
                    if visited.insert(with_choice(race.signature, *other)) {
                        let new = turned_round(&program, &run, race, *other, chance);
                        prop_assert!(new.is_some(), "{race:?} cannot be turned round: {run:?}");
                        waiting.extend(new);
                    }
                }
            }
        }
        prop_assert_eq!(outcomes, all);
    }
}

/// `$DMSCOPE_TEST_RACES`: how many random programs.
fn cases() -> u32 {
    std::env::var("DMSCOPE_TEST_RACES").ok().and_then(|text| text.parse().ok()).unwrap_or(300)
}
