//! A rank of several threads gets what it got, however its threads are scheduled.

use proptest::prelude::*;
use replay::{Answer, AskedFor, Divergence, Due, Mark, Playback, ReceiveEnd, Recording, TurnDue};

/// What a thread does.
#[derive(Clone, Debug)]
enum Step {
    /// Posts a send.
    Send(u32),
    /// Posts a receive from anybody, which gets this rank's message at once.
    Post(u32),
    /// Asks for something that does not depend on an order.
    Ask(AskedFor, Answer),
    /// Polls for a message, and takes it if there is one.
    Take(Option<u32>),
}

impl Step {
    fn has_turn(&self) -> bool {
        matches!(self, Self::Send(_) | Self::Post(_) | Self::Take(Some(_)))
    }
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0_u32..5).prop_map(Step::Send),
        (0_u32..5).prop_map(Step::Post),
        Just(Step::Ask(AskedFor::Poll, Answer::Yes)),
        Just(Step::Ask(AskedFor::Poll, Answer::No)),
        (0_u32..8).prop_map(|index| Step::Ask(AskedFor::Index, Answer::Index(Some(index)))),
        proptest::option::of(0_u32..5).prop_map(Step::Take),
    ]
}

/// What each thread does, and in which order they are scheduled: numbers of threads, as far as these have something to do.
fn programs() -> impl Strategy<Value = (Vec<Vec<Step>>, Vec<usize>, Vec<usize>)> {
    let schedule = || proptest::collection::vec(0_usize..4, 0..300);
    (proptest::collection::vec(proptest::collection::vec(step(), 0..40), 1..5), schedule(), schedule())
}

/// Names that are the same in every run.
fn name(thread: usize) -> u64 {
    1000 + thread as u64
}

/// Who does its next step, until all have done all: as the schedule says, and then one after the other.
fn run(
    programs: &[Vec<Step>],
    schedule: &[usize],
    mut act: impl FnMut(usize, &Step) -> Result<bool, TestCaseError>,
) -> Result<(), TestCaseError> {
    let mut at = vec![0; programs.len()];
    let rest = (0..).map(|n| n % programs.len());
    let mut idle = 0;
    for thread in schedule.iter().copied().filter(|thread| *thread < programs.len()).chain(rest) {
        let has_done = match programs[thread].get(at[thread]) {
            Some(step) => act(thread, step)?,
            None => false,
        };
        at[thread] += usize::from(has_done);
        idle = if has_done { 0 } else { idle + 1 };
        if at.iter().zip(programs).all(|(at, program)| *at == program.len()) {
            return Ok(());
        }
        prop_assert!(idle <= schedule.len() + programs.len(), "nobody goes on: {at:?}");
    }
    Ok(())
}

/// The record of a run, and the order in which its threads had turns.
fn recorded(programs: &[Vec<Step>], schedule: &[usize]) -> (Vec<u8>, Vec<(usize, u32)>) {
    let (mut recording, mut out, mut turns) = (Recording::default(), Vec::new(), Vec::new());
    let mut numbers = vec![None; programs.len()];
    let mut requests = 0;
    numbers[0] = Some(0);
    let done = run(programs, schedule, |thread, step| {
        let number = *numbers[thread].get_or_insert_with(|| recording.add_thread(name(thread), &mut out));
        recording.speak(number);
        match step {
            Step::Send(to) => {
                recording.call(29, [*to as i32, 0, 0]);
                recording.turn(&mut out);
                turns.push((thread, *to));
            }
            Step::Post(from) => {
                recording.call(2, [0; 3]);
                recording.turn(&mut out);
                recording.posted(requests, &mut out);
                let number = recording.claim(requests).flatten().expect("it is open");
                recording.claimed_arrived(number, ReceiveEnd::From(*from), &mut out);
                requests += 1;
                turns.push((thread, *from));
            }
            Step::Ask(asked, answer) => {
                recording.call(*asked as u32, [0; 3]);
                recording.answer(answer.clone(), &mut out);
            }
            Step::Take(source) => {
                recording.call(11, [0; 3]);
                if let Some(source) = source {
                    recording.turn(&mut out);
                    turns.push((thread, *source));
                }
                recording.answer(source.map_or(Answer::No, |from| Answer::From(Some(from))), &mut out);
            }
        }
        Ok(true)
    });
    assert!(done.is_ok(), "a recording never waits");
    recording.mark(Mark::End, &mut out);
    (out, turns)
}

