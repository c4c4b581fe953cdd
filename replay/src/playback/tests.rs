//! What was recorded is given to the same calls again.

use proptest::prelude::*;

use super::*;
use crate::answer::Answer;
use crate::call_check::FIRST_CALL_UNCHECKED_BY_PROBES;
use crate::cut::Detour;
use crate::recording::Recording;

/// What a made-up program does.
#[derive(Clone, Debug)]
enum Step {
    /// A call that asks for nothing.
    Plain(u32),
    /// One that gets an answer.
    Ask(AskedFor, Answer),
    /// Posts a receive.
    Post,
    /// One of the open receives gets a message; from how many, counted from the oldest.
    Arrive(usize, ReceiveEnd),
    /// Reads a clock.
    Clock(u8, i64),
    /// A call ends, so far behind the last one.
    Position(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let answers = prop_oneof![
        Just((AskedFor::Poll, Answer::Yes)),
        prop_oneof![
            Just(AskedFor::Poll),
            Just(AskedFor::PollSource),
            Just(AskedFor::PollIndex),
            Just(AskedFor::PollIndices)
        ]
        .prop_map(|asked| (asked, Answer::No)),
        (0_u32..300).prop_map(|from| (AskedFor::Source, Answer::From(Some(from)))),
        (0_u32..300).prop_map(|from| (AskedFor::PollSource, Answer::From(Some(from)))),
        proptest::option::of(0_u32..8).prop_map(|index| (AskedFor::Index, Answer::Index(index))),
        proptest::option::of(proptest::collection::vec(0_u32..8, 1..5))
            .prop_map(|indices| (AskedFor::PollIndices, Answer::Indices(indices))),
    ];
    let arrival = prop_oneof![Just(ReceiveEnd::Cancelled), (0_u32..300).prop_map(ReceiveEnd::From)];
    let step = prop_oneof![
        any::<u32>().prop_map(Step::Plain),
        answers.prop_map(|(asked, answer)| Step::Ask(asked, answer)),
        Just(Step::Post),
        (0_usize..4, arrival).prop_map(|(which, arrival)| Step::Arrive(which, arrival)),
        (0..CLOCKS as u8, any::<i64>()).prop_map(|(clock, shows)| Step::Clock(clock, shows)),
        (1_u64..300).prop_map(Step::Position),
    ];
    proptest::collection::vec(step, 0..200)
}

/// The record of the steps, the polls behind it, and what each posted receive got.
fn recorded(steps: &[Step]) -> (Vec<u8>, u64, Vec<Option<ReceiveEnd>>) {
    let (mut recording, mut out) = (Recording::default(), Vec::new());
    let (mut open, mut got) = (Vec::new(), Vec::new());
    let mut position = 0;
    for step in steps {
        match step {
            Step::Plain(call) => recording.call(*call, [1, 2, 3]),
            Step::Ask(asked, answer) => {
                recording.call(*asked as u32, [0; 3]);
                recording.answer(answer.clone(), &mut out);
            }
            Step::Post => {
                recording.call(99, [0; 3]);
                recording.posted(got.len() as u64, &mut out);
                open.push(got.len());
                got.push(None);
            }
            Step::Arrive(which, arrival) if *which < open.len() => {
                let number = open.remove(*which);
                recording.arrived(number as u64, *arrival, &mut out);
                got[number] = Some(*arrival);
            }
            Step::Arrive(..) => {}
            Step::Clock(clock, shows) => recording.clock(*clock, *shows, &mut out),
            Step::Position(behind) => {
                position += behind;
                recording.position(position, &mut out);
            }
        }
    }
    (out, recording.polls(), got)
}

fn playback(steps: &[Step]) -> (Playback, Vec<Option<ReceiveEnd>>) {
    let (bytes, polls, got) = recorded(steps);
    (Playback::new(bytes, polls).expect("a record"), got)
}

proptest! {
    /// Of polls that answer no, probes tell only how many there were; of clocks and of calls that only send, nothing.
    #[test]
    fn the_same_program_gets_the_answers_that_probes_saw(steps in steps()) {
        let mut out = Vec::new();
        let mut recording = Recording::by_probes(&mut out);
        let mut posts = 0;
        for step in &steps {
            match step {
                Step::Plain(call) if *call < FIRST_CALL_UNCHECKED_BY_PROBES => {
                    recording.call(*call, [1, 2, 3]);
                }
                Step::Ask(_, Answer::No) => recording.refused(1),
                Step::Ask(asked, answer) => {
                    recording.call(*asked as u32, [0; 3]);
                    recording.answer(answer.clone(), &mut out);
                }
                Step::Post => {
                    recording.call(9, [0; 3]);
                    recording.posted(posts, &mut out);
                    recording.arrived(posts, ReceiveEnd::From(posts as u32), &mut out);
                    posts += 1;
                }
                _ => {}
            }
        }
        let mut playback = Playback::new(out, recording.polls()).expect("a record");
        let mut posts = 0;
        for step in &steps {
            match step {
                Step::Plain(call) => playback.call(*call, [1, 2, 3]),
                Step::Ask(asked, answer) => {
                    playback.call(*asked as u32, [0; 3]);
                    prop_assert_eq!(playback.due(*asked, 8), Ok(Due::Answer(answer.clone())));
                }
                Step::Post => {
                    playback.call(9, [0; 3]);
                    prop_assert_eq!(playback.posted(), Some(ReceiveEnd::From(posts)));
                    posts += 1;
                }
                Step::Clock(clock, _) => prop_assert_eq!(playback.clock(*clock), Ok(None)),
                Step::Arrive(..) | Step::Position(_) => {}
            }
        }
        prop_assert!(playback.is_over() && playback.is_by_probes());
    }

    #[test]
    fn the_same_program_gets_the_same_answers(steps in steps(), is_identical in any::<bool>()) {
        let (mut playback, got) = playback(&steps);
        let (mut posts, mut position) = (0, 0);
        for step in &steps {
            match step {
                Step::Plain(call) => playback.call(*call, [1, 2, 3]),
                Step::Ask(asked, answer) => {
                    playback.call(*asked as u32, [0; 3]);
                    prop_assert_eq!(playback.due(*asked, 8), Ok(Due::Answer(answer.clone())));
                }
                Step::Post => {
                    playback.call(99, [0; 3]);
                    prop_assert_eq!(playback.posted(), got[posts]);
                    posts += 1;
                }
                Step::Arrive(..) => {}
                Step::Clock(clock, shows) => {
                    prop_assert_eq!(playback.clock(*clock), Ok(Some(*shows)));
                }
                Step::Position(behind) => {
                    position += behind;
                    if is_identical {
                        prop_assert_eq!(playback.position(), Ok(Some(position)));
                    }
                }
            }
        }
        prop_assert!(playback.is_over());
        if is_identical {
            prop_assert_eq!(playback.position(), Ok(None));
        }
        prop_assert_eq!(playback.clock(0), Ok(None));
        prop_assert_eq!(playback.end(), Ok(()));
        prop_assert_eq!(playback.due(AskedFor::Source, 0), Ok(Due::Anything));
    }

    #[test]
    fn a_record_that_is_cut_plays_up_to_there(steps in steps(), part in 0_usize..200) {
        let steps = &steps[..part.min(steps.len())];
        let (bytes, polls, _) = recorded(steps);
        prop_assert!(Playback::new(bytes, polls).is_ok());
    }

    #[test]
    fn whatever_the_bytes_are_it_is_refused_or_plays(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        asked in proptest::collection::vec(0_u8..7, 0..300),
    ) {
        if let Ok(mut playback) = Playback::new(bytes, 3) {
            for number in asked {
                let _ = playback.due(AskedFor::of_number(number).expect("one of seven"), 4);
                let _ = playback.clock(number);
                playback.posted();
            }
            let _ = playback.end();
        }
    }
}

fn of_answers(answers: &[(AskedFor, Answer)]) -> Playback {
    playback(&answers.iter().map(|(asked, answer)| Step::Ask(*asked, answer.clone())).collect::<Vec<_>>()).0
}

#[test]
fn another_call_than_the_recorded_one_is_a_divergence() {
    let mut playback = of_answers(&[(AskedFor::Source, Answer::From(Some(3)))]);
    playback.call(AskedFor::Poll as u32, [0; 3]);
    let recorded = Answer::From(Some(3));
    assert_eq!(
        playback.due(AskedFor::Poll, 0),
        Err(Divergence::AnotherCall { asked: AskedFor::Poll, recorded })
    );
}

#[test]
fn probes_notice_another_argument_of_an_earlier_call_too() {
    let mut out = Vec::new();
    let mut recording = Recording::by_probes(&mut out);
    recording.call(1, [1, 2, 3]);
    recording.refused(1);
    recording.call(AskedFor::Source as u32, [0; 3]);
    recording.answer(Answer::From(Some(3)), &mut out);
    let mut playback = Playback::new(out, 0).expect("a record");
    playback.call(1, [1, 2, 4]);
    playback.call(AskedFor::Poll as u32, [0; 3]);
    assert_eq!(playback.due(AskedFor::Poll, 0), Ok(Due::Answer(Answer::No)));
    playback.call(AskedFor::Source as u32, [0; 3]);
    assert_eq!(playback.due(AskedFor::Source, 0), Err(Divergence::OtherCalls));
}

#[test]
fn a_record_that_becomes_one_of_probes_in_the_middle_is_none() {
    let mut out = Vec::new();
    let mut recording = Recording::default();
    recording.answer(Answer::Yes, &mut out);
    recording.mark(Mark::ByProbes, &mut out);
    assert!(Playback::new(out, 0).is_err());
}

#[test]
fn another_argument_of_an_earlier_call_is_a_divergence() {
    let steps = [Step::Plain(1), Step::Ask(AskedFor::Source, Answer::From(Some(3)))];
    let (mut playback, _) = playback(&steps);
    playback.call(1, [1, 2, 4]);
    playback.call(AskedFor::Source as u32, [0; 3]);
    assert_eq!(playback.due(AskedFor::Source, 0), Err(Divergence::OtherCalls));
}

#[test]
fn a_call_that_cannot_answer_no_is_a_divergence_where_polls_are_recorded() {
    let mut playback = of_answers(&[(AskedFor::Poll, Answer::No), (AskedFor::Poll, Answer::No)]);
    assert_eq!(playback.due(AskedFor::Poll, 0), Ok(Due::Answer(Answer::No)));
    let asked = AskedFor::Source;
    assert_eq!(playback.due(asked, 0), Err(Divergence::AnotherCall { asked, recorded: Answer::No }));
}

#[test]
fn an_end_that_is_too_early_or_too_late_is_a_divergence() {
    let (mut recording, mut out) = (Recording::default(), Vec::new());
    recording.call(AskedFor::Source as u32, [0; 3]);
    recording.answer(Answer::From(Some(1)), &mut out);
    recording.mark(Mark::End, &mut out);
    let mut playback = Playback::new(out, 0).expect("a record");
    assert!(playback.is_whole());
    assert_eq!(playback.end(), Err(Divergence::EndsEarly));
    playback.call(AskedFor::Source as u32, [0; 3]);
    assert_eq!(playback.due(AskedFor::Source, 0), Ok(Due::Answer(Answer::From(Some(1)))));
    assert_eq!(playback.end(), Ok(()));
    assert_eq!(playback.due(AskedFor::Source, 0), Err(Divergence::BehindTheEnd));
}

#[test]
fn a_clock_that_is_read_where_none_was_and_one_that_is_not_read_are_divergences() {
    let mut playback = of_answers(&[(AskedFor::Source, Answer::From(Some(3)))]);
    assert_eq!(playback.clock(0), Err(Divergence::ClockRead { recorded: Answer::From(Some(3)) }));
    let mut playback = of_answers(&[(AskedFor::Poll, Answer::No)]);
    assert_eq!(playback.clock(0), Err(Divergence::ClockRead { recorded: Answer::No }));
    let (mut recording, mut out) = (Recording::default(), Vec::new());
    recording.clock(1, 77, &mut out);
    let playback = || Playback::new(out.clone(), 0).expect("a record");
    assert_eq!(playback().due(AskedFor::Source, 0), Err(Divergence::NoClockRead { asked: AskedFor::Source }));
    let another = playback().clock(2).expect_err("another one is next");
    assert_eq!(another, Divergence::AnotherClock { read: 2, recorded: Some(1) });
    assert_eq!(
        another.to_string(),
        "the program reads the clock of gettimeofday(); in the record it reads that of time()"
    );
    assert_eq!(playback().end(), Err(Divergence::EndsEarly));
}

#[test]
fn beside_several_threads_each_clock_goes_on_for_itself_however_often_others_are_read() {
    let (mut recording, mut out) = (Recording::default(), Vec::new());
    let row = recording.add_thread(CLOCKS_ROW, &mut out);
    for (clock, shows) in [(1, 70), (2, 5), (1, 77), (2, 9)] {
        recording.speak(row);
        recording.clock(clock, shows, &mut out);
        recording.speak(0);
        recording.answer(Answer::Yes, &mut out);
    }
    let mut playback = Playback::new(out.clone(), 0).expect("a record");
    assert_eq!(playback.clocks_beside_threads(), Some(row));
    playback.speak(row);
    // More often than then, less often, and in another order.
    let shown: Vec<_> = [1, 1, 1, 2].into_iter().map(|clock| playback.clock(clock)).collect();
    assert_eq!(shown, [Ok(Some(70)), Ok(Some(77)), Ok(None), Ok(Some(5))]);
    playback.speak(0);
    for _ in 0..4 {
        assert_eq!(playback.due(AskedFor::Poll, 0), Ok(Due::Answer(Answer::Yes)));
    }
    assert!(playback.is_over() && playback.end().is_ok());
    let older = Playback::new(Vec::new(), 0).expect("a record");
    assert_eq!(older.clocks_beside_threads(), None);
}

#[test]
fn a_call_that_ends_where_another_was_answered_is_a_divergence() {
    let mut playback = of_answers(&[(AskedFor::Source, Answer::From(Some(3)))]);
    assert_eq!(playback.position(), Err(Divergence::OtherCalls));
    let mut playback = of_answers(&[(AskedFor::Poll, Answer::No), (AskedFor::Poll, Answer::No)]);
    playback.call(AskedFor::Poll as u32, [0; 3]);
    assert_eq!(playback.due(AskedFor::Poll, 0), Ok(Due::Answer(Answer::No)));
    assert_eq!(playback.position(), Err(Divergence::OtherCalls));
}

#[test]
fn an_index_beyond_the_requests_is_a_divergence() {
    let mut playback = of_answers(&[(AskedFor::Index, Answer::Index(Some(5)))]);
    playback.call(AskedFor::Index as u32, [0; 3]);
    assert_eq!(playback.due(AskedFor::Index, 5), Err(Divergence::NoSuchRequest { index: 5, requests: 5 }));
}

/// A thread polls three times in vain, while others compute, and then gets a message; the first clock shows 70 before and 77 meanwhile.
fn beside_others_that_compute() -> Vec<u8> {
    let (mut recording, mut out) = (Recording::default(), Vec::new());
    recording.clock(1, 70, &mut out);
    let row = recording.add_thread(CLOCKS_ROW, &mut out);
    for _ in 0..3 {
        recording.call(9, [0; 3]);
        recording.answer(Answer::No, &mut out);
    }
    recording.speak(row);
    recording.clock(1, 77, &mut out);
    recording.speak(0);
    recording.call(5, [0; 3]);
    recording.answer(Answer::From(Some(3)), &mut out);
    out
}

#[test]
fn the_only_thread_that_calls_polls_and_reads_clocks_as_often_as_chance_has_it_beside_others_that_compute() {
    for polled in 0..6 {
        let mut playback = Playback::new(beside_others_that_compute(), 0).expect("a record");
        assert_eq!(playback.clock(1), Ok(Some(70)));
        for nth in 0..polled {
            playback.call(9, [0; 3]);
            let due = if nth < 3 { Due::Answer(Answer::No) } else { Due::NoInVain };
            assert_eq!(playback.due(AskedFor::Poll, 0), Ok(due));
        }
        assert_eq!([playback.clock(1), playback.clock(1)], [Ok(Some(77)), Ok(None)]);
        playback.call(5, [0; 3]);
        assert_eq!(playback.due(AskedFor::Source, 0), Ok(Due::Answer(Answer::From(Some(3)))));
        assert!(playback.end().is_ok());
    }
}

#[test]
fn calls_are_counted_as_they_were_however_often_it_polls() {
    for polled in 0..6 {
        let detour = Some(Detour { call: 4, value: 8 });
        let cut = RankCut { calls: Some(4), detour, posts: [].into() };
        let mut playback = Playback::new(beside_others_that_compute(), 0).expect("a record").cut(cut);
        assert_eq!(playback.clock(1), Ok(Some(70)));
        for _ in 0..polled {
            playback.call(9, [0; 3]);
            assert_ne!(playback.due(AskedFor::Poll, 0), Ok(Due::Anything), "it is left later");
        }
        playback.call(5, [0; 3]);
        assert_eq!(playback.due(AskedFor::Source, 0), Ok(Due::Answer(Answer::From(Some(8)))));
        assert!(!playback.has_ended());
        playback.call(5, [0; 3]);
        assert!(playback.has_ended());
    }
}

#[test]
fn that_others_compute_is_known_of_what_probes_recorded_by_the_program_that_is_replayed() {
    let mut out = Vec::new();
    let mut recording = Recording::by_probes(&mut out);
    recording.refused(3);
    recording.call(5, [0; 3]);
    recording.answer(Answer::From(Some(3)), &mut out);
    for knows in [false, true] {
        let mut playback = Playback::new(out.clone(), 0).expect("a record");
        if knows {
            playback.threads_compute();
        }
        playback.call(5, [0; 3]);
        assert_eq!(playback.due(AskedFor::Source, 0).is_ok(), knows, "without a poll");
    }
}