proptest! {
    #[test]
    fn threads_that_are_scheduled_otherwise_post_in_the_same_order_and_get_the_same(
        (programs, first, second) in programs(),
    ) {
        let (bytes, expected) = recorded(&programs, &first);
        let mut playback = Playback::new(bytes, 0).expect("a record");
        let mut turns = Vec::new();
        let mut has_begun = vec![false; programs.len()];
        run(&programs, &second, |thread, step| {
            let number = if thread == 0 { 0 } else { playback.thread(name(thread)) };
            playback.speak(number);
            // A call begins once, and may have to wait for its turn.
            if !std::mem::replace(&mut has_begun[thread], true) {
                let (call, to) = match step {
                    Step::Send(to) => (29, *to as i32),
                    Step::Post(_) => (2, 0),
                    Step::Ask(asked, _) => (*asked as u32, 0),
                    Step::Take(_) => (11, 0),
                };
                playback.call(call, [to, 0, 0]);
                if let Step::Ask(asked, answer) = step {
                    prop_assert_eq!(playback.due(*asked, 8), Ok(Due::Answer(answer.clone())));
                }
                if let Step::Take(source) = step {
                    let answer = source.map_or(Answer::No, |from| Answer::From(Some(from)));
                    prop_assert_eq!(playback.due(AskedFor::PollSource, 0), Ok(Due::Answer(answer)));
                }
            }
            if step.has_turn() {
                let due = playback.turn();
                if due == TurnDue::Later {
                    return Ok(false);
                }
                // Of a rank with one thread there is no order to keep.
                if due == TurnDue::Now {
                    playback.turn_taken();
                }
                match step {
                    Step::Post(from) => {
                        prop_assert_eq!(playback.posted(), Some(ReceiveEnd::From(*from)));
                        turns.push((thread, *from));
                    }
                    Step::Send(value) | Step::Take(Some(value)) => turns.push((thread, *value)),
                    _ => {}
                }
            }
            has_begun[thread] = false;
            Ok(true)
        })?;
        prop_assert_eq!(turns, expected);
        prop_assert!(playback.is_over() && playback.is_whole());
        prop_assert_eq!(playback.end(), Ok(()));
    }

    #[test]
    fn calls_of_each_thread_have_the_positions_that_they_had(calls in proptest::collection::vec((0_usize..4, 1_u64..300), 0..60)) {
        let (mut recording, mut out, mut position) = (Recording::default(), Vec::new(), 0);
        let mut expected = vec![Vec::new(); 4];
        let numbers: Vec<usize> =
            (0..4).map(|thread| if thread == 0 { 0 } else { recording.add_thread(name(thread), &mut out) }).collect();
        for (thread, behind) in &calls {
            position += behind;
            recording.speak(numbers[*thread]);
            recording.call(AskedFor::Poll as u32, [0; 3]);
            recording.answer(Answer::Yes, &mut out);
            recording.position(position, &mut out);
            expected[*thread].push(position);
        }
        let mut playback = Playback::new(out, 0).expect("a record");
        prop_assert_eq!(playback.last_position(), calls.last().map(|_| position));
        for (thread, expected) in expected.iter().enumerate().rev() {
            let number = if thread == 0 { 0 } else { playback.thread(name(thread)) };
            playback.speak(number);
            for position in expected {
                playback.call(AskedFor::Poll as u32, [0; 3]);
                prop_assert_eq!(playback.due(AskedFor::Poll, 0), Ok(Due::Answer(Answer::Yes)));
                prop_assert_eq!(playback.position(), Ok(Some(*position)));
            }
            prop_assert_eq!(playback.position(), Ok(None));
        }
    }

    #[test]
    fn a_record_that_was_cut_anywhere_is_played_to_there(
        (programs, schedule, _) in programs(),
        share in 0.0..1.0,
    ) {
        let (bytes, expected) = recorded(&programs, &schedule);
        let cut = (bytes.len() as f64 * share) as usize;
        // What is cut within an entry is refused, and nothing else.
        let Ok(mut playback) = Playback::new(bytes[..cut].to_vec(), 0) else { return Ok(()) };
        let mut is_behind = false;
        for (thread, _) in expected {
            let number = if thread == 0 { 0 } else { playback.thread(name(thread)) };
            playback.speak(number);
            match playback.turn() {
                TurnDue::Now => {
                    prop_assert!(!is_behind, "the order ends once");
                    playback.turn_taken();
                }
                // Nothing more is known, or this thread was not heard of and answers are left.
                TurnDue::Free | TurnDue::Later => is_behind = true,
            }
        }
    }
}

#[test]
fn polls_that_a_killed_rank_had_not_written_are_played_too() {
    let (mut recording, mut out) = (Recording::default(), Vec::new());
    let other = recording.add_thread(7, &mut out);
    for (thread, polls) in [(0, 2), (other, 3)] {
        recording.speak(thread);
        for _ in 0..polls {
            recording.call(AskedFor::Poll as u32, [0; 3]);
            recording.answer(Answer::No, &mut out);
        }
        assert_eq!(recording.polls_of_thread(), Some((thread, polls)));
    }
    out.extend(replay::polls_behind(&[2, 3]));
    let mut playback = Playback::new(out, 0).expect("a record");
    for (name, polls) in [(7, 3), (0, 2)] {
        let thread = if name == 0 { 0 } else { playback.thread(name) };
        playback.speak(thread);
        for _ in 0..polls {
            playback.call(AskedFor::Poll as u32, [0; 3]);
            assert_eq!(playback.due(AskedFor::Poll, 0), Ok(Due::Answer(Answer::No)));
        }
        playback.call(AskedFor::Poll as u32, [0; 3]);
        assert_eq!(playback.due(AskedFor::Poll, 0), Ok(Due::Anything));
    }
}

proptest! {
    /// Of several threads, one that polls until another one tells it to stop does so as often as chance has it.
    #[test]
    fn a_thread_that_polls_more_or_less_often_gets_the_same_answers(
        polls in proptest::collection::vec((0_u64..5, 0_u64..5, 0_u32..9), 0..20)
    ) {
        let poll = |recording: &mut Recording, out: &mut Vec<u8>| {
            recording.call(40, [1; 3]);
            recording.answer(Answer::No, out);
        };
        let (mut recording, mut out) = (Recording::default(), Vec::new());
        // While it was alone, each poll counts.
        poll(&mut recording, &mut out);
        let other = recording.add_thread(7, &mut out);
        for thread in [0, other] {
            recording.speak(thread);
            for (recorded, _, index) in &polls {
                (0..*recorded).for_each(|_| poll(&mut recording, &mut out));
                recording.call(41, [2; 3]);
                recording.answer(Answer::Index(Some(*index)), &mut out);
            }
        }
        recording.mark(Mark::End, &mut out);
        let mut playback = Playback::new(out, 0).expect("a record");
        playback.call(40, [1; 3]);
        prop_assert_eq!(playback.due(AskedFor::Poll, 0), Ok(Due::Answer(Answer::No)));
        let other = playback.thread(7);
        for thread in [0, other] {
            playback.speak(thread);
            for (recorded, played, index) in &polls {
                for count in 0..*played {
                    playback.call(40, [1; 3]);
                    let due = if count < *recorded { Due::Answer(Answer::No) } else { Due::NoInVain };
                    prop_assert_eq!(playback.due(AskedFor::Poll, 0), Ok(due));
                }
                playback.call(41, [2; 3]);
                prop_assert_eq!(playback.due(AskedFor::Index, 9), Ok(Due::Answer(Answer::Index(Some(*index)))));
            }
            playback.call(40, [1; 3]);
            prop_assert_eq!(playback.due(AskedFor::Poll, 0), Ok(Due::NoInVain));
        }
        prop_assert_eq!(playback.end(), Ok(()));
    }
}

#[test]
fn clocks_go_on_whichever_thread_reads_them() {
    let (mut recording, mut out) = (Recording::default(), Vec::new());
    recording.clock(1, 500, &mut out);
    let other = recording.add_thread(7, &mut out);
    recording.speak(other);
    recording.clock(1, 510, &mut out);
    let mut playback = Playback::new(out, 0).expect("a record");
    assert_eq!(playback.clock(1), Ok(Some(500)));
    let other = playback.thread(7);
    playback.speak(other);
    assert_eq!(playback.clock(1), Ok(Some(510)));
}

#[test]
fn a_request_that_another_thread_gets_too_early_is_not_taken_for_the_receive_that_had_it() {
    let (mut recording, mut out) = (Recording::default(), Vec::new());
    let other = recording.add_thread(7, &mut out);
    recording.posted(1, &mut out);
    recording.posted(2, &mut out);
    let first = recording.claim(1).flatten().expect("it is open");
    let second = recording.claim(2).flatten().expect("it is open");
    // The first is complete, and its request that of another receive, before that is told.
    recording.speak(other);
    recording.posted(1, &mut out);
    recording.speak(0);
    recording.claimed_arrived(first, ReceiveEnd::From(10), &mut out);
    recording.give_back(2, Some(second));
    recording.arrived(1, ReceiveEnd::From(30), &mut out);
    recording.arrived(2, ReceiveEnd::From(20), &mut out);
    let mut playback = Playback::new(out, 0).expect("a record");
    let got: Vec<_> = (0..3).map(|_| playback.posted()).collect();
    assert_eq!(got, [10, 20, 30].map(|source| Some(ReceiveEnd::From(source))));
}

#[test]
fn a_thread_that_was_not_heard_of_waits_for_all_that_was_recorded() {
    let (mut recording, mut out) = (Recording::default(), Vec::new());
    recording.call(29, [0; 3]);
    recording.turn(&mut out);
    recording.answer(Answer::Yes, &mut out);
    let mut playback = Playback::new(out, 0).expect("a record");
    let stranger = playback.thread(7);
    playback.speak(stranger);
    assert_eq!(playback.turn(), TurnDue::Later);
    playback.speak(0);
    playback.call(29, [0; 3]);
    assert_eq!(playback.turn(), TurnDue::Free, "it was alone");
    assert_eq!(playback.due(AskedFor::Poll, 0), Ok(Due::Answer(Answer::Yes)));
    playback.speak(stranger);
    assert_eq!(playback.turn(), TurnDue::Free);
}

#[test]
fn a_thread_that_was_not_heard_of_in_a_whole_record_is_a_divergence() {
    let (mut recording, mut out) = (Recording::default(), Vec::new());
    recording.mark(Mark::End, &mut out);
    let mut playback = Playback::new(out, 0).expect("a record");
    let stranger = playback.thread(7);
    playback.speak(stranger);
    assert_eq!(playback.due(AskedFor::Poll, 0), Err(Divergence::BehindTheEnd));
}

#[test]
fn a_rank_that_ends_before_all_its_threads_have_posted_is_a_divergence() {
    let (mut recording, mut out) = (Recording::default(), Vec::new());
    let other = recording.add_thread(7, &mut out);
    recording.speak(other);
    recording.turn(&mut out);
    recording.speak(0);
    recording.mark(Mark::End, &mut out);
    assert_eq!(Playback::new(out, 0).expect("a record").end(), Err(Divergence::EndsEarly));
}

#[test]
fn records_of_threads_that_contradict_themselves_are_none() {
    // Thread 1 acts, and there is none; a thread has the name of another; turns of one that was alone come late.
    let new = |name: u8| vec![20 << 3 | 7, 1, name];
    assert!(Playback::new(vec![0b11_001 | 1 << 5], 0).is_err());
    assert!(Playback::new([new(9), new(9)].concat(), 0).is_err());
    assert!(Playback::new([new(9), vec![21 << 3 | 7, 1, 1]].concat(), 0).is_err());
    assert!(Playback::new([new(9), new(8)].concat(), 0).is_ok());
}
